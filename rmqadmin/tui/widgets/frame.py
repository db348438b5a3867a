"""The lines around the body of every screen: above it the path with the mode and how fresh the contents are, and the
verdict on what the screen is about; below it what is shown, what is hidden, and which brokers are lacking and why."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.binding import Binding
from textual.content import Content
from textual.widgets import Footer, Static

from rmqadmin.core.contexts.context import ContextColor
from rmqadmin.core.health.finding import Finding, Grade
from rmqadmin.core.terminal_text import (
    display_width,
    printable,
    shortened_at_end,
    shortened_by_clause,
    shortened_in_middle,
)
from rmqadmin.core.units import elapsed
from rmqadmin.tui.literal import literal
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.settings import DashboardSettings
from rmqadmin.tui.widgets.tables.row_table import RowTable

CONTEXT_STYLES = {
    ContextColor.RED: "white on #b3261e",
    ContextColor.YELLOW: "black on #f2c200",
    ContextColor.GREEN: "white on #2e7d32",
    ContextColor.CYAN: "black on #26c6da",
    ContextColor.BLUE: "white on #1a5fb4",
    ContextColor.MAGENTA: "white on #8e24aa",
    ContextColor.WHITE: "black on #e0e0e0",
}
_BETWEEN = " › "
_GAP = "  ·  "
_PADDING = 2
_SERVERS_WIDTH_MIN, _STEP_WIDTH_MIN = 15, 8
_CUT_HEIGHT, _CUT_GAP = 2, "   "
_LINES_MAX = 3
"""Of what is shown: an error may need more than one."""


SIZE_MIN = 60, 16


class TooSmall(Static):
    """All that is shown on a terminal that has no room for a screen."""

    def render(self) -> Content:
        now, least = (f"{width}x{height}" for width, height in (self.app.size, SIZE_MIN))
        return Content(f"the terminal is {now}, {least} is needed")


def is_shown(shown: Static, content: Content) -> bool:
    """Whether this is what a widget shows. What may have changed is told often, and mostly it has not: a text that is
    shown already need not be drawn again."""
    before = shown.content
    return isinstance(before, Content) and (before.plain, before.spans) == (content.plain, content.spans)


class FrameLine(Static):
    """A few lines above or below a screen's body."""

    def tell(self, content: Content) -> None:
        if not is_shown(self, content):
            # Told twice before Textual looks at it, a text with an automatic height would have that of the first.
            self.styles.height = content.plain.count("\n") + 1
            self.update(content, layout=False)

    @property
    def room(self) -> int:
        """How many cells a line has."""
        return (self.size.width or self.app.size.width - _PADDING) or 1


