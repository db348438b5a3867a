"""The CSS classes that a screen has because of its size."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen


def meet_breakpoints(screen: Screen[Any]) -> None:
    """Adds the classes before the screen has widgets. Textual adds them after it has drawn the screen, and must then
    find every widget's style and draw everything again."""
    width, height = screen.app.size
    for breakpoints, cells in ((screen.HORIZONTAL_BREAKPOINTS, width), (screen.VERTICAL_BREAKPOINTS, height)):
        met = [name for least, name in sorted(breakpoints or (), reverse=True) if cells >= least]
        screen.add_class(*met[:1], update=False)
