"""Lines of tabs: the places, on every screen, and what there is to see of one thing. Each tab of a thing is a screen of
its own, made when it is first opened, and kept with its cursor and filter until the thing is left. The screen sets
which tab is active, as each opens another: a click is told to the screen, which stays as it is until it comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from textual import events
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Tab, Tabs

from rmqadmin.core.health.finding import Finding, Grade, Subject, SubjectKind
from rmqadmin.core.units import count
from rmqadmin.tui.memory.wrong_list import Wrong

_PLACE, _TAB = "go-", "tab-"
"""Prefixes of the ids of tabs, which share one space with those of a screen's parts."""

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


class FixedTabs(Tabs, can_focus=False):
    """The screen gets ``Tab.Clicked``. ``at``: the id of the active tab."""

    def __init__(self, *tabs: Tab, at: str):
        super().__init__(*tabs)
        self._at = at

    def on_mount(self) -> None:
        if self.query(f"#{self._at}"):  # a screen that closes while it opens has lost its tabs
            self.active = self._at

    def on_resize(self, event: events.Resize) -> None:
        if not self.query("Underline"):  # its parts go first while the screen closes
            event.prevent_default()

    def on_tab_clicked(self, event: Tab.Clicked) -> None:
        event.prevent_default()

    def tell(self, tab: Tab, label: Content) -> None:
        """Sets a label, if it is another one."""
        if tab.label != label:
            tab.label = label


class Places(FixedTabs):
    """The places with their keys, and how many of the things there are broken or worth a look, so that trouble is seen
    from every screen. ``names``: key and name of each place, by its mode. The tab of the screen's own place stays
    active."""

    def __init__(self, names: Mapping[str, tuple[str, str]], place: str):
        self._names = {**names, MORE: (":", MORE)}
        tabs = (Tab(_title(*name), id=_PLACE + mode) for mode, name in self._names.items())
        super().__init__(*tabs, at=_PLACE + place)

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
        return (tab.id or "").removeprefix(_PLACE)


def _title(key: str, name: str, broken: int = 0, look: int = 0) -> Content:
    mark = Content("")
    if broken:
        mark = Content.styled(f" ✖{broken}", "bold $text-error")
    elif look:
        mark = Content.styled(f" ▲{look}", "$text-warning")
    return Content.assemble((key, "bold $text-accent"), f" {name}", mark)


class TabLine(FixedTabs):
    """The tabs of a thing, with their keys and how many rows they have: ``1 Queues 8``."""

    def __init__(self, titles: Sequence[tuple[str, int | None]], at: int):
        """``at``: the number of the screen's own tab, from 1."""
        tabs = (Tab(_label(number, *title), id=f"{_TAB}{number}") for number, title in enumerate(titles, 1))
        super().__init__(*tabs, at=f"{_TAB}{at}")

    def tell_titles(self, titles: Sequence[tuple[str, int | None]]) -> None:
        for number, title in enumerate(titles, 1):
            for tab in self.query(f"#{_TAB}{number}").results(Tab):  # none while the screen closes
                self.tell(tab, _label(number, *title))

    @staticmethod
    def number_of(tab: Tab) -> int | None:
        """The number of a tab; None if it is none of a ``TabLine``."""
        number = (tab.id or "").removeprefix(_TAB)
        return int(number) if number.isdecimal() else None


def _label(number: int, title: str, row_count: int | None) -> Content:
    rows = "" if row_count is None else f" {count(row_count)}"
    return Content.assemble((str(number), "$text-accent"), f" {title}", (rows, "$text-muted"))


_NOT_COUNTED = ("State", "Settings")
"""Tabs whose number of rows says nothing."""


class TabScreen(Screen[None]):
    """``step`` is the screen's name in the path."""

    step = ""
    tabbed: Tabbed | None = None
    """The tabs that this screen is one of."""
    tab_at = 0
    """The number of this screen's tab, from 1."""

    async def action_open_tab(self, at: int) -> None:
        assert self.tabbed is not None
        await self.tabbed.go(self, at)


class Tabbed:
    """The screens about ``subject``, which the path names ``step``. ``makers``: the title of each tab, and what makes
    its screen. ``counts``: how many rows a tab has, by its number from 1, where that is known. ``told``: what a tab has
    found wrong with the subject by itself."""

    def __init__(self, step: str, subject: Subject | None, makers: Sequence[tuple[str, Callable[[], TabScreen]]]):
        self.step, self.subject = step, subject
        self._makers = makers
        self._made: dict[int, TabScreen] = {}
        self.counts: dict[int, int] = {}
        self.told: Sequence[Finding] = ()

    def titles(self) -> list[tuple[str, int | None]]:
        counts = {at: rows for at, rows in self.counts.items() if self._makers[at - 1][0] not in _NOT_COUNTED}
        return [(title, counts.get(at)) for at, (title, _) in enumerate(self._makers, 1)]

    def open(self, at: int = 1) -> TabScreen:
        """The screen of a tab, by its number from 1."""
        if at not in self._made:
            screen = self._made[at] = self._makers[at - 1][1]()
            screen.tabbed, screen.tab_at, screen.step = self, at, self.step
        return self._made[at]

    async def go(self, shown: TabScreen, at: int) -> None:
        """Shows a tab in the place of the one that is ``shown``. A screen that is installed is not destroyed when
        another takes its place."""
        screen = self.open(at)
        if screen is not shown:
            shown.app.install_screen(shown, f"tab-{id(shown)}")
            shown.app.uninstall_screen(screen)
            await shown.app.switch_screen(screen)

    def close(self, shown: TabScreen) -> None:
        """Destroys the tabs that are kept. Called when the one that was ``shown`` last has been destroyed."""
        kept = [screen for screen in self._made.values() if screen is not shown and screen.is_running]
        self._made.clear()
        for screen in kept:
            screen.app.uninstall_screen(screen)
            screen.remove()
