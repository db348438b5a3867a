"""Names for the completion of other shells: those that commands have seen. No server is asked."""

from __future__ import annotations

from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.prompt.candidates import LineSoFar
from rmqadmin.cli.shells.names_cache import KINDS, remembered
from rmqadmin.cli.shells.words import CONTEXT_NAMES
from rmqadmin.core.contexts.context_store import ContextStore
from rmqclient.addresses import parse_namesrvs
from rmqproto.errors import RocketMQError


def remembered_names(kind: str, line: LineSoFar) -> list[str]:
    """The names of a kind in the cluster that the line will ask; none if that cannot be told."""
    if kind == CONTEXT_NAMES:
        return ContextStore().names()
    if kind not in KINDS:
        return []
    options = CommonOptions(namesrv_addr=line.values.get("--namesrvAddr"), context=line.values.get("--context"))
    try:
        return remembered(parse_namesrvs(options.settings().setting("namesrv_addr").value), kind)
    except RocketMQError:
        return []
