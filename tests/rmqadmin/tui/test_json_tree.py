"""The tree of a JSON body: its keys, and what it draws."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot

from rmqadmin.tui.contrast import readable
from rmqadmin.tui.widgets.texts.json_lines import parse_json_untrusted
from rmqadmin.tui.widgets.texts.json_tree import JsonTree

BODY = b'{"a": [1, {"b": null}], "c": {"d": "x", "e": []}, "f": 2}'
WHOLE = [
    "▼ {3}",
    "├── ▼ a [2]",
    "│   ├── [0] 1",
    "│   └── ▼ [1] {1}",
    "│       └── b null",
    "├── ▼ c {2}",
    '│   ├── d "x"',
    "│   └── e []",
    "└── f 2",
]

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
    return [line for strip in tree.render_lines(Region(0, 0, *tree.outer_size)) if (line := strip.text.rstrip())]


def at_cursor(tree: JsonTree) -> str:
    """The text that stands on the cursor's colour."""
    cursor = tree.style_over("", "cursor")
    segments = [one for strip in tree.render_lines(Region(0, 0, *tree.outer_size)) for one in strip]
    return "".join(one.text for one in segments if one.style == cursor)


def test_keys_move_the_cursor_along_lines_and_relatives() -> None:
    async def look(tree: JsonTree, pilot: Pilot[None]) -> None:
        assert (drawn(tree), at_cursor(tree)) == (WHOLE, "{3}")
        for key, label in (
            ("up", "{3}"), ("down", "a [2]"), ("shift+up", "{3}"), ("end", "f 2"), ("down", "f 2"),
            ("shift+up", 'c {2}'), ("down", 'd "x"'), ("shift+down", "e []"), ("shift+down", "f 2"),
            ("shift+down", "f 2"), ("home", "{3}"), ("shift+left", "{3}"), ("pagedown", "f 2"), ("pageup", "{3}"),
            ("down", "a [2]"), ("down", "[0] 1"), ("shift+right", "c {2}"), ("down", 'd "x"'), ("shift+left", "c {2}"),
        ):  # fmt: skip
            await pilot.press(key)
            assert at_cursor(tree) == label, key

    show(look)


def test_branches_open_and_close() -> None:
    async def look(tree: JsonTree, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        folded = ["▼ {3}", "├── ▶ a [2]", *WHOLE[5:]]
        assert (drawn(tree), tree.virtual_size.height) == (folded, 6)
        await pilot.press("down", "shift+space")
        assert (drawn(tree), at_cursor(tree)) == (["▼ {3}", "├── ▶ a [2]", "├── ▶ c {2}", "└── f 2"], "c {2}")
        await pilot.press("shift+space")
        assert drawn(tree) == WHOLE
        await pilot.press("up", "up", "space")
        folded = ["▼ {3}", *WHOLE[1:3], "│   └── ▶ [1] {1}", *WHOLE[5:]]
        assert (drawn(tree), at_cursor(tree)) == (folded, "[1] {1}")
        await pilot.click(offset=(3, 1))
        assert (drawn(tree)[1], at_cursor(tree)) == ("├── ▶ a [2]", "a [2]")
        await pilot.press("home", "enter", "enter", "end", "enter")
        assert (drawn(tree)[1], at_cursor(tree)) == ("├── ▶ a [2]", "f 2")

    show(look)


def test_the_cursor_stays_in_view() -> None:
    async def look(tree: JsonTree, pilot: Pilot[None]) -> None:
        await pilot.press("end")
        assert (tree.scroll_offset.y, at_cursor(tree)) == (497, "[499] 1")
        await pilot.press("pageup", "up")
        assert (tree.scroll_offset.y, at_cursor(tree)) == (496, "[495] 1")

    show(look, body=b"[" + b"1," * 499 + b"1]", size=(40, 4))


def test_guides_of_the_cursors_branch_have_its_colour() -> None:
    async def look(tree: JsonTree, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        await pilot.pause()
        below = tree.style_over("", "guide below the cursor")
        lines = tree.render_lines(Region(0, 0, *tree.outer_size))
        guides = ["".join(text for text, style, _ in line if style == below) for line in lines]
        assert guides[1:6] == ["", "├── ", "└── ", "    └── ", ""]

    show(look)


def test_a_line_is_drawn_in_few_pieces_at_any_depth() -> None:
    """Textual's tree made one for each level, through Rich: 1 ms a line."""

    async def look(tree: JsonTree, pilot: Pilot[None]) -> None:
        pieces = [len(list(line)) for line in tree.render_lines(Region(0, 0, *tree.outer_size))]
        assert max(pieces) <= 8

    show(look, body=b'{"a":' * 60 + b"1" + b"}" * 60, size=(400, 50))
