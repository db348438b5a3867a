"""The ids by which users give keys of their own to actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.binding import Binding
from textual.dom import DOMNode

from rmqadmin.core.near_names import did_you_mean

_OURS = "rmqadmin."


def key_ids() -> set[str]:
    """Of all screens and widgets that are loaded."""
    return {
        binding.id
        for kind in _kinds(DOMNode)
        if kind.__module__.startswith(_OURS)
        for binding in vars(kind).get("BINDINGS", ())
        if isinstance(binding, Binding) and binding.id
    }


def unknown_ids(keys: Iterable[str]) -> list[str]:
    """What is wrong with ids that nothing has: Textual passes over them."""
    known = key_ids()
    return [
        f"there is no action {one} for a key. {did_you_mean(one, known) or ''}".rstrip()
        for one in keys
        if one not in known
    ]


def _kinds(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
