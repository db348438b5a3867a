"""Dead letters over time: how many each group has, and how many have come in the last minutes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from rmqadmin.core.alerts.alert_rules import UNKNOWN_VALUE, Bounds
from rmqadmin.core.health.finding import Check, Subject, SubjectKind
from rmqadmin.core.health.group_checks import new_letters_finding
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import at_least, elapsed
from rmqadmin.tui.memory.history import ChangeLog, ChangeSeen, NumberChange, NumberHistory, Series
from rmqadmin.tui.memory.readings import TREND_WITHIN_MS, Depth
from rmqadmin.tui.memory.wrong_list import WrongList
from rmqproto.wording import counted


class _Told(NamedTuple):
    """The latest log entry of a group's dead letters, when the first of them came, and how many."""

    change: ChangeSeen
    begin_ms: int
    more_count: int


class LettersMemory:
    def __init__(self, now_ms: Callable[[], int], history: NumberHistory, log: ChangeLog, wrong: WrongList):
        self._now_ms, self._history, self._log, self._wrong = now_ms, history, log, wrong
        self._letters: dict[str, Depth] | None = None
        self._told: dict[str, _Told] = {}
        self.unread_count = 0
        """How many groups have dead letters that have not been counted yet."""

    @property
    def is_known(self) -> bool:
        return self._letters is not None

    def take(self, groups: Collection[str], found: Mapping[str, Depth]) -> None:
        """Takes all ``groups`` with dead letters, and ``found``, the depths of some of them."""
        at_ms, is_first = self._now_ms(), self._letters is None
        letters = {group: one for group, one in (self._letters or {}).items() if group in groups}
        self._told = {group: told for group, told in self._told.items() if group in groups}
        self._wrong.keep(SubjectKind.DEAD_LETTERS, groups)
        for group, reading in found.items():
            before, subject = letters.get(group), Subject(SubjectKind.DEAD_LETTERS, group)
            is_other_sum = before is not None and set(before.lacking) != set(reading.lacking)
            depth_count = reading.letters.depth_count
            self._history.add(_series(group), at_ms, depth_count, reading.lacking)
            is_new_group = before is None and not is_first and not self.unread_count
            known = None if is_other_sum else before.letters.depth_count if before else 0 if is_new_group else None
            if depth_count is not None and known is not None and depth_count > known:
                self._tell(at_ms, subject, depth_count - known)
            letters[group] = reading
            self._judge(at_ms, subject, reading)
        self._letters, self.unread_count = letters, sum(group not in letters for group in groups)

    def _judge(self, at_ms: int, subject: Subject, reading: Depth) -> None:
        growth, found = self._growth(subject.name), []
        if growth is not None and growth.by > 0:
            more = f"{counted(round(growth.by), 'new dead letter')} in {elapsed(growth.over_ms)}"
            found.append(new_letters_finding(subject.name, reading.letters, more, is_part=bool(reading.lacking)))
        self._wrong.judge(at_ms, subject, found, quiet=(Check.DEAD_LETTERS,))

    def _growth(self, group: str) -> NumberChange | None:
        return self._history.change(_series(group), TREND_WITHIN_MS)

    def _tell(self, at_ms: int, subject: Subject, more_count: int) -> None:
        """Logs new dead letters. Those of a few minutes share one entry, because a group that fails now and then would
        fill the log."""
        told = self._told.get(subject.name)
        if told is None or at_ms - told.begin_ms > TREND_WITHIN_MS:
            text = counted(more_count, "new dead letter")
            change, begin_ms = self._log.add(at_ms, subject, text, Mark.WARN), at_ms
        else:
            begin_ms, more_count = told.begin_ms, told.more_count + more_count
            text = f"{counted(more_count, 'new dead letter')} in {elapsed(at_ms - begin_ms)}"
            change = self._log.replace(told.change, at_ms, text)
        self._told[subject.name] = _Told(change, begin_ms, more_count)

    def grown(self) -> dict[str, Bounds]:
        """How many dead letters of each group have come in the last minutes; a lower bound if not all of that time, or
        not all brokers, are known."""

        def bounds(group: str, reading: Depth) -> Bounds:
            growth = self._growth(group)
            if growth is None:
                return UNKNOWN_VALUE
            is_whole = growth.is_whole and not reading.lacking
            return Bounds.exactly(growth.by) if is_whole else Bounds.at_least(growth.by)

        return {group: bounds(group, reading) for group, reading in (self._letters or {}).items()}

    def text(self) -> str:
        """How many there are together."""
        letters = (self._letters or {}).values()
        left = sum(one.letters.left_count or 0 for one in letters)
        is_part = self.unread_count or any(one.lacking or one.letters.left_count is None for one in letters)
        if not left:
            none = "no dead letters left" if any(one.letters.redriven_count for one in letters) else "no dead letters"
            return "dead letters unknown" if is_part else none
        text = counted(left, "dead letter")
        return at_least(text) if is_part else text


def _series(group: str) -> Series:
    return Series(SubjectKind.DEAD_LETTERS, group, "depth_count")
