"""Shows a JSON body as a tree, exactly as written: numbers keep their digits, members their order, and duplicate
members stay."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text, TextType
from textual import events
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from rmqadmin.core.terminal_text import printable

NODES_MAX = 1000
"""How many values below the root are shown. The tree says how many it leaves out."""

DEPTH_MAX = 100
"""How many levels below the root are shown. Textual recurses once a level, Python allows a thousand calls, and each
line is drawn with all levels above it."""

_ADDED_AT_ONCE = 100
"""Nodes added in one turn of the loop: 2 ms."""

SIZE_MAX_BYTES = 1024 * 1024
"""Larger bodies are shown as text and hex only: parsing them would delay keys."""

_LENGTH_MAX = 500
"""The most characters of a name or value that are shown."""

_NUMBER, _STRING, _OTHER = "not bold cyan", "not bold green", "not bold magenta"
"""Styles in the terminal's own colours."""
_ROLES = {_NUMBER: "text-accent", _STRING: "text-success", _OTHER: "text-warning"}
"""The theme's colours that replace them."""


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


class BranchLine(NamedTuple):
    """One value with its name, or how many are left out. ``depth``: levels below the root. ``width``: cells of the
    label, counted once because each layout of the tree looks for the widest."""

    depth: int
    label: Text
    width: int
    has_members: bool


def parse_json_untrusted(body: bytes) -> Sequence[BranchLine] | None:
    """Parses a JSON object or array: the first NODES_MAX values in it, in the body's order. None if the body is
    neither, or too large. Takes some tenths of a second: call it in a thread."""
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
        lines = _Pruner().lines(root)
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


class _Pruner:
    """Keeps the first NODES_MAX values, and adds lines where others are left out."""

    def __init__(self) -> None:
        self._left_count = NODES_MAX
        self._lines: list[BranchLine] = []

    def lines(self, root: Any) -> Sequence[BranchLine]:
        self._add(0, "", root)
        return self._lines

    def _add(self, depth: int, name: str, value: Any) -> None:
        """Adds a value, and as many values inside it as there is room for."""
        member_count = len(value) if isinstance(value, list) else 0
        self._add_line(depth, _label(name, value), has_members=member_count > 0)
        for at, member in enumerate(_members(value)):
            if self._left_count <= 0 or depth >= DEPTH_MAX:
                self._add_line(depth + 1, Text(f"… {member_count - at} more", "italic"))
                break
            self._left_count -= 1
            self._add(depth + 1, *member)

    def _add_line(self, depth: int, label: Text, *, has_members: bool = False) -> None:
        self._lines.append(BranchLine(depth, label, cell_len(label.plain), has_members))


def _members(value: Any) -> Iterator[_Member]:
    """Yields members one by one, because of half a million only a thousand are shown."""
    if isinstance(value, _Object):
        yield from value
    elif isinstance(value, list):
        yield from (_Member(f"[{at}]", one) for at, one in enumerate(value))


class JsonTree(Tree[int]):
    """A tree with all nodes open. Call ``fill`` before it is shown: Textual rebuilds all visible lines for each new
    node. A node's data is the width of its label."""

    def __init__(self, lines: Sequence[BranchLine]):
        self._lines = lines
        self._style: Style | None = None
        super().__init__(lines[0].label, lines[0].width)

    def on_mount(self) -> None:
        self.root.expand()

    async def fill(self) -> None:
        """Adds the nodes in small batches, so that no key waits for all of them."""
        path = [self.root]
        for at in range(1, len(self._lines), _ADDED_AT_ONCE):
            for line in self._lines[at : at + _ADDED_AT_ONCE]:
                del path[line.depth :]
                is_open = line.has_members
                path.append(path[-1].add(line.label, line.width, expand=is_open, allow_expand=is_open))
            await asyncio.sleep(0)

    def on_resize(self, event: events.Resize) -> None:
        """Keeps the lines, which are the same at every width. Textual made all of them anew, and drew them twice when a
        tab opened."""
        event.prevent_default()
        self._line_cache.grow(event.size.height)

    @property
    def rich_style(self) -> Style:
        """Cached: Textual builds it again for each line, a third of the line's cost."""
        self._style = self._style or super().rich_style
        return self._style

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._style = None

    def process_label(self, label: TextType) -> Text:
        """Labels are one line here. Textual searches each for a line end, a fifth of a node's cost."""
        return label if isinstance(label, Text) else super().process_label(label)

    def render_label(self, node: TreeNode[int], base_style: Style, style: Style) -> Text:
        """Draws values in the theme's colours, because the theme may change while the tree exists."""
        label, variables = super().render_label(node, base_style, style), self.app.theme_variables
        styles = {kind: f"not bold {variables[role]}" for kind, role in _ROLES.items() if "ansi" not in variables[role]}
        label.spans = [span._replace(style=styles.get(str(span.style), span.style)) for span in label.spans]
        return label

    def get_label_width(self, node: TreeNode[int]) -> int:
        """The stored width. Textual renders the label of every node at each layout to measure it: 25 ms for 2,000.
        Counting the cells of long labels took as long."""
        assert node.data is not None
        return node.data + (cell_len(self.ICON_NODE) if node.allow_expand else 0)


def _label(name: str, value: Any) -> Text:
    """The label of a node. It is Text, because a tree parses ``str`` as markup."""
    text = Text()
    _append(text, printable(name), "bold")
    if name:
        text.append(" ", "not bold")
    _append(text, _value(value), _style(value))
    return text


def _append(text: Text, shown: str, style: str) -> None:
    """Appends a text, shortened if it is long. The length is appended separately, because Rich does not cache the width
    of 512 characters or more."""
    text.append(shown[:_LENGTH_MAX], style)
    if len(shown) > _LENGTH_MAX:
        text.append(f"… ({len(shown)} characters)", style)


def _value(value: Any) -> str:
    if isinstance(value, _Object):
        return "{}" if not value else f"{{{len(value)}}}"
    if isinstance(value, list):
        return "[]" if not value else f"[{len(value)}]"
    if isinstance(value, _Number):
        return str(value)
    return printable(json.dumps(value, ensure_ascii=False))


def _style(value: Any) -> str:
    if isinstance(value, _Number):
        return _NUMBER
    return _STRING if isinstance(value, str) else _OTHER
