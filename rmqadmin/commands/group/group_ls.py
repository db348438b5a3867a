"""``group ls``: lists consumer groups."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ShowAll
from rmqadmin.cli.shared.all_groups import GroupsProgress, all_groups


def group_ls(
    call: Call,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Only groups with this in their names.")] = None,
    show_all: ShowAll = False,
) -> GroupsProgress:
    """Groups that nobody reads with are there, too, with what they have not consumed.

    Examples:
      rmqadmin group ls
      rmqadmin group ls Order --output name
    """
    return GroupsProgress(all_groups(call, show_all=show_all, text="" if text is None else text.strip()))
