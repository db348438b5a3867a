"""The dialog of `updateTopicPerm`: changes the permissions of a topic on each of its brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.changes import Step, plan_each
from rmqadmin.core.topics.perms import WORDS
from rmqadmin.core.topics.topic_config import plan_perm
from rmqadmin.tui.dialogs.change import Occasion
from rmqadmin.tui.dialogs.form import StepsScreen, nothing_on
from rmqadmin.tui.sources.topics import TopicFacts
from rmqproto.perm import PERM_LETTERS

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class PermScreen(StepsScreen):
    """``r``, ``w`` and ``x`` toggle the permissions, and the preview follows."""

    command = "updateTopicPerm"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(letter.lower(), f"mark({bit})", WORDS[bit].capitalize()) for letter, bit in PERM_LETTERS.items()),
    ]

    def __init__(self, facts: TopicFacts):
        super().__init__(f"Permissions of the topic {facts.topic}", facts.topic)
        self._facts = facts
        self._perm = facts.perm if facts.perm is not None else max(one.perm for one in facts.configs.values())

    def form(self) -> Iterable[Widget]:
        yield Static(self._marks(), id="marks")

    def _marks(self) -> Content:
        def mark(letter: str, bit: int) -> Content:
            is_on = bool(self._perm & bit)
            return Content.assemble(
                (f" {letter} " if is_on else " . ", "bold $on-success on $success" if is_on else "$text-muted"),
                f" {WORDS[bit]}   ",
            )

        return Content("").join([mark(letter, bit) for letter, bit in PERM_LETTERS.items()])

    def action_mark(self, bit: int) -> None:
        self._perm ^= bit
        self.query_one("#marks", Static).update(self._marks())
        self.preview()

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        facts = self._facts
        if facts.lacking:
            occasion.notice(nothing_on(facts.lacking))
        return plan_each(facts.masters, lambda addr: plan_perm(admin, addr, facts.topic, self._perm)[0])
