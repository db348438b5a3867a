"""One key, one meaning: all bindings come from the table of keys, and so does the page of the manual."""

from __future__ import annotations

import os
import pkgutil
from importlib import import_module
from pathlib import Path

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import ModalScreen
from textual.widgets import Input

from rmqadmin import tui
from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.key_map import KEYS, keymap

PAGE = Path(__file__).parents[3] / "docs/dashboard-keys.md"
BEGIN, END = "<!-- keys -->\n", "\n<!-- end of keys -->"


def bindings() -> list[tuple[type, Binding]]:
    """All but those of inputs and dialogs, in which letters are text or answers."""
    modules = [import_module(found.name) for found in pkgutil.walk_packages(tui.__path__, "rmqadmin.tui.")]
    classes = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    own = [one for one in classes if issubclass(one, DOMNode) and one.__module__.startswith("rmqadmin.")]
    own = [one for one in own if not issubclass(one, Input | ModalScreen) and ".dialogs." not in one.__module__]
    found = [(one, binding) for one in own for binding in vars(one).get("BINDINGS", [])]
    assert all(isinstance(binding, Binding) for _, binding in found)
    return found


def test_every_key_is_one_of_the_table() -> None:
    found = bindings()
    assert {(binding.id, binding.key) for _, binding in found} == {(name, use.keys) for name, use in KEYS.items()}


def test_no_key_means_two_things() -> None:
    keys = [one for use in KEYS.values() for one in use.keys.split(",")]
    assert len(keys) == len(set(keys))


def test_a_key_of_the_user_is_taken_from_the_action_that_had_it_beside_another() -> None:
    mine = keymap({"filter": "ctrl+f", "topics": "G"})
    assert (mine["filter"], mine["page_down"], mine["last"]) == ("ctrl+f", "pagedown", "end,ctrl+end")
    assert mine["quit"] == "q"


def test_the_page_of_keys() -> None:
    app = DashboardApp.__new__(DashboardApp)
    tabs = [name for name in KEYS if name.startswith("tab_")]
    rows = "\n".join(
        f"| {' '.join(f'`{shown(app, one)}`' for one in use.keys.split(','))} | `{name}` | {use.does} |"
        if name not in tabs
        else f"| `1` to `{len(tabs)}` | `{tabs[0]}` to `{tabs[-1]}` | that tab of this screen |"
        for name, use in KEYS.items()
        if name not in tabs[1:]
    )
    text = PAGE.read_text()
    before, _, after = text.partition(BEGIN)
    table = f"{before}{BEGIN}| key | name | |\n|---|---|---|\n{rows}{END}{after.partition(END)[2]}"
    if os.environ.get("RMQADMIN_WRITE_GOLDENS"):
        PAGE.write_text(table)
    assert table == PAGE.read_text(), "RMQADMIN_WRITE_GOLDENS=1 writes the table anew"


def shown(app: DashboardApp, key: str) -> str:
    """As the footer shows it, but with words for what a table in Markdown cannot hold."""
    return {"less_than_sign": "<"}.get(key) or app.get_key_display(Binding(key, ""))
