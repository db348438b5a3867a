"""Decides which options of a command line are written to the log: names, numbers and choices. Free text is not, because
it may be a password, a message, or anything else. It is recognised by its metavar in the help."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from rmqadmin.core.audit.trail import Arguments
from rmqadmin.options.command_options import spellings_of
from rmqadmin.options.context_words import SECRET

TOLD_METAVARS = frozenset({
    "ACTION", "ADDRESS", "BROKER", "BROKER:QUEUE", "BYTES", "CHARSET", "CLIENT", "CLUSTER", "CLUSTER:NAME:ID",
    "CLUSTERS", "CONTEXT", "COUNT", "DIR", "EXPR", "FILE", "FILE|-", "GROUP", "HOST:PORT", "HOST:PORT[;...]", "ID",
    "ID,ID", "ID...", "ID;...", "ID[,ID...]", "IP,...", "K", "KEY", "KEYS", "KV_KEY", "MODULE:FUNCTION", "MS", "N",
    "NAME", "NAME,...", "NAME;...", "NAMES", "N|P%", "OFFSET", "PROPERTY", "REGEX", "RESOURCE", "RULE...",
    "R|W|RW|NUMBER", "SECONDS", "SIZE", "SQL", "TAG", "TAGS", "TIME", "TOPIC", "TYPE:NAME", "TYPE:NAME,...", "USER",
    "User:NAME", "User:NAME,...", "[BROKER:]QUEUE", "[GROUP]", "[TOPIC]", "begin|end|OFFSET|+N|-N|TIME", "first|last",
    "id|key|origin-id|body", "queue", "same|group|topic:NAME", "same|topic:NAME|group|file:PATH",
    "topics|subscriptionGroups",
})  # fmt: skip
"""Metavars of values that are not free text. A value with any other metavar is not written down."""


def is_told(parameter: inspect.Parameter) -> bool:
    """Whether a value of this option may be written down. Text without a metavar may not."""
    metas = typing.get_args(parameter.annotation)
    if SECRET in metas:
        return False
    metavar = getattr(metas[-1], "metavar", None) if metas else None
    if metavar is not None:
        return metavar in TOLD_METAVARS
    return not any(part is str for part in _parts(metas[0] if metas else parameter.annotation))


def _parts(kind: Any) -> Iterable[Any]:
    found = typing.get_args(kind)
    return [part for each in found for part in _parts(each)] if found else [kind]


def told_arguments(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> Arguments:
    """The options to write down, without those that were not given."""
    told: dict[str, Any] = {}
    untold: list[str] = []
    for parameter in parameters:
        value = values.get(parameter.name)
        if value is None or value is False or value == []:
            continue
        plain = _plain(value)
        if is_told(parameter):
            told[(spellings_of(parameter) or (parameter.name,))[-1]] = plain
        else:
            untold += [str(each) for each in (plain if isinstance(plain, list) else [plain])]
    return Arguments(told, untold)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | bool) else str(value)
