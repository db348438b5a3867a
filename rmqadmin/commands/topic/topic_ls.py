"""``topic ls``: lists topics."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ShowAll
from rmqadmin.cli.shared.known_topics import Topics, known_topics


def topic_ls(
    call: Call,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Only topics with this in their names.")] = None,
    show_all: ShowAll = False,
) -> Topics:
    """A terminal shows retry and system topics only with --all; a pipe gets all of them.

    Examples:
      rmqadmin topic ls
      rmqadmin topic ls Order --output name
    """
    found = [topic for topic in known_topics(call) if text is None or text.strip() in topic]
    return Topics(call.own_topics(found, show_all=show_all))
