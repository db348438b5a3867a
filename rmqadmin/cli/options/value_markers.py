"""What the value of an option or a word is. The marker stands beside its ``typer.Option`` or ``typer.Argument``. From
it follow what is completed, what the log of changes holds, what the palette fills in, and which near name an error
suggests, and the word in the help. A text without a marker may be anything, and is written down
nowhere."""

import inspect
import typing
from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Any

import typer


class Value(StrEnum):
    """A single word stands in the help where an option has no other. The dashboard's screens tell what is selected by
    the same words."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"
    CLUSTERS = "CLUSTERS"
    BROKER_ADDR = "HOST:PORT"
    BROKER_NAME = "BROKER"
    ADDRESSES = "HOST:PORT[;...]"
    QUEUE = "QUEUE"
    CLIENT = "CLIENT"
    ID = "ID"
    USER = "USER"
    SUBJECT = "User:NAME"
    RESOURCE = "RESOURCE"
    ACTION = "ACTION"
    CONTEXT = "CONTEXT"
    PROPERTY = "PROPERTY"
    KV_KEY = "KV_KEY"
    FIELDS = "FIELDS"
    FORMAT = "FORMAT"
    FILE = "FILE"
    NAME = "NAME"  # of something else at the servers or on this machine
    TIME = "TIME"
    SECONDS = "SECONDS"
    NUMBER = "a number or a size"
    CHOICE = "one of the words that the help lists"
    TEXT = "whatever the user likes: bodies, keys, conditions, expressions"
    SECRET = "a secret, which is written down nowhere"

    @property
    def is_told(self) -> bool:
        """Whether such a value may be written down."""
        return self not in (Value.TEXT, Value.SECRET)


def option(*spellings_and_help: str, **more: Any) -> Any:
    """An option of a command: its spellings, then its help. ``more`` is as for ``typer.Option``; words to choose from
    are taken in any case unless it says otherwise."""
    *spellings, help = spellings_and_help
    return typer.Option(*spellings, help=help, **{"case_sensitive": False, **more})


def argument(help: str, **more: Any) -> Any:
    """A word of a command, as ``option``."""
    return typer.Argument(help=help, **{"case_sensitive": False, **more})


def value_of(parameter: inspect.Parameter) -> Value:
    """What the value of an option or word is: its marker or, for numbers, choices and flags, its type."""
    metas = typing.get_args(parameter.annotation)
    marked = next((meta for meta in metas if isinstance(meta, Value)), None)
    if marked is not None:
        return marked
    parts = [part for part in _parts(metas[0] if metas else parameter.annotation) if isinstance(part, type)]
    if any(issubclass(part, Enum) for part in parts):
        return Value.CHOICE
    return Value.NUMBER if any(issubclass(part, int | float) for part in parts) else Value.TEXT


def _parts(kind: Any) -> Iterable[Any]:
    found = typing.get_args(kind)
    return [part for each in found for part in _parts(each)] if found else [kind]
