"""A screen that is laid out and drawn once when it is opened, and drawn from what is known when it comes back.

Textual lays a new screen out when it is resumed and draws it; then once more, because its widgets were mounted; and
finds the style of each of its widgets again whenever the screen comes back. Each of these took as long as the first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import groupby

from textual import events
from textual._compositor import Compositor
from textual.geometry import Region, Size
from textual.screen import Screen, ScreenResultType
from textual.strip import Strip
from textual.widget import AwaitMount


class ThriftyScreen(Screen[ScreenResultType]):
    """All screens and dialogs. What they do when they are resumed is theirs: ``on_screen_resume`` calls ``resume``."""

    BLANK = True
    """There is nothing on it but its widgets: one line for all. Textual made a line of its own fifty times, 3 ms."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = LineCompositor()

    def resume(self, event: events.ScreenResume) -> None:
        """In place of Textual's own handler, which it calls: a theme that was changed meanwhile has been told to all
        screens (``App.refresh_css``), so no style is looked for."""
        event.prevent_default()
        event.refresh_styles = False
        is_new = self._size != self.app.size
        Screen._on_screen_resume(self, event)
        if is_new:
            self._repaint_required = False  # it has just been drawn

    def forget_repaint(self) -> None:
        """Below a dialog, a screen is drawn as it was. Textual drew it, and the dialog, once more."""
        self._repaint_required = False
        self._dirty_regions.clear()
        self._repaint_regions.clear()

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        """What has been laid out as a whole need not be laid out again for what was asked before."""
        super()._refresh_layout(size, scroll)
        if not scroll:
            self._layout_required = self._scroll_required = False

    def _screen_resized(self, size: Size) -> None:
        """A screen that has been laid out is told its size, and would be laid out and drawn again."""
        if size != self.outer_size:
            super()._screen_resized(size)


class AwaitScreen(AwaitMount):
    """Until a screen is mounted. Textual then asks for its layout once more, twice in the case of a new mode; by then a
    screen of ours has been laid out and drawn."""

    async def __call__(self) -> None:
        for screen in self._widgets:
            await screen._mounted_event.wait()

    def __await__(self) -> Generator[None, None, None]:
        return self().__await__()


class LineCompositor(Compositor):
    """Asks each widget for the lines that are drawn, and for no others. Textual asks every widget between the first and
    the last of them for all of its lines, at each digit that changes: a third of what the dashboard cost at rest."""

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        """As Textual's: of each line, the pieces by the column where they begin, and the first widget has it."""
        cuts, drawn = self.cuts, Region(0, crop.y, self.size.width, crop.height)
        chops: list[dict[int, Strip]] = [{} for _ in cuts]
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip).intersection(drawn)
            first_cut, last_cut = seen.column_span
            for run in _runs(seen.line_range, is_rendered_line):
                part = Region(seen.x - region.x, run[0] - region.y, seen.width, len(run))
                for y, line in zip(run, widget.render_lines(part), strict=False):
                    mine = [cut for cut in cuts[y] if first_cut <= cut <= last_cut]
                    for cut, piece in zip(mine, line.divide([cut - seen.x for cut in mine[1:]]), strict=False):
                        chops[y].setdefault(cut, piece)
        return [dict(sorted(line.items())) for line in chops]


def _runs(lines: range, is_wanted: Callable[[int], bool]) -> Iterator[list[int]]:
    for wanted, run in groupby(lines, is_wanted):
        if wanted:
            yield list(run)