class KeyLine(Footer):
    """The keys that make sense now. They are made anew only when they are others: each is a widget, and those of a
    footer that is told of every change of the focus were most of the dashboard's garbage."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._made: list[tuple[Binding, bool, str]] | None = None

    async def recompose(self) -> None:
        if not self.is_attached:
            return  # its screen has closed
        active = self.screen.active_bindings.values()
        wanted = [(each.binding, each.enabled, each.tooltip) for each in active if each.binding.show]
        if wanted != self._made:
            self._made = wanted
            await super().recompose()
            self.mutate_reactive(Footer.compact)  # or it would remember each key that it ever had


class PathLine(FrameLine):
    """The context, or the servers without one, and the steps to this screen; at the right the mode and the age."""

    def show(self, settings: DashboardSettings, way: Sequence[str], modes: Sequence[str], age: Content) -> None:
        """``modes``: such as ``read-only``. ``age``: as of ``age_of``."""
        right = Content("  ").join([*(literal(mode, "bold") for mode in modes), *([age] if age.plain else [])])
        room = self.room - right.cell_length - 2 * bool(right.plain)
        context, servers, style = settings.context, settings.namesrv_text, "$text-muted"
        if context is not None and settings.color is not None:
            style = f"bold {CONTEXT_STYLES[settings.color]}"
        head, steps = fitted(printable(context or servers), [printable(step) for step in way], room)
        parts = [literal(head, style), *(literal(step) for step in steps[:-1])]
        path = Content.styled(_BETWEEN, "$text-muted").join([*parts, *(literal(step, "bold") for step in steps[-1:])])
        self.tell(path.pad_right(max(0, room - path.cell_length) + 2 * bool(right.plain)) + right)


def fitted(head: str, way: Sequence[str], width: int) -> tuple[str, list[str]]:
    """Context or servers and the steps, in ``width`` cells if possible: first the head is shortened, then the steps,
    the last step after all others."""
    steps = list(way)

    def over() -> int:
        return display_width(head) + sum(len(_BETWEEN) + display_width(step) for step in steps) - width

    if over() > 0:
        head = shortened_in_middle(head, max(_SERVERS_WIDTH_MIN, display_width(head) - over()))
    for at in range(len(steps)):
        if over() > 0:
            steps[at] = shortened_in_middle(steps[at], max(_STEP_WIDTH_MIN, display_width(steps[at]) - over()))
    return head, steps


def age_of(feeds: Sequence[Feed], interval_s: float | None, held_s: float | None) -> Content:
    """How often the contents are asked for, and the age of the least recently updated part. ``interval_s`` is None for
    contents that do not age; ``held_s``: for how long nothing has been asked, None if it is."""
    if interval_s is None:
        return Content("")
    updated = [feed.updated_s for feed in feeds if feed.updated_s is not None]
    if held_s is not None:
        return Content.styled(f"paused {elapsed(held_s * 1000)}", "bold $text-accent")
    fails = any(feed.error for feed in feeds)
    if not updated:
        return Content.styled("no answer yet" if fails else "asking …", "$text-muted")
    age = elapsed((time.monotonic() - min(updated)) * 1000)
    return Content.styled(f"{age} old" if fails else f"every {interval_s:g} s · {age} ago", "$text-muted")


class VerdictLine(FrameLine):
    """What is wrong with the thing of this screen, and what to do about the worst of it. Not there if all is well."""

    def show(self, findings: Sequence[Finding]) -> None:
        self.display = bool(findings)
        if findings:
            self.tell(Content("\n").join(verdict_lines(findings, self.room)))


def mark_of(finding: Finding) -> tuple[str, str]:
    """The sign before a finding, and its style."""
    marks = {Grade.ERROR: ("✖", "bold $text-error"), Grade.WARNING: ("▲", "$text-warning")}
    return marks.get(finding.grade, (" ", "$text-muted"))


def verdict_lines(findings: Sequence[Finding], width: int) -> list[Content]:
    """At most two lines: the worst finding with its mark, and how to mend it."""
    worst, more = findings[0], f"  and {len(findings) - 1} more" if len(findings) > 1 else ""
    mark, style = mark_of(worst)
    what = shortened_by_clause(printable(worst.what), width - 2 - len(more))
    lines = [Content.assemble((f"{mark} {what}", style), (more, "$text-muted"))]
    if worst.fix is not None:
        lines.append(literal(f"  {shortened_at_end(worst.fix, width - 2)}", "$text-muted"))
    return lines


class ShownLine(FrameLine):
    """What is shown and hidden, then an error or what is lacking, which may take two lines more."""

    def show(self, parts: Sequence[str], feeds: Sequence[Feed], *, asks_again: bool) -> None:
        trouble = _trouble(feeds, asks_again=asks_again)
        told = [*(literal(part) for part in parts if part), *([trouble] if trouble else [])]
        self.tell(in_lines(Content(_GAP).join(told), self.room, lines_max=_LINES_MAX))


def _trouble(feeds: Sequence[Feed], *, asks_again: bool) -> Content | None:
    """The first error, or else the first problem. ``asks_again``: whether feeds that failed ask again by themselves."""
    for feed in feeds:
        if feed.error is not None:
            times = f" ({feed.failure_count} times)" if feed.failure_count > 1 else ""
            again = ""
            if asks_again and feed.next_s is not None:
                again = f", again in {max(0, round(feed.next_s - time.monotonic()))} s"
            return literal(f"{feed.error}{times}{again}", "bold $text-error")
    for feed in feeds:
        if feed.problems:
            more = f" (and {len(feed.problems) - 1} more)" if len(feed.problems) > 1 else ""
            return literal(feed.problems[0] + more, "$text-warning")
    return None


class CutLine(FrameLine):
    """Two lines under a table that is too narrow for its columns. They show the cells of the cursor's row that are
    shortened or left out, so that no number and no end of an error is lost on a small terminal. Hidden while everything
    fits. Call ``show`` when the cursor or its row has moved."""

    def show(self, table: RowTable | None) -> None:
        """Shows the cut cells of the cursor's row in ``table``; nothing if that is None."""
        line = None if table is None else table.cursor_line
        is_squeezed = table is not None and line is not None and (table.cells.is_squeezed or bool(line.errors))
        self.display = is_squeezed
        if table is not None and is_squeezed:
            self.tell(self._content(table))

    def _content(self, table: RowTable) -> Content:
        """The cut cells, as many as two lines hold. Texts longer than a line, such as bodies, come last and are
        shortened."""
        width = self.room
        left = width * _CUT_HEIGHT - width // 4
        parts: list[Content] = []
        for cell in sorted(table.cut_cells(), key=lambda cell: display_width(cell.text) > width):
            if left <= len(cell.title) + 1:
                parts.append(Content("…"))
                break
            text = shortened_at_end(cell.text, left - len(cell.title) - 1)
            title = Content.styled(cell.title, "$text-muted")
            parts.append(Content.assemble(title, " ", literal(text)))
            left -= len(cell.title) + 1 + display_width(text) + len(_CUT_GAP)
        return in_lines(Content(_CUT_GAP).join(parts), width, lines_max=_CUT_HEIGHT)


def in_lines(content: Content, width: int, *, lines_max: int | None = None) -> Content:
    """Wraps ``content`` at ``width`` cells. Lines break between parts, so that a title stays with its text, or else
    between words, but not before a long one, whose title would then stand alone and whose end would be cut off.
    The last of ``lines_max`` lines may be longer."""
    lines: list[Content] = []
    while display_width(content.plain) > width and len(lines) + 1 != lines_max:
        text = content.plain
        end = next(end for end in range(min(width, len(text)), 0, -1) if display_width(text[:end]) <= width)
        breaks = (*(text.rfind(gap, 0, end + len(gap)) for gap in (_GAP, _CUT_GAP)), text.rfind(" ", 0, end + 1))
        # A break at a blank moves at most a fourth of a line to the next one.
        near = (at for at in breaks if at > 0 and display_width(text[at:end]) <= width // 4)
        if (blank := next(near, None)) is not None:
            lines.append(content[:blank].rstrip())
            content = content[len(text) - len(text[blank:].lstrip(" ·")) :]
        else:
            lines.append(content[:end])
            content = content[end:]
    return Content("\n").join([*lines, content])
