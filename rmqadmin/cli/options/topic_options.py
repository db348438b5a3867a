"""Options of the commands that take several topics or groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from rmqadmin.cli.options.value_markers import Value
from rmqproto.errors import UsageError

TopicNames = Annotated[
    list[str], Value.TOPIC, typer.Argument(metavar="TOPIC...", help="Topic names; also joined by commas.")
]
GroupNames = Annotated[
    list[str], Value.GROUP, typer.Argument(metavar="GROUP...", help="Consumer groups; also joined by commas.")
]


def topic_names(words: Sequence[str]) -> list[str]:
    """The names in words of which each may hold several, joined by commas: no name has one. Each name once. UsageError
    if there is none."""
    found = [name for word in words for part in word.split(",") if (name := part.strip())]
    if not found:
        raise UsageError("no name is given")
    return list(dict.fromkeys(found))
