"""Names: which one a user may have meant, which are not of users, and which nothing reads in files that people write:
a mistyped name would have no effect."""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.errors import UsageError
from rmqproto.names import RETRY_PREFIX, is_system_topic, reply_topic

if TYPE_CHECKING:
    from rmqproto.bodies.routes import ClusterInfo

_UNKNOWN_NAME = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$?\.?(.*)`)?", re.DOTALL)


LIKENESS = 0.6
"""What ``difflib`` takes for a close match."""


def near_name(name: str, known: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """The known name most like ``name`` in any case, as it is written; None if none is. ``likeness``: 0 to 1."""
    from difflib import get_close_matches  # only for mistyped names

    spelled = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=likeness)
    return spelled[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """A hint that suggests ``near_name``."""
    near = near_name(name, known, likeness)
    return None if near is None else f"Did you mean {near}?"


def unknown_name(problem: str, known: Iterable[str], usual: Iterable[str] = ()) -> tuple[str, str] | None:
    """For the words in which msgspec refuses an unknown name: better words, and a hint with the nearest known name,
    else with the usual ones. None for another problem."""
    found = _UNKNOWN_NAME.fullmatch(problem)
    if found is None:
        return None
    name, place = found.groups()
    where = f" in {place}" if place and place != "..." else ""
    names = list(known)
    hint = did_you_mean(name, names) or f"Known are: {', '.join(usual or names)}."
    return f"there is no field {name!r}{where}", hint


def is_made_by_brokers(topic: str, servers: Collection[str] = ()) -> bool:
    """Whether brokers made the topic: system topics, retry topics, and ``servers``, the result of
    ``topics_of_servers``. Dead-letter topics do not count, because people look for them."""
    return is_system_topic(topic) or topic.startswith(RETRY_PREFIX) or topic in servers


def topics_of_servers(info: ClusterInfo) -> set[str]:
    """The topics that brokers make for themselves: of their own name, of their cluster's, and for replies."""
    return topics_named_after(info.broker_addr_table, info.cluster_addr_table)


def topics_named_after(broker_names: Iterable[str], clusters: Iterable[str]) -> set[str]:
    """``topics_of_servers``, given the names."""
    clusters = list(clusters)
    return {*broker_names, *clusters, *map(reply_topic, clusters)}


def unknown_field(where: str, field: str, known: Sequence[str]) -> UsageError:
    advice = did_you_mean(field, known) or f"The fields are {', '.join(known)}."
    return UsageError(f"{where}: there is no field {field}", hint=advice)


_MEMBERS: dict[str, tuple[str, ...]] = {
    "customizedRetryPolicy": ("next",),
    "exponentialRetryPolicy": ("initial", "max", "multiplier"),
}
"""The names in objects for which we have no Struct."""


def check_nested(where: str, value: Any, kind: Any) -> None:
    """UsageError, which begins with the field's place, for one that a Struct of ours does not have, at any depth."""
    if isinstance(kind, UnionType):
        kind = next((part for part in typing.get_args(kind) if part is not type(None)), kind)
    if typing.get_origin(kind) is list and isinstance(value, list):
        for at, each in enumerate(value):
            check_nested(f"{where}[{at}]", each, typing.get_args(kind)[0])
    if typing.get_origin(kind) is dict and isinstance(value, Mapping):
        for name, each in value.items():
            check_nested(f"{where}.{name}", each, typing.get_args(kind)[1])
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, Mapping)):
        return
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for field, each in value.items():
        if field not in types:
            raise unknown_field(where, field, [*types])
        for member in each if field in _MEMBERS and isinstance(each, Mapping) else ():
            if member not in _MEMBERS[field]:
                raise unknown_field(f"{where}.{field}", member, _MEMBERS[field])
        check_nested(f"{where}.{field}", each, types[field])
