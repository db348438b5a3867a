"""A dialog over a dimmed screen."""

from __future__ import annotations

from textual.screen import ModalScreen, ScreenResultType

from rmqadmin.tui.key_map import bound

PICTURE_KEY = bound("picture", "app.save_picture")
"""A key of the app and of each dialog, because the app's own keys do not work under a dialog."""


class Dialog(ModalScreen[ScreenResultType]):
    """The base of all dialogs and of the command line."""
