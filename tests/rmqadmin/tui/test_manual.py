"""The examples of docs/tui.md."""

from __future__ import annotations

from rmqadmin.cli import registry
from rmqadmin.cli.parsing.command_tree import describe
from tests.rmqadmin.pages.page_lines import command_lines


def test_the_commands_of_the_page_are_those_of_the_help() -> None:
    """``test_terminal.py`` runs those commands."""
    entry = registry.find("tui")
    assert entry is not None
    assert command_lines("docs/tui.md") == list(describe(entry).examples)
