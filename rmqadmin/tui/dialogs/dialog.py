"""A dialog over a dimmed screen."""

from __future__ import annotations

from textual.screen import ModalScreen, ScreenResultType


class Dialog(ModalScreen[ScreenResultType]):
    """The base of all dialogs and of the command line."""
