"""docs/tui.md names every key that can be changed, and no other."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

from textual.binding import Binding
from textual.dom import DOMNode

from rmqadmin import registry, tui
from rmqadmin.command_tree import describe
from tests.rmqadmin.page_lines import command_lines

MANUAL = Path(__file__).parents[3] / "docs/tui.md"


def test_ids_of_keys() -> None:
    text = MANUAL.read_text().partition("\nIds: ")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`([\w.]+)`", text)) == sorted(ids())


def test_the_commands_of_the_page_are_those_of_the_help() -> None:
    """Which ``test_terminal.py`` runs."""
    entry = registry.find("tui")
    assert entry is not None
    assert command_lines("docs/tui.md") == list(describe(entry).examples)


def ids() -> set[str]:
    modules = [import_module(found.name) for found in pkgutil.walk_packages(tui.__path__, "rmqadmin.tui.")]
    classes = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    own = [one for one in classes if issubclass(one, DOMNode) and one.__module__.startswith("rmqadmin.")]
    bindings = [binding for one in own for binding in vars(one).get("BINDINGS", [])]
    return {binding.id for binding in bindings if isinstance(binding, Binding) and binding.id}
