"""The classes that a screen has at its size."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen


def meet_breakpoints(screen: Screen[Any]) -> None:
    """Before its widgets are there. Textual does it when the screen has its size and has been drawn; then it finds the
    style of every widget again, and draws all of it once more."""
    width, height = screen.app.size
    for breakpoints, cells in ((screen.HORIZONTAL_BREAKPOINTS, width), (screen.VERTICAL_BREAKPOINTS, height)):
        met = [name for least, name in sorted(breakpoints or (), reverse=True) if cells >= least]
        screen.add_class(*met[:1], update=False)
