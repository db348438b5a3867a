"""Several views in one place, of which one is open, and a line with their titles above it.

Textual's tabs are a widget for each title and each view, and ten more around them. Each has its styles and its size, so
a screen with eight views opened in three times the time, and the bar below the open title was drawn for 0.3 s. Here the
titles are one widget, and a view is made when it is opened for the first time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from rmqadmin.core.terminal_text import display_width
from rmqadmin.tui.contrast import are_terminals_own

_BAR, _BAR_BEGIN, _BAR_END = "━", "╺", "╸"


class TabLine(Widget, can_focus=True):
    """The titles by the name of their tab. Left and right open the neighbour, a click opens what it hits."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Previous tab", show=False),
        Binding("right", "step(1)", "Next tab", show=False),
    ]
    ALLOW_SELECT = False
    FOCUS_ON_CLICK = False

    class Chosen(Message):
        """The user chose a tab here."""

        def __init__(self, tab: str):
            super().__init__()
            self.tab = tab

    def __init__(self, titles: Mapping[str, str], open_tab: str):
        super().__init__()
        self._titles = titles
        self.open_tab = open_tab

    def show(self, open_tab: str) -> None:
        """Shows another tab as open."""
        self.open_tab = open_tab
        self.refresh()

    def _places(self) -> Iterator[tuple[str, range]]:
        """Each tab with its cells, including a blank at both sides of its title."""
        begin = 0
        for tab, title in self._titles.items():
            end = begin + 1 + display_width(title) + 1
            yield tab, range(begin, end)
            begin = end

    def _hidden_width(self) -> int:
        """How many cells at the left are not shown, because the open tab would not fit."""
        return max(0, dict(self._places())[self.open_tab].stop - self.size.width)

    def render(self) -> Content:
        hidden = self._hidden_width()
        lines = [self._titles_line(), self._bar_line()]
        return Content("\n").join(line[hidden:] if hidden else line for line in lines)

    def _titles_line(self) -> Content:
        look = "$block-cursor-foreground on $block-cursor-background" if self.has_focus else "$foreground"
        titles = [
            Content.styled(f" {title} ", f"bold {look}" if tab == self.open_tab else "$text-muted")
            for tab, title in self._titles.items()
        ]
        return Content("").join(titles)

    def _bar_line(self) -> Content:
        """A rail, and on it the bar below the open title without its blanks."""
        cells = dict(self._places())[self.open_tab]
        if are_terminals_own(self.app.theme_variables):
            rail = "$border-blurred"
        else:
            rail = "$foreground 30%" if self.has_focus else "$foreground 10%"
        before = _BAR * cells.start + _BAR_END
        after = _BAR_BEGIN + _BAR * (self.size.width - cells.stop)
        bar = _BAR * (len(cells) - 2)
        return Content.assemble((before, rail), (bar, "$block-cursor-background"), (after, rail))

    def on_click(self, event: events.Click) -> None:
        at = event.x + self._hidden_width()
        for tab, cells in self._places():
            if at in cells:
                self.post_message(self.Chosen(tab))

    def action_step(self, tabs: int) -> None:
        names = list(self._titles)
        self.post_message(self.Chosen(names[(names.index(self.open_tab) + tabs) % len(names)]))


class TabbedView(Vertical):
    """``make`` gives the widgets of a tab when it is opened for the first time; none if they cannot be made yet, which
    ``fill`` then tries again."""

    def __init__(self, titles: Mapping[str, str], make: Callable[[str], Sequence[Widget]], *, open_tab: str):
        super().__init__()
        self.line = TabLine(titles, open_tab)
        self._make = make
        self._made: dict[str, Sequence[Widget]] = {}

    def compose(self) -> ComposeResult:
        yield self.line
        yield from self._contents_of(self.open_tab)

    def _contents_of(self, tab: str) -> Sequence[Widget]:
        """The widgets of a tab that are not mounted yet."""
        self._made[tab] = self._make(tab)
        return self._made[tab]

    @property
    def open_tab(self) -> str:
        return self.line.open_tab

    @property
    def contents(self) -> Sequence[Widget]:
        """The widgets of the open tab."""
        return self._made.get(self.open_tab, ())

    def open(self, tab: str) -> None:
        if tab == self.open_tab:
            return
        for widget in self.contents:
            widget.display = False
        self.line.show(tab)
        for widget in self.contents:
            widget.display = True
        self.fill()

    def fill(self) -> None:
        """Makes the widgets of the open tab if there are none yet."""
        if not self.contents and (contents := self._contents_of(self.open_tab)):
            self.mount_all(contents)

    def focus_contents(self) -> None:
        for widget in self.contents:
            if widget.focusable:
                widget.focus()
                return
