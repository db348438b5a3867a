"""The first line of a screen: the places with their keys, and how many of the things there are broken or worth a look,
so that trouble is seen from every screen. A click opens a place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.content import Content
from textual.widgets import Tab

from rmqadmin.core.health.finding import Grade, SubjectKind
from rmqadmin.tui.memory.wrong_list import Wrong
from rmqadmin.tui.widgets.tab_line import FixedTabs

_PREFIX = "go-"
"""Of the ids of tabs, which share one space with those of a screen's parts."""

MORE = "more"
"""The last tab, for all places that have none."""

PLACE_OF = {
    SubjectKind.TOPIC: "topics",
    SubjectKind.GROUP: "groups",
    SubjectKind.QUEUE: "groups",
    SubjectKind.DEAD_LETTERS: "letters",
    SubjectKind.BROKER: "brokers",
    SubjectKind.BROKER_SET: "brokers",
    SubjectKind.NAME_SERVER: "brokers",
}
"""Where what is wrong with a subject of that kind is counted."""


class Places(FixedTabs):
    """``names``: key and name of each place, by its mode. The tab of the screen's own place stays active."""

    def __init__(self, names: Mapping[str, tuple[str, str]], place: str):
        self._names = {**names, MORE: (":", MORE)}
        super().__init__(
            *(Tab(_title(*name), id=_PREFIX + mode) for mode, name in self._names.items()), active=_PREFIX + place
        )

    def count(self, wrong: Iterable[Wrong]) -> None:
        """Counts what is wrong, by its place."""
        found: dict[str, dict[Grade, set[str]]] = {mode: {} for mode in self._names}
        for one in wrong:
            if (place := PLACE_OF.get(one.finding.subject.kind)) is not None:
                found[place].setdefault(one.finding.grade, set()).add(one.finding.subject.name)
        for tab in self.query(Tab):
            mode = self.mode_of(tab)
            broken, look = (len(found[mode].get(grade, ())) for grade in (Grade.ERROR, Grade.WARNING))
            self.tell(tab, _title(*self._names[mode], broken, look))

    @staticmethod
    def mode_of(tab: Tab) -> str:
        """The mode of a place."""
        return (tab.id or "").removeprefix(_PREFIX)


def _title(key: str, name: str, broken: int = 0, look: int = 0) -> Content:
    mark = Content("")
    if broken:
        mark = Content.styled(f" ✖{broken}", "bold $text-error")
    elif look:
        mark = Content.styled(f" ▲{look}", "$text-warning")
    return Content.assemble((key, "bold $text-accent"), f" {name}", mark)
