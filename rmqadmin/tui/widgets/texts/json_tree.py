"""Shows the lines of a JSON body as a tree whose branches open and close.

Textual's Tree renders each line through Rich, at 1 ms a line, and builds a node and a path for each value. This one
keeps lines as data and draws the visible ones as a few pieces of text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.strip import Strip

from rmqadmin.tui.widgets.plain_view import PlainView
from rmqadmin.tui.widgets.texts.json_lines import GUIDE_WIDTH, MORE, NAME, NUMBER, OTHER, STRING, BranchLine

_OPEN, _CLOSED = "▼ ", "▶ "
_ICON_WIDTH = len(_OPEN)

_GUIDE, _GUIDE_BELOW_CURSOR = "guide", "guide below the cursor"
_CURSOR, _CURSOR_BLURRED = "cursor", "cursor without the focus"


class JsonTree(PlainView, can_focus=True):
    """All branches are open at first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+left", "cursor_parent", "Cursor to parent", show=False),
        Binding("shift+right", "cursor_parent_next_sibling", "Cursor to next ancestor", show=False),
        Binding("shift+up", "cursor_previous_sibling", "Cursor to previous sibling", show=False),
        Binding("shift+down", "cursor_next_sibling", "Cursor to next sibling", show=False),
        Binding("enter", "toggle_branch", "Select", show=False),
        Binding("space", "toggle_branch", "Toggle", show=False),
        Binding("shift+space", "toggle_siblings", "Expand or collapse all", show=False),
        Binding("up", "cursor(-1)", "Cursor Up", show=False),
        Binding("down", "cursor(1)", "Cursor Down", show=False),
    ]

    STYLES: ClassVar[Mapping[str, str]] = {
        _GUIDE: "$surface-lighten-3",
        _GUIDE_BELOW_CURSOR: "$block-cursor-background",
        _CURSOR: "bold $block-cursor-foreground on $block-cursor-background",
        _CURSOR_BLURRED: "on $primary-muted",
        NAME: "bold",
        NUMBER: "not bold $text-accent",
        STRING: "not bold $text-success",
        OTHER: "not bold $text-warning",
        MORE: "italic",
    }
    _STYLES_LIGHT: ClassVar[Mapping[str, str]] = {_GUIDE: "$surface-darken-1"}
    _STYLES_ANSI: ClassVar[Mapping[str, str]] = {
        _GUIDE: "ansi_bright_black",
        NUMBER: "not bold ansi_cyan",
        STRING: "not bold ansi_green",
        OTHER: "not bold ansi_magenta",
    }
    """In the terminal's own colours, of which a theme names too few."""

    def __init__(self, lines: Sequence[BranchLine]):
        super().__init__()
        self._lines = lines
        self._folded: set[int] = set()
        self._cursor = 0
        """The line with the cursor, by its number among all lines."""
        self._below_cursor = range(1, len(lines))
        """The lines in its branch."""
        self._arrange()

    def _arrange(self) -> None:
        """Finds the lines that are in no folded branch."""
        self._shown: list[int] = []
        folded_depth: int | None = None
        for number, line in enumerate(self._lines):
            if folded_depth is None or line.depth <= folded_depth:
                self._shown.append(number)
                folded_depth = line.depth if number in self._folded else None
        shown = [self._lines[number] for number in self._shown]
        width = max(len(line.guides) + _ICON_WIDTH * line.has_members + line.width for line in shown)
        self.virtual_size = Size(width, len(shown))

    # --- relatives ---------------------------------------------------------------------------------------------------

    def _parent_of(self, number: int) -> int | None:
        """The line of the branch that a line is in; None for the root."""
        depth = self._lines[number].depth
        return next((at for at in range(number - 1, -1, -1) if self._lines[at].depth < depth), None)

    def _end_of(self, number: int) -> int:
        """The number of the first line after a branch."""
        depth, count = self._lines[number].depth, len(self._lines)
        return next((at for at in range(number + 1, count) if self._lines[at].depth <= depth), count)

    def _next_sibling_of(self, number: int | None) -> int | None:
        if number is None:
            return None
        end = self._end_of(number)
        return end if end < len(self._lines) and self._lines[end].depth == self._lines[number].depth else None

    def _previous_sibling_of(self, number: int) -> int | None:
        depth = self._lines[number].depth
        before = next((at for at in range(number - 1, -1, -1) if self._lines[at].depth <= depth), None)
        return before if before is not None and self._lines[before].depth == depth else None

    # --- the cursor --------------------------------------------------------------------------------------------------

    @property
    def _at(self) -> int:
        """The place of the cursor among the shown lines."""
        return bisect_left(self._shown, self._cursor)

    def _move_to(self, number: int | None) -> None:
        """Moves the cursor, unless there is no such line."""
        if number is None:
            return
        before, self._cursor = self._cursor, number
        self._below_cursor = range(number + 1, self._end_of(number))
        self._redraw_branch(before)
        self._redraw_branch(number)
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if not top <= self._at < top + height:
            self.scroll_to(
                y=self._at if self._at < top else self._at - height + 1, animate=False, immediate=True, force=True
            )

    def _redraw_branch(self, number: int) -> None:
        """Draws a line again, and those below it, whose guides show where the cursor is."""
        first, end = (bisect_left(self._shown, one) for one in (number, self._end_of(number)))
        self.refresh(Region(0, first - self.scroll_offset.y, self.outer_size.width, end - first))

    def action_cursor(self, lines: int) -> None:
        self._move_to(self._shown[max(0, min(self._at + lines, len(self._shown) - 1))])

    def action_page_up(self) -> None:
        self.action_cursor(1 - self.scrollable_content_region.height)

    def action_page_down(self) -> None:
        self.action_cursor(self.scrollable_content_region.height - 1)

    def action_scroll_home(self) -> None:
        self._move_to(self._shown[0])

    def action_scroll_end(self) -> None:
        self._move_to(self._shown[-1])

    def action_cursor_parent(self) -> None:
        self._move_to(self._parent_of(self._cursor))

    def action_cursor_parent_next_sibling(self) -> None:
        self._move_to(self._next_sibling_of(self._parent_of(self._cursor)))

    def action_cursor_previous_sibling(self) -> None:
        """Or to the parent from the first of them."""
        before = self._previous_sibling_of(self._cursor)
        self._move_to(self._parent_of(self._cursor) if before is None else before)

    def action_cursor_next_sibling(self) -> None:
        """Or to the parent's next sibling from the last of them."""
        after = self._next_sibling_of(self._cursor)
        self._move_to(self._next_sibling_of(self._parent_of(self._cursor)) if after is None else after)

    # --- opening and closing -----------------------------------------------------------------------------------------

    def action_toggle_branch(self) -> None:
        if self._lines[self._cursor].has_members:
            self._fold(self._folded ^ {self._cursor})

    def action_toggle_siblings(self) -> None:
        """Closes all siblings of the cursor's line and itself, or opens them if none is open."""
        parent = self._parent_of(self._cursor)
        if parent is None:
            return
        depth = self._lines[parent].depth + 1
        inside = range(parent + 1, self._end_of(parent))
        siblings = {at for at in inside if self._lines[at].depth == depth and self._lines[at].has_members}
        self._fold(self._folded - siblings if siblings <= self._folded else self._folded | siblings)

    def _fold(self, folded: set[int]) -> None:
        self._folded = folded
        self._arrange()
        self.refresh()
        self._move_to(self._cursor)

    async def on_click(self, event: events.Click) -> None:
        """Moves the cursor, and opens or closes the branch."""
        at = self.scroll_offset.y + event.y
        if at < len(self._shown):
            self._move_to(self._shown[at])
            self.action_toggle_branch()

    # --- drawing -----------------------------------------------------------------------------------------------------

    def described_style(self, name: str) -> str:
        if self.app.theme_variables["text-accent"].startswith("ansi"):
            return self._STYLES_ANSI.get(name, self.STYLES[name])
        return self.STYLES[name] if self.app.current_theme.dark else self._STYLES_LIGHT.get(name, self.STYLES[name])

    def render_line(self, y: int) -> Strip:
        at, left, width = self.scroll_offset.y + y, self.scroll_offset.x, self.size.width
        style = self.style_over("", "")
        line = Strip(self._segments(self._shown[at])) if at < len(self._shown) else Strip([])
        return line.crop_extend(left, left + width, style)

    def _segments(self, number: int) -> Iterable[Segment]:
        line, split = self._lines[number], None
        if number in self._below_cursor and self.has_focus:
            split = GUIDE_WIDTH * self._lines[self._cursor].depth
        if line.guides[:split]:
            yield Segment(line.guides[:split], self.style_over("", _GUIDE))
        if split is not None:
            yield Segment(line.guides[split:], self.style_over("", _GUIDE_BELOW_CURSOR))
        if line.has_members:
            yield Segment(_CLOSED if number in self._folded else _OPEN, self.style_over("", ""))
        cursor = _CURSOR if self.has_focus else _CURSOR_BLURRED
        for text, name in line.label:
            yield Segment(text, self.style_over("", cursor if number == self._cursor else name))
