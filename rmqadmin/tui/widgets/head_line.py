"""The first line of a screen: the context in its colour, the servers, whether changes are permitted, and the path to
this screen."""

from __future__ import annotations

from textual.content import Content

from rmqadmin.core.contexts.context import ContextColor
from rmqadmin.core.terminal_text import display_width, printable, shortened_in_middle
from rmqadmin.tui.settings import DashboardSettings
from rmqadmin.tui.widgets.told_line import ToldLine

CONTEXT_STYLES = {
    ContextColor.RED: "white on #b3261e",
    ContextColor.YELLOW: "black on #f2c200",
    ContextColor.GREEN: "white on #2e7d32",
    ContextColor.CYAN: "black on #26c6da",
    ContextColor.BLUE: "white on #1a5fb4",
    ContextColor.MAGENTA: "white on #8e24aa",
    ContextColor.WHITE: "black on #e0e0e0",
}
_CONTEXT_STYLE = "$on-secondary on $secondary"
"""The style of a context without a colour."""

READ_ONLY_BADGE = " READ-ONLY "
_BRAND = " rmqadmin "
_BETWEEN = " › "
_SERVERS_WIDTH_MIN, _STEP_WIDTH_MIN = 15, 8


class HeadLine(ToldLine):
    """Call ``show`` when the path or the width changes."""

    def show(self, settings: DashboardSettings, read_only: bool, way: list[str]) -> None:
        width = self.size.width or self.app.size.width
        context = "" if settings.context is None else f" {printable(settings.context)} "
        badge = READ_ONLY_BADGE if read_only else ""
        room = width - display_width(context) - len(badge)
        brand, servers, steps = fitted(printable(settings.namesrv_text), [printable(step) for step in way], room)
        parts = [Content.styled(brand, "bold $on-primary on $primary")]
        if context:
            style = _CONTEXT_STYLE if settings.color is None else CONTEXT_STYLES[settings.color]
            parts.append(Content.styled(context, f"bold {style}"))
        parts.append(Content.styled(f" {servers} ", "$text-muted"))
        if badge:
            parts.append(Content.styled(badge, "bold $on-warning on $warning"))
        parts.append(Content(" "))
        for at, step in enumerate(steps):
            if at:
                parts.append(Content.styled(_BETWEEN, "$text-muted"))
            parts.append(Content.styled(step, "bold" if at == len(steps) - 1 else ""))
        self.tell(Content.assemble(*parts))


def fitted(servers: str, way: list[str], width: int) -> tuple[str, str, list[str]]:
    """Brand, servers and steps that fit into ``width`` cells, if possible. The brand is left out first, then servers
    and steps are shortened, the last step after all others. The context and the badge are never shortened."""
    brand, steps = _BRAND, list(way)

    def over() -> int:
        between = len(_BETWEEN) * max(0, len(steps) - 1)
        return len(brand) + display_width(servers) + 3 + sum(map(display_width, steps)) + between - width

    if over() > 0:
        brand = ""
    if over() > 0:
        servers = shortened_in_middle(servers, max(_SERVERS_WIDTH_MIN, display_width(servers) - over()))
    for at in range(len(steps)):
        if over() > 0:
            steps[at] = shortened_in_middle(steps[at], max(_STEP_WIDTH_MIN, display_width(steps[at]) - over()))
    return brand, servers, steps
