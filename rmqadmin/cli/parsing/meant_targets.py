"""Fills in what a command line leaves to the program: the address behind a broker's name, the port behind a host, the
only cluster. Refuses several names where a command takes one."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmqadmin.cli.options.command_options import (
    A_BROKER,
    A_BROKER_NAME,
    INSTEAD_OF_CLUSTER,
    OR_THE_ONLY,
    SEVERAL_NAMES,
    spellings_of,
)
from rmqadmin.cli.options.value_markers import Value, value_of
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.cli.call import Call


def with_meant_targets(call: Call, own: Sequence[inspect.Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a command's own options, as the command needs them. Errors as of ``core.servers.meant_brokers`` and
    of ``targets.only_cluster``. No server is asked if nothing is left open. UsageError for names joined by commas."""
    found = dict(values)
    _require_one_name(call.command, own, values)
    for parameter in own:
        marks = typing.get_args(parameter.annotation)
        value = values.get(parameter.name)
        if isinstance(value, str) and (A_BROKER in marks or A_BROKER_NAME in marks):
            from rmqadmin.core.servers import meant_brokers  # only if a broker is named

            meant = meant_brokers.broker_addr_of if A_BROKER in marks else meant_brokers.broker_name_of
            found[parameter.name] = meant(call.admin, value)
        if value is None and OR_THE_ONLY in marks and not _is_other_said(own, values):
            from rmqadmin.core.targets import only_cluster

            found[parameter.name] = only_cluster(call.admin.cluster_info(), _missing(own, parameter))
    return found


_FOR_SEVERAL = {
    "deleteTopic": "topic delete",
    "updateTopic": "topic create",
    "topicClusterList": "topic describe",
    "consumerProgress": "group describe",
    "group lag": "group describe",
}
"""Commands that do for several names what these do for one."""


def _require_one_name(command: str, own: Sequence[inspect.Parameter], values: Mapping[str, Any]) -> None:
    """No topic or group has a comma in its name, so that such a name is a list."""
    for parameter in own:
        marks, value = typing.get_args(parameter.annotation), values.get(parameter.name)
        noun = _NOUNS.get(value_of(parameter))
        if not isinstance(value, str) or "," not in value or SEVERAL_NAMES in marks or noun is None:
            continue
        names = [part.strip() for part in value.split(",") if part.strip()]
        several = _FOR_SEVERAL.get(command)
        told = "Run it once for each." if several is None else f"For several: rmqadmin {several} {' '.join(names)}"
        raise UsageError(f"{command} takes one {noun}, and {value!r} is a list", hint=told)


_NOUNS = {Value.TOPIC: "topic", Value.GROUP: "group"}


def _is_other_said(own: Sequence[inspect.Parameter], values: Mapping[str, Any]) -> bool:
    """Whether the command line names brokers in another way than by their cluster."""
    return any(values.get(each.name) for each in _instead(own))


def _missing(own: Sequence[inspect.Parameter], cluster: inspect.Parameter) -> str:
    """mqadmin's words for the options of which one is needed."""
    others = [spellings_of(each)[0] for each in _instead(own) if spellings_of(each)[0] != "--all-clusters"]
    return " or ".join([*others, spellings_of(cluster)[0]])


def _instead(own: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    return [each for each in own if set(spellings_of(each)) & INSTEAD_OF_CLUSTER]
