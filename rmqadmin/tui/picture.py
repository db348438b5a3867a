"""Pictures of a screen, as SVG files that load nothing from the network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from textual.app import App

from rmqadmin.tui.screens.base import DashboardScreen

_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich's pictures load a font from a public server, but a picture in a manual should load nothing."""

_FONT = re.compile(r"font-family: Fira Code, monospace;")
_OWN_FONT = "font-family: DejaVu Sans Mono, Menlo, Consolas, monospace;"
"""Fonts that systems have. Both contain every character that tables and sparklines use."""

_FILES_MAX = 10_000
_TITLE = "rmqadmin tui"


def save_picture(app: App[Any], folder: Path) -> Path:
    """Saves the screen as an SVG file under a name that is free. Returns its path."""
    name = picture_name(app)
    picture = picture_of(app)
    for number in range(1, _FILES_MAX):
        path = folder / f"{name}{f'-{number}' if number > 1 else ''}.svg"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(picture)
            return path
        except FileExistsError:
            continue
    raise FileExistsError(f"{folder} holds {_FILES_MAX} pictures of {name}")


def picture_name(app: App[Any]) -> str:
    """The name of a file, without its ending."""
    return f"rmqadmin-{app.screen.file_name if isinstance(app.screen, DashboardScreen) else 'dialog'}"


def picture_of(app: App[Any]) -> str:
    """The screen as SVG that loads nothing from the network."""
    return _FONT.sub(_OWN_FONT, _FONT_FACES.sub("", app.export_screenshot(title=_TITLE, simplify=True)))
