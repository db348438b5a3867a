"""A dialog over a dimmed screen."""

from __future__ import annotations

from textual.binding import Binding
from textual.screen import ModalScreen, ScreenResultType

PICTURE_KEY = Binding("ctrl+s", "app.save_picture", "Save as SVG", show=False, id="app.picture")
"""A key of the app and of each dialog, because the app's own keys do not work under a dialog."""


class Dialog(ModalScreen[ScreenResultType]):
    """The base of all dialogs and of the command line."""
