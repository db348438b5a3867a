"""The first line: which context, in its colour, and servers, whether anything can be changed, the way down to here."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from rmqadmin.core.contexts.context import ContextColor
from rmqadmin.tui.literal import literal
from rmqadmin.tui.settings import DashboardSettings

_STYLES = {
    ContextColor.RED: "white on #b3261e",
    ContextColor.YELLOW: "black on #f2c200",
    ContextColor.GREEN: "white on #2e7d32",
    ContextColor.CYAN: "black on #26c6da",
    ContextColor.BLUE: "white on #1a5fb4",
    ContextColor.MAGENTA: "white on #8e24aa",
    ContextColor.WHITE: "black on #e0e0e0",
}
_CONTEXT_STYLE = "$text on $secondary"
"""Of one without a colour."""

READ_ONLY_BADGE = " READ-ONLY "


class HeadLine(Static):
    """``show`` it anew when the way changes."""

    def show(self, settings: DashboardSettings, read_only: bool, way: list[str]) -> None:
        parts = [Content.styled(" rmqadmin ", "bold $text on $primary")]
        if settings.context is not None:
            style = _CONTEXT_STYLE if settings.color is None else _STYLES[settings.color]
            parts.append(literal(f" {settings.context} ", f"bold {style}"))
        parts.append(literal(f" {settings.namesrv_text} ", "$text-muted"))
        if read_only:
            parts.append(Content.styled(READ_ONLY_BADGE, "bold $text on $warning"))
        parts.append(Content(" "))
        for at, step in enumerate(way):
            if at:
                parts.append(Content.styled(" › ", "$text-muted"))
            parts.append(literal(step, "bold" if at == len(way) - 1 else ""))
        self.update(Content.assemble(*parts), layout=False)
