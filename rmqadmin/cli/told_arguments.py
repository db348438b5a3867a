"""Decides which options of a command line are written to the log: names, numbers and choices. Of free text only the
option's name is, because the text may be a password, a message, a customer's key, or anything else. Which it is follows
from its metavar in the help; one that is not listed here is free text."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from rmqadmin.core.audit.trail import HIDDEN, Arguments
from rmqadmin.options.command_options import spellings_of
from rmqadmin.options.context_words import SECRET


class ValueKind(Enum):
    """What the value of an option is."""

    NAME = "the name of something at the servers or on this machine"
    NUMBER = "a number, a size or a point in time"
    CHOICE = "one of the words that the help lists"
    FREE_TEXT = "whatever the user likes: bodies, keys, conditions, expressions"


_KINDS = {
    ValueKind.NAME: (
        "ADDRESS", "BROKER", "BROKER:QUEUE", "CLIENT", "CLUSTER", "CLUSTER:NAME:ID", "CLUSTERS", "CONTEXT",
        "CONTEXT|-|none", "DIR", "FILE", "FILE|-", "GROUP", "HOST:PORT", "HOST:PORT[;...]", "HOST[:PORT]=HOST[:PORT]",
        "ID", "ID,ID", "ID...", "ID;...", "ID[,ID...]", "IP,...", "K", "KV_KEY", "MODULE:FUNCTION", "NAME", "NAME,...",
        "NAME;...", "NAMES", "PROPERTY", "RESOURCE", "RULE...", "SETTING", "TAG", "TOPIC", "TYPE:NAME", "TYPE:NAME,...",
        "USER", "User:NAME", "User:NAME,...", "[BROKER:]QUEUE", "[CONTEXT]", "[CONTEXT]...", "[FILE|-]", "[GROUP]",
        "[TOPIC]", "same|group|topic:NAME", "same|topic:NAME|group|file:PATH", "group|same|topic:NAME",
        "group|same|topic:NAME|file:PATH", "TOPIC...", "GROUP...",
    ),
    ValueKind.NUMBER: (
        "BYTES", "COUNT", "DURATION", "MS", "N", "N|P%", "OFFSET", "QUEUE", "S", "SECONDS", "SIZE", "TIME",
        "begin|end|OFFSET|+N|-N|TIME",
    ),
    ValueKind.CHOICE: (
        "ACTION", "CHARSET", "CHECK", "PART", "R|W|RW|NUMBER", "first|last", "id|key|origin-id|body", "queue",
        "topics|subscriptionGroups", "[CODE]", "[COMMAND]", "bash|zsh|fish",
    ),
    ValueKind.FREE_TEXT: (
        "EXPR", "FORMAT", "JSON", "K=V", "KEY", "KEYS", "LINE", "PATH=TEXT", "REFERENCE", "REGEX", "SQL", "TAGS",
        "TEXT", "THRESHOLD[,...]", "URL", "[BODY|@FILE|-]...", "[TEXT]",
    ),
}  # fmt: skip

KIND_OF_METAVAR = {metavar: kind for kind, metavars in _KINDS.items() for metavar in metavars}


def kind_of(parameter: inspect.Parameter) -> ValueKind | None:
    """What the value of an option is, by its metavar or, without one, by its type. None for a metavar that is not
    listed."""
    metas = typing.get_args(parameter.annotation)
    metavar = getattr(metas[-1], "metavar", None) if metas else None
    if metavar is not None:
        return KIND_OF_METAVAR.get(metavar)
    parts = list(_parts(metas[0] if metas else parameter.annotation))
    if str in parts:
        return ValueKind.FREE_TEXT
    return (
        ValueKind.CHOICE
        if any(isinstance(part, type) and issubclass(part, Enum) for part in parts)
        else ValueKind.NUMBER
    )


def is_told(parameter: inspect.Parameter) -> bool:
    """Whether a value of this option may be written down."""
    is_secret = SECRET in typing.get_args(parameter.annotation)
    return not is_secret and kind_of(parameter) not in (ValueKind.FREE_TEXT, None)


def _parts(kind: Any) -> Iterable[Any]:
    found = typing.get_args(kind)
    return [part for each in found for part in _parts(each)] if found else [kind]


def told_arguments(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> Arguments:
    """The options to write down, without those that were not given. In place of a text that may not be told stands a
    mark that there was one."""
    told: dict[str, Any] = {}
    untold: list[str] = []
    for parameter in parameters:
        value = values.get(parameter.name)
        if value is None or value is False or value == []:
            continue
        plain, name = _plain(value), (spellings_of(parameter) or (parameter.name,))[-1]
        if is_told(parameter):
            told[name] = plain
        else:
            told[name] = HIDDEN
            untold += [str(each) for each in (plain if isinstance(plain, list) else [plain])]
    return Arguments(told, untold)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | bool) else str(value)
