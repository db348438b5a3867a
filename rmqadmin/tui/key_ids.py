"""The ids that users use to give actions keys of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.binding import Binding
from textual.dom import DOMNode

from rmqadmin.core.near_names import did_you_mean

_OURS = "rmqadmin."


def key_ids() -> set[str]:
    """The action ids of all loaded screens and widgets."""
    return {
        binding.id
        for kind in _kinds(DOMNode)
        if kind.__module__.startswith(_OURS)
        for binding in vars(kind).get("BINDINGS", ())
        if isinstance(binding, Binding) and binding.id
    }


def unknown_ids(keys: Iterable[str]) -> list[str]:
    """A complaint for each id that no action has. Textual ignores such ids."""
    known = key_ids()
    return [
        f"tui.toml: the action {one} is unknown. {did_you_mean(one, known) or ''}".rstrip()
        for one in keys
        if one not in known
    ]


def _kinds(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
