"""Tabs whose active one the screen sets, as each tab opens another screen: a click is told to the screen, which stays
as it is until it comes back."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Tab, Tabs

from rmqadmin.core.units import count

_PREFIX = "tab-"
"""Of the ids of tabs, which share one space with those of a screen's parts."""


class FixedTabs(Tabs, can_focus=False):
    """The screen gets ``Tab.Clicked``."""

    def on_tab_clicked(self, event: Tab.Clicked) -> None:
        event.prevent_default()

    def tell(self, tab: Tab, label: Content) -> None:
        """Sets a label, if it is another one."""
        if tab.label != label:
            tab.label = label


class TabLine(FixedTabs):
    """The tabs of a thing, with their keys and how many rows they have: ``1 Queues 8``."""

    def __init__(self, titles: Sequence[tuple[str, int | None]], at: int):
        """``at``: the number of the screen's own tab, from 1."""
        tabs = (Tab(_label(number, *title), id=f"{_PREFIX}{number}") for number, title in enumerate(titles, 1))
        super().__init__(*tabs, active=f"{_PREFIX}{at}")

    def tell_titles(self, titles: Sequence[tuple[str, int | None]]) -> None:
        for tab, (number, title) in zip(self.query(Tab), enumerate(titles, 1), strict=True):
            self.tell(tab, _label(number, *title))

    @staticmethod
    def number_of(tab: Tab) -> int | None:
        """The number of a tab; None if it is none of a ``TabLine``."""
        number = (tab.id or "").removeprefix(_PREFIX)
        return int(number) if number.isdecimal() else None


def _label(number: int, title: str, row_count: int | None) -> Content:
    rows = "" if row_count is None else f" {count(row_count)}"
    return Content.assemble((str(number), "$text-accent"), f" {title}", (rows, "$text-muted"))
