"""A JSON body as a tree, as it was written: numbers keep their digits, members their order, doubles of a member too."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from rmqadmin.output import printable

NODES_MAX = 2000
"""Nodes made at once; a body of more says how many are left out."""

SIZE_MAX_BYTES = 1024 * 1024
"""Larger bodies are shown as text and hex only: parsing them would hold up the keys."""

_VALUE_LENGTH_MAX = 500


class _Number(str):
    """Digits as they stood in the body."""


class _Member(NamedTuple):
    name: str
    value: Any


class _Object(list[_Member]):
    """Members in order."""


def parse_json_untrusted(body: bytes) -> Any | None:
    """A tree of lists, ``_Object`` and scalars, or None where the body is no JSON object or array (or a huge one)."""
    if len(body) > SIZE_MAX_BYTES or body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(
            body.decode(),
            parse_int=_Number,
            parse_float=_Number,
            object_pairs_hook=lambda pairs: _Object(_Member(*pair) for pair in pairs),
        )
    except (ValueError, RecursionError):
        return None


def json_tree(root: Any, *, id: str | None = None) -> Tree[None]:
    """Every node open, up to NODES_MAX of them."""
    tree: Tree[None] = Tree(_label("", root), id=id)
    _Filler().fill(tree.root, root)
    tree.root.expand()
    return tree


class _Filler:
    def __init__(self) -> None:
        self._left = NODES_MAX

    def fill(self, node: TreeNode[None], value: Any) -> None:
        """Adds the members of a value to its node."""
        members = value if isinstance(value, _Object) else [_Member(f"[{at}]", one) for at, one in enumerate(value)]
        for at, (name, member) in enumerate(members):
            if self._left <= 0:
                node.add_leaf(Text(f"… {len(members) - at} more", "dim"))
                return
            self._left -= 1
            if isinstance(member, list) and member:
                self.fill(node.add(_label(name, member), expand=True), member)
            else:
                node.add_leaf(_label(name, member))


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
        return "not bold cyan"
    return "not bold green" if isinstance(value, str) else "not bold magenta"
