"""The dashboard's two themes, and the user's own: ``themes/NAME.toml`` under the XDG configuration directory. Each has
colours by Textual's names, of which only ``primary`` is required, and ``dark = false`` if it is light."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

from rmqadmin.core.own_files import config_dir
from rmqadmin.core.user_files import parse_toml
from rmqproto.errors import UsageError

COLORS = (
    "primary", "secondary", "accent", "foreground", "background", "surface", "panel", "boost", "success", "warning",
    "error",
)  # fmt: skip
_DARK = "dark"
DARK, LIGHT = (
    Theme(
        name="rmq-dark", primary="#6cb6d9", accent="#6cb6d9", foreground="#d3dae3", background="#10141a",
        surface="#151a22", panel="#191d24", success="#7fc98f", warning="#e5b567", error="#ef7f78",
        variables={"primary-muted": "#243744"},
    ),
    Theme(
        name="rmq-light", primary="#1f6f94", accent="#1f6f94", foreground="#1c232b", background="#fbfcfd",
        surface="#f1f4f7", panel="#e6ebf0", success="#2d7a3e", warning="#8a5a00", error="#b3261e", dark=False,
        variables={"primary-muted": "#cfe2ec"},
    ),
)  # fmt: skip
"""The first is the default."""


def themes_dir() -> Path:
    return config_dir() / "themes"


def read_themes(folder: Path) -> tuple[list[Theme], list[str]]:
    """The themes of a folder, sorted by name, and what is wrong with the files that hold none."""
    themes, problems = [], []
    for path in sorted(folder.glob("*.toml")):
        try:
            themes.append(_theme(path))
        except UsageError as error:
            problems.append(f"{error}. {error.hint or ''}".rstrip())
    return themes, problems


def _theme(path: Path) -> Theme:
    try:
        values = parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from None
    for key in values:
        if key not in (*COLORS, _DARK):
            raise UsageError(f"{path}: {key} is unknown", hint=f"Known are {', '.join(COLORS)} and {_DARK}.")
    if "primary" not in values:
        raise UsageError(f"{path}: primary is missing", hint='For example primary = "#0178d4".')
    dark = values.get(_DARK, True)
    if not isinstance(dark, bool):
        raise UsageError(f"{path}: {_DARK} must be true or false")
    return Theme(name=path.stem, dark=dark, **_colors(path, values))


def _colors(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in values.items() if key in COLORS}
    for key, value in found.items():
        try:
            Color.parse(value)
        except (ColorParseError, TypeError, AttributeError):
            raise UsageError(f"{path}: {key} = {value!r} is not a colour", hint="Write #rrggbb or a name.") from None
    return found
