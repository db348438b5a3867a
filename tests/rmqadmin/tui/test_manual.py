"""docs/tui.md lists exactly the keys that can be changed."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from textual.binding import Binding
from textual.dom import DOMNode

from rmqadmin import tui
from rmqadmin.cli import registry
from rmqadmin.cli.parsing.command_tree import describe
from tests.rmqadmin.page_lines import command_lines

_TELL = "from rmqadmin.tui.key_ids import key_ids; print(*key_ids())"

MANUAL = Path(__file__).parents[3] / "docs/tui.md"


def test_ids_of_keys() -> None:
    text = MANUAL.read_text().partition("\nIds: ")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`([\w.]+)`", text)) == sorted(ids())


def test_the_dashboard_knows_them_all_when_its_screens_are_loaded() -> None:
    """Otherwise it would report a valid key id as unknown."""
    told = f"from rmqadmin.tui import app; app._load_modules(app._MODULES_LATE); {_TELL}"
    known = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True).stdout.split()
    assert set(known) == ids()


def test_the_commands_of_the_page_are_those_of_the_help() -> None:
    """``test_terminal.py`` runs those commands."""
    entry = registry.find("tui")
    assert entry is not None
    assert command_lines("docs/tui.md") == list(describe(entry).examples)


def ids() -> set[str]:
    modules = [import_module(found.name) for found in pkgutil.walk_packages(tui.__path__, "rmqadmin.tui.")]
    classes = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    own = [one for one in classes if issubclass(one, DOMNode) and one.__module__.startswith("rmqadmin.")]
    bindings = [binding for one in own for binding in vars(one).get("BINDINGS", [])]
    return {binding.id for binding in bindings if isinstance(binding, Binding) and binding.id}
