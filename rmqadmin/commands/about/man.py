"""``man``: shows the manual pages, on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli import registry
from rmqadmin.cli.call import Call
from rmqadmin.cli.manual.man_page import ManPage
from rmqadmin.cli.manual.pages import command_page, program_page
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.parsing.command_tree import all_commands, describe
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import NotFoundError

TEXT_WIDTH = 80
"""Wider lines are hard to read."""


class ManualRow(Row, frozen=True):
    page: Annotated[str, doc("name of the page, as `man` knows it where it is installed", key=True)]
    text: Annotated[str, doc("the page as plain text")]
    roff: Annotated[str, doc("the page in the language of `man`", wide=True)]


class Manual(Result, frozen=True):
    """The page."""

    row_type: ClassVar[type[Row]] = ManualRow
    page: ManPage

    def rows(self) -> Sequence[ManualRow]:
        return [ManualRow(page=self.page.name, text="".join(self.page.text(TEXT_WIDTH)), roff=self.page.roff())]

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        return self.page.text(min(width or TEXT_WIDTH, TEXT_WIDTH))


def man(
    call: Call,
    words: Annotated[
        list[str] | None, Value.CHOICE, typer.Argument(metavar="[COMMAND]", help="Without it, the program's.")
    ] = None,
) -> Manual:
    """Works without `man`; long pages go through the pager. With `man`, and the package's share/man on its path,
    `man rmqadmin-topicRoute` shows the same.

    Examples:
      rmqadmin man
      rmqadmin man topicRoute
      rmqadmin man msg cat
    """
    if not words:
        return Manual(program_page(all_commands()))
    name = " ".join(words)
    entry = registry.find(name)
    if entry is None:
        members = ", ".join(f"`rmqadmin man {member.name}`" for member in registry.group_members(name))
        raise NotFoundError(f"there is no command {name!r}", hint=members or "`rmqadmin man` lists the commands.")
    return Manual(command_page(describe(entry)))
