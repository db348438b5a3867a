"""Changing what a topic permits: `updateTopicPerm` on each of its brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.call import Call
from rmqadmin.changes import Changes
from rmqadmin.commands.perm import update_topic_perm
from rmqadmin.results import Result
from rmqadmin.tui.dialogs.change import ChangeScreen
from rmqadmin.tui.sources.topics import TopicFacts
from rmqadmin.tui.units import PERM_BITS

_NAMES = {"R": "read", "W": "write", "X": "inherit"}


class PermScreen(ChangeScreen):
    """``r``, ``w`` and ``x`` change the marks; the preview follows."""

    command = "updateTopicPerm"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(mark.lower(), f"mark('{mark}')", name.capitalize()) for mark, name in _NAMES.items()),
    ]

    def __init__(self, facts: TopicFacts):
        super().__init__(f"Permissions of the topic {facts.topic}", facts.topic)
        self._facts = facts
        self._perm = facts.perm if facts.perm is not None else max(one.perm for one in facts.configs.values())

    def form(self) -> Iterable[Widget]:
        yield Static(self._marks(), id="marks")

    def on_mount(self) -> None:
        self.preview()

    def _marks(self) -> Content:
        def mark(letter: str, bit: int) -> Content:
            is_on = bool(self._perm & bit)
            return Content.assemble(
                (f" {letter} " if is_on else " . ", "bold $text on $success" if is_on else "dim"),
                f" {_NAMES[letter]}   ",
            )

        return Content("").join([mark(letter, bit) for letter, bit in PERM_BITS.items()])

    def action_mark(self, mark: str) -> None:
        self._perm ^= PERM_BITS[mark]
        self.query_one("#marks", Static).update(self._marks())
        self.preview()

    def change(self, call: Call) -> Result:
        rows = [
            row
            for addr in self._facts.masters.values()
            for row in update_topic_perm(call, self._facts.topic, self._perm, broker_addr=addr).found
        ]
        return Changes(rows)
