"""The CSS classes that a screen has because of its size."""

from __future__ import annotations

from typing import Any

from textual.geometry import Size
from textual.screen import Screen


def meet_breakpoints(screen: Screen[Any]) -> None:
    """Adds the classes before the screen has widgets. Textual adds them after it has drawn the screen, and must then
    find every widget's style and draw everything again."""
    change_breakpoints(screen, screen.app.size)


def change_breakpoints(screen: Screen[Any], size: Size) -> bool:
    """Gives the screen the classes of another size, and returns whether they differ. Widgets keep their styles."""
    before = screen.classes
    for breakpoints, cells in (
        (screen.HORIZONTAL_BREAKPOINTS, size.width),
        (screen.VERTICAL_BREAKPOINTS, size.height),
    ):
        met = [name for least, name in sorted(breakpoints or (), reverse=True) if cells >= least]
        screen.update_classes({name: name in met[:1] for _, name in breakpoints or ()}, update=False)
    return screen.classes != before
