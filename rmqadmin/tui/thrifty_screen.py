"""A screen that is laid out and drawn once when it opens, and is drawn from existing styles and layout when it comes
back.

Textual lays out and draws a new screen when it is resumed, and again because its widgets were mounted. Whenever the
screen comes back, it finds the style of each widget again. Each repetition took as long as the first drawing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Self

from textual import events
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen, ScreenResultType
from textual.strip import Strip
from textual.widget import AwaitMount, Widget

from rmqadmin.tui.breakpoints import change_breakpoints

DRAWN_AT_ONCE = 8
"""How many lines of the screen are drawn in one turn of the loop: 5 ms."""


class ThriftyScreen(Screen[ScreenResultType]):
    """The base of all screens and dialogs. A subclass handles ``on_screen_resume`` and calls ``resume`` there."""

    BLANK = True
    """The screen itself draws nothing, so all its lines are one. Textual made fifty equal lines, in 3 ms."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As Textual's, which draws the whole screen again whenever the focus moves. Widgets that look different with the
    focus draw themselves."""

    def __init__(self, **named: Any):
        """``named``: name, id and classes, as Textual's."""
        super().__init__(**named)
        self._compositor: LineCompositor = LineCompositor()
        self._is_laid_out_only = False

    async def resume(self, event: events.ScreenResume) -> None:
        """Replaces Textual's handler, and calls it without a search for styles: ``App.refresh_css`` tells all screens
        when the theme changes. A new screen is mounted, laid out and drawn in turns of the loop of their own, so that
        short waits for a key do not become a long one."""
        event.prevent_default()
        event.refresh_styles = False
        if self._size == self.app.size:
            Screen._on_screen_resume(self, event)
            return
        await asyncio.sleep(0)
        self._is_laid_out_only = True
        try:
            Screen._on_screen_resume(self, event)
        finally:
            self._is_laid_out_only = False
        await asyncio.sleep(0)  # all widgets hear of their sizes, which takes as long as the drawing
        await asyncio.sleep(0)
        self._repaint_required = False
        await self._draw()

    def _on_timer_update(self) -> None:
        """Draws a changed layout, and many changed lines, in later turns of the loop, for the same reason. Textual
        draws them in the same turn, and after a layout also what has changed otherwise."""
        is_laid_out, self._is_laid_out_only = self._layout_required, True
        try:
            super()._on_timer_update()
        finally:
            self._is_laid_out_only = False
        if not self.is_current or self.app._batch_count:
            return
        self._dirty_widgets.clear()  # the compositor knows their lines
        line_count = len(self._compositor.dirty_lines)
        if self is self.app.screen and (is_laid_out or line_count > DRAWN_AT_ONCE):
            self.call_next(self._draw)
        elif line_count:
            self._compositor_refresh()  # below a dialog, it only tells the dialog

    async def _draw(self) -> None:
        """Draws what has changed, a few lines in each turn. The widgets keep these lines, and the last turn only puts
        them together, so that all of them appear at once."""
        lines = self._compositor.dirty_lines
        turns = range(0, len(lines), DRAWN_AT_ONCE) if len(lines) > DRAWN_AT_ONCE else range(0)
        for at in turns:
            if self is not self.app.screen:
                break
            visible_screen_stack.set(self.app._background_screens)
            self._compositor.draw(lines[at : at + DRAWN_AT_ONCE])
            await asyncio.sleep(0)
        if self.is_current:
            self._compositor_refresh()

    def _compositor_refresh(self) -> None:
        if not self._is_laid_out_only:
            super()._compositor_refresh()

    def forget_repaint(self) -> None:
        """Drops pending repaints, because a screen below a dialog looks as before. Textual drew it and the dialog once
        more."""
        self._repaint_required = False
        self._dirty_regions.clear()
        self._repaint_regions.clear()

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Only lays out if that is asked for, because a new layout draws what has moved. Textual draws the whole
        screen, too, whenever it gets another widget."""
        return super().refresh(*regions, repaint=repaint and not layout, layout=layout, recompose=recompose)

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        """Drops earlier layout requests: the whole screen has just been laid out."""
        super()._refresh_layout(size, scroll)
        if not scroll:
            self._layout_required = self._scroll_required = False

    def _screen_resized(self, size: Size) -> None:
        """Ignores the size that the screen already has, which would make Textual lay it out and draw it again."""
        if size != self.outer_size:
            super()._screen_resized(size)

    def post_message(self, message: Message) -> bool:
        """Gives each screen an event of its own for another size of the terminal. Textual gives one to all screens, and
        the first of them that handles it keeps the others from it."""
        if type(message) is events.Resize:
            message = events.Resize(message.size, message.virtual_size, message.container_size, message.pixel_size)
        return super().post_message(message)

    async def _on_resize(self, event: events.Resize) -> None:
        """Replaces Textual's handler for another size of the terminal. Each screen, from the lowest one that is seen
        on, gets its styles and its layout in turns of the loop of their own, and then all are drawn. Textual did it in
        one turn, and then again if the screen has other classes at its new size."""
        event.prevent_default()
        event.stop()
        top = self.app.screen
        if self is not top and isinstance(top, ThriftyScreen):
            return  # the top screen gets the same event
        for screen in (*self.app._background_screens, self):
            if isinstance(screen, ThriftyScreen):
                await screen._lay_out_at(event.size)
        self._repaint_required = False
        await self._draw()

    async def _lay_out_at(self, size: Size) -> None:
        """Lays the screen out at another size, and waits until its widgets have heard of theirs."""
        if change_breakpoints(self, size):
            from rmqadmin.tui.widget_styles import find_styles  # loads widgets that the first frame does not need

            await find_styles(list(self.walk_children(with_self=True)))
        self._is_laid_out_only = True
        try:
            self._screen_resized(size)
        finally:
            self._is_laid_out_only = False
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class AwaitScreen(AwaitMount):
    """Waits until a screen is mounted. Textual then requests its layout again, twice for a new mode, although our
    screens have been laid out and drawn already."""

    async def __call__(self) -> None:
        for screen in self._widgets:
            await screen._mounted_event.wait()

    def __await__(self) -> Generator[None, None, None]:
        return self().__await__()


class LineCompositor(Compositor):
    """Asks widgets only for the lines that are drawn. For each digit that changes, Textual asks every widget between
    the first and the last changed line for all of its lines: a third of the dashboard's cost at rest."""

    @property
    def dirty_lines(self) -> list[int]:
        """The lines to be drawn next."""
        whole = self.size.region
        return sorted({y for region in self._dirty_regions for y in region.intersection(whole).line_range})

    def draw(self, lines: Collection[int]) -> None:
        """Lets widgets draw some lines, which they keep until they change."""
        self._render_chops(self.size.region, lines.__contains__)

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        """As Textual's: for each line, its pieces by the column where they begin. Where widgets overlap, the first one
        wins, so the others are not asked for what it covers."""
        cuts, drawn = self.cuts, Region(0, crop.y, self.size.width, crop.height)
        chops: list[dict[int, Strip]] = [{} for _ in cuts]
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip).intersection(drawn)
            first_cut, last_cut = seen.column_span
            open_cuts: dict[int, list[int]] = {}
            for y in filter(is_rendered_line, seen.line_range):
                mine = [cut for cut in cuts[y] if first_cut <= cut <= last_cut]
                if not all(map(chops[y].__contains__, mine[:-1])):
                    open_cuts[y] = mine
            for run in _runs(seen.line_range, open_cuts.__contains__):
                part = Region(seen.x - region.x, run[0] - region.y, seen.width, len(run))
                for y, line in zip(run, widget.render_lines(part), strict=False):
                    mine = open_cuts[y]
                    for cut, piece in zip(mine, line.divide([cut - seen.x for cut in mine[1:]]), strict=False):
                        chops[y].setdefault(cut, piece)
        return [dict(sorted(line.items())) for line in chops]


def _runs(lines: range, is_wanted: Callable[[int], bool]) -> Iterator[list[int]]:
    for wanted, run in groupby(lines, is_wanted):
        if wanted:
            yield list(run)
