"""A JSON body as a tree whose branches open and close, exactly as written: numbers keep their digits, members their
order, and duplicate members stay."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from rich.style import Style
from rich.text import Text
from textual.style import Style as VisualStyle
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from rmqadmin.core.files import without_mark
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import size
from rmqadmin.tui.themes import are_terminals_own

NODES_MAX = 1000
"""How many values below the root are shown. The tree says how many it leaves out."""

DEPTH_MAX = 100
"""How many levels below the root are shown. Python allows a thousand calls."""

SIZE_MAX_BYTES = 1024 * 1024
"""Larger bodies are shown as text and hex only: parsing them would delay keys."""

_LENGTH_MAX = 500
"""The most characters of a name or value that are shown."""

NAME, NUMBER, STRING, OTHER, MORE = "name", "number", "string", "other", "more"
"""The styles of pieces of a label."""


class _Number(str):
    """A number's digits as in the body."""

    __slots__ = ()


def _number(digits: str) -> _Number:
    """A Python function, so that other threads can run. With the class itself, the parser made half a million objects
    without a break."""
    return _Number(digits)


class _Member(NamedTuple):
    name: str
    value: Any


class _Object(list[_Member]):
    """The members of an object, in order."""


class BranchLine(msgspec.Struct, frozen=True, gc=False):
    """One value with its name, or how many are left out. ``depth``: levels below the root. ``label``: texts, each with
    the name of its style."""

    depth: int
    label: tuple[tuple[str, str], ...]
    has_members: bool

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.label)


def why_no_tree(body: bytes) -> str:
    """Why ``parse_json_untrusted`` makes no tree of a body, in a sentence."""
    if len(body) > SIZE_MAX_BYTES:
        return f"The body is too large for a tree: {size(len(body))}, and at most {size(SIZE_MAX_BYTES)} are parsed."
    return "The body is not a JSON object or array."


def parse_json_untrusted(body: bytes) -> Sequence[BranchLine] | None:
    """Parses a JSON object or array: the first NODES_MAX values in it, in the body's order. None if the body is
    neither, or too large. Takes some tenths of a second: call it in a thread."""
    body = without_mark(body)
    if len(body) > SIZE_MAX_BYTES or body.lstrip()[:1] not in (b"{", b"["):
        return None
    with _without_collection():
        try:
            root = json.loads(
                body.decode(),
                parse_int=_number,
                parse_float=_number,
                object_pairs_hook=lambda pairs: _Object(_Member(*pair) for pair in pairs),
            )
        except (ValueError, RecursionError):
            return None
        lines = _lines(root)
        root = None  # frees half a million objects before a garbage collection can begin
        return lines


@contextmanager
def _without_collection() -> Iterator[None]:
    """Suspends garbage collection. Parsed JSON has no cycles, but a collection over a large body takes 0.3 s and blocks
    all keys."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _lines(root: Any) -> list[BranchLine]:
    """The lines of the first NODES_MAX values, and where others are left out, of how many."""
    lines, left_count = list[BranchLine](), NODES_MAX

    def add(depth: int, name: str, value: Any) -> None:
        """Adds a value, and those inside it as many as there is room for."""
        nonlocal left_count
        lines.append(BranchLine(depth, _label(name, value), isinstance(value, list) and bool(value)))
        for at, member in enumerate(_members(value)):
            if left_count <= 0 or depth >= DEPTH_MAX:
                lines.append(BranchLine(depth + 1, ((f"… {len(value) - at} more", MORE),), has_members=False))
                break
            left_count -= 1
            add(depth + 1, *member)

    add(0, "", root)
    return lines


def _members(value: Any) -> Iterator[_Member]:
    """Yields members one by one, because of half a million only a thousand are shown."""
    if isinstance(value, _Object):
        yield from value
    elif isinstance(value, list):
        yield from (_Member(f"[{at}]", one) for at, one in enumerate(value))


def _label(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    named = [*_shortened(printable(name), NAME), (" ", "")] if name else []
    if isinstance(value, list):
        begin, end = "{}" if isinstance(value, _Object) else "[]"
        return *named, (f"{begin}{len(value) or ''}{end}", OTHER)
    if isinstance(value, _Number):
        return *named, *_shortened(value, NUMBER)
    text = printable(json.dumps(value, ensure_ascii=False))
    return *named, *_shortened(text, STRING if isinstance(value, str) else OTHER)


def _shortened(shown: str, style: str) -> list[tuple[str, str]]:
    """A text, shortened if it is long. The length is a text of its own, because Rich does not cache the width of 512
    characters or more."""
    if len(shown) <= _LENGTH_MAX:
        return [(shown, style)]
    return [(shown[:_LENGTH_MAX], style), (f"… ({len(shown)} characters)", style)]


_STYLES = {
    NAME: "bold",
    NUMBER: "not bold $text-accent",
    STRING: "not bold $text-success",
    OTHER: "not bold $text-warning",
    MORE: "italic",
}
_STYLES_ANSI = {
    NUMBER: "not bold ansi_cyan",
    STRING: "not bold ansi_green",
    OTHER: "not bold ansi_magenta",
}
"""In the terminal's own colours, of which a theme names too few."""


class JsonTree(Tree[BranchLine]):
    """All branches are open at first."""

    def __init__(self, lines: Sequence[BranchLine]):
        super().__init__("", data=lines[0])
        self.root.expand()
        above: list[TreeNode[BranchLine]] = [self.root]
        """The node of each level that leads to the line."""
        for line in lines[1:]:
            del above[line.depth :]
            above.append(above[-1].add("", data=line, expand=line.has_members, allow_expand=line.has_members))

    def on_mount(self) -> None:
        self.cursor_line = 0

    def render_label(self, node: TreeNode[BranchLine], base_style: Style, style: Style) -> Text:
        """The icon of a branch, and the label in the colours of its parts, or in the cursor's."""
        assert node.data is not None
        is_ansi = are_terminals_own(self.app.theme_variables)
        icon = ""
        if node.data.has_members:
            icon = self.ICON_NODE_EXPANDED if node.is_expanded else self.ICON_NODE
        text = Text(icon, style=base_style, no_wrap=True)
        for part, name in node.data.label:
            own = (_STYLES_ANSI if is_ansi else {}).get(name) or _STYLES.get(name, "")
            text.append(part, style if node is self.cursor_node else style + VisualStyle.parse(own).rich_style)
        return text
