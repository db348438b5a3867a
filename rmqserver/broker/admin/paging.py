"""Pages of a table, for tools and replicas that read it in portions (21 and 201 of 5.5.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rmqproto.bodies.base import DataVersion
from rmqproto.errors import ProtocolError
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.config.broker_config import BrokerConfig

E = TypeVar("E")


def page(
    entries: Mapping[str, E],
    version: DataVersion,
    config: BrokerConfig,
    first: int | None,
    version_text: str | None,
    count_max: int | None,
) -> Mapping[str, E]:
    """The entries from number ``first`` on, in the order of their names. A reader that names no bound gets all of them.

    ``version_text`` is the version of the pages that the reader already has. If the table has changed since, the answer
    starts from the beginning, which the reader recognizes by the version.
    """
    if not config.enable_split_metadata or (first is None and version_text is None and count_max is None):
        return entries
    count = config.split_metadata_size if count_max is None else min(count_max, config.split_metadata_size)
    start = first or 0
    if start and not _is_version(version_text, version):
        start = 0
    names = sorted(entries)[max(start, 0) :][: max(count, 0)]
    return {name: entries[name] for name in names}


def _is_version(text: str | None, version: DataVersion) -> bool:
    if not text:
        return False
    try:
        return loads_untrusted(text, DataVersion) == version
    except ProtocolError:
        return False
