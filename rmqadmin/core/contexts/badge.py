"""A context's name in its colour, shown before a question."""

from __future__ import annotations

from rmqadmin.core.contexts.context import Context, ContextColor

_BACKGROUNDS = {
    ContextColor.RED: "41;97",
    ContextColor.YELLOW: "43;30",
    ContextColor.GREEN: "42;30",
    ContextColor.CYAN: "46;30",
    ContextColor.BLUE: "44;97",
    ContextColor.MAGENTA: "45;97",
    ContextColor.WHITE: "47;30",
}
"""The terminal's SGR parameters: background and foreground."""


def badge(context: Context, *, has_color: bool) -> str:
    """``[live]``, coloured if both the context and the terminal have colour."""
    color = context.shown_color
    text = f"[{context.name}]"
    return text if color is None or not has_color else f"\x1b[1;{_BACKGROUNDS[color]}m{text}\x1b[0m"
