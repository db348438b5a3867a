"""The tree of a JSON body: its keys, and what it draws."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from rmqadmin.tui.themes import readable
from rmqadmin.tui.widgets.json_tree import JsonTree, parse_json_untrusted

BODY = b'{"a": [1, {"b": null}], "c": {"d": "x", "e": []}, "f": 2}'
WHOLE = [
    "▼ {3}", "├── ▼ a [2]", "│   ├── [0] 1", "│   └── ▼ [1] {1}", "│       └── b null", "├── ▼ c {2}",
    '│   ├── d "x"', "│   └── e []", "└── f 2",
]  # fmt: skip

Shown = Callable[[JsonTree, Pilot[None]], Awaitable[None]]


def show(look: Shown, *, body: bytes = BODY, size: tuple[int, int] = (40, 12)) -> None:
    """Shows the tree of a body and calls ``look``."""
    lines = parse_json_untrusted(body)
    assert lines is not None
    tree = JsonTree(lines)

    class TreeApp(App[None]):
        def compose(self) -> ComposeResult:
            yield tree

        def get_css_variables(self) -> dict[str, str]:
            variables = super().get_css_variables()
            return {**variables, **readable(variables)}

    async def run() -> None:
        async with TreeApp().run_test(size=size) as pilot:
            await pilot.pause()
            await look(tree, pilot)

    asyncio.run(run())


def drawn(tree: JsonTree) -> list[str]:
    return [line for y in range(tree.size.height) if (line := tree.render_line(y).text.rstrip())]


def at_cursor(tree: JsonTree) -> str:
    assert tree.cursor_node is not None
    assert tree.cursor_node.data is not None
    return tree.cursor_node.data.text


def test_branches_open_and_close() -> None:
    async def look(tree: JsonTree, pilot: Pilot[None]) -> None:
        assert (drawn(tree), at_cursor(tree)) == (WHOLE, "{3}")
        await pilot.press("down", "enter")
        folded = ["▼ {3}", "├── ▶ a [2]", *WHOLE[5:]]
        assert (drawn(tree), at_cursor(tree)) == (folded, "a [2]")
        await pilot.click(offset=(7, 1))
        assert drawn(tree) == WHOLE
        await pilot.press("end")
        assert at_cursor(tree) == "f 2"

    show(look)


def test_names_and_values_are_no_markup() -> None:
    async def look(tree: JsonTree, pilot: Pilot[None]) -> None:
        assert drawn(tree) == ["▼ {1}", '└── [/red] "[b]x"']

    show(look, body=b'{"[/red]": "[b]x"}')


def test_a_thousand_values_of_many_levels_are_drawn() -> None:
    async def look(tree: JsonTree, pilot: Pilot[None]) -> None:
        await pilot.press("end")
        await pilot.pause()
        assert drawn(tree)[-1].endswith("[998] 1")

    show(look, body=b"[" + b"1," * 998 + b"1]", size=(40, 4))
