"""A JSON body as a tree, as it was written: numbers keep their digits, members their order, doubles of a member too."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from rmqadmin.core.terminal_text import printable

NODES_MAX = 1000
"""Nodes made at once. For a larger body, the tree says how many are left out."""

SIZE_MAX_BYTES = 1024 * 1024
"""Larger bodies are shown as text and hex only: parsing them would hold up the keys."""

_VALUE_LENGTH_MAX = 500

_NUMBER, _STRING, _OTHER = "not bold cyan", "not bold green", "not bold magenta"
"""In the terminal's own colours."""
_ROLES = {_NUMBER: "text-accent", _STRING: "text-success", _OTHER: "text-warning"}
"""The colours of the theme that take their place."""


class _Number(str):
    """Digits as they stood in the body."""

    __slots__ = ()


def _number(digits: str) -> _Number:
    """A function, at which Python lets other threads run. It made half a million objects of a class at one go."""
    return _Number(digits)


class _Member(NamedTuple):
    name: str
    value: Any


class _Object(list[_Member]):
    """Members in order."""


class JsonNode(NamedTuple):
    """One value with its name, and those in it that are shown."""

    label: Text
    children: list[JsonNode]
    left_out_count: int = 0


def parse_json_untrusted(body: bytes) -> JsonNode | None:
    """The first NODES_MAX values of a JSON object or array. None if the body is neither, or too large. Takes some
    tenths of a second: call it in a thread."""
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
            return _Pruner().node("", root)
        except (ValueError, RecursionError):
            return None
        finally:
            root = None


@contextmanager
def _without_collection() -> Iterator[None]:
    """Parsed JSON has no cycles, and there may be so much of it that each search for cycles takes 0.3 s, in which no
    key is answered."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Pruner:
    """Keeps the first NODES_MAX values, in the order of the body."""

    def __init__(self) -> None:
        self._left_count = NODES_MAX

    def node(self, name: str, value: Any) -> JsonNode:
        """A value, and as many of those in it as there is room for."""
        children: list[JsonNode] = []
        for member in _members(value):
            if self._left_count <= 0:
                break
            self._left_count -= 1
            children.append(self.node(*member))
        count = len(value) if isinstance(value, list) else 0
        return JsonNode(_label(name, value), children, count - len(children))


def _members(value: Any) -> Iterator[_Member]:
    """Made one by one: of half a million, a thousand are shown."""
    if isinstance(value, _Object):
        yield from value
    elif isinstance(value, list):
        yield from (_Member(f"[{at}]", one) for at, one in enumerate(value))


class JsonTree(Tree[None]):
    def render_label(self, node: TreeNode[None], base_style: Style, style: Style) -> Text:
        """Values in colours of the theme, which may change while the tree is there."""
        label, variables = super().render_label(node, base_style, style), self.app.theme_variables
        styles = {kind: f"not bold {variables[role]}" for kind, role in _ROLES.items() if "ansi" not in variables[role]}
        label.spans = [span._replace(style=styles.get(str(span.style), span.style)) for span in label.spans]
        return label

    def get_label_width(self, node: TreeNode[None]) -> int:
        """Textual renders the label of every node to learn its width, each time the tree is laid out: 25 ms for
        2,000."""
        icon_width = cell_len(self.ICON_NODE) if node.allow_expand else 0
        return icon_width + cell_len(str(node.label))


def json_tree(root: JsonNode, *, id: str | None = None) -> JsonTree:
    """Every node open."""
    tree = JsonTree(root.label, id=id)
    _fill(tree.root, root)
    tree.root.expand()
    return tree


def _fill(node: TreeNode[None], value: JsonNode) -> None:
    for child in value.children:
        if child.children or child.left_out_count:
            _fill(node.add(child.label, expand=True), child)
        else:
            node.add_leaf(child.label)
    if value.left_out_count:
        node.add_leaf(Text(f"… {value.left_out_count} more", "italic"))


def _label(name: str, value: Any) -> Text:
    """Text, not ``str``: a tree parses that as markup."""
    text = Text(printable(name), "bold")
    if name:
        text.append(" ", "not bold")
    text.append(_value(value), _style(value))
    return text


def _value(value: Any) -> str:
    if isinstance(value, _Object):
        return "{}" if not value else f"{{{len(value)}}}"
    if isinstance(value, list):
        return "[]" if not value else f"[{len(value)}]"
    if isinstance(value, _Number):
        return str(value)
    text = printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _VALUE_LENGTH_MAX else f"{text[:_VALUE_LENGTH_MAX]}… ({len(text)} characters)"


def _style(value: Any) -> str:
    if isinstance(value, _Number):
        return _NUMBER
    return _STRING if isinstance(value, str) else _OTHER
