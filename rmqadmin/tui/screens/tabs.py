"""The tabs of one thing: each is a screen of its own, made when it is first opened, and kept with its cursor and filter
until the thing is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.screen import Screen

from rmqadmin.core.health.finding import Finding, Subject

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
