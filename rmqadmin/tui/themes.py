"""The dashboard's two themes, and the user's own: ``themes/NAME.toml`` under the XDG configuration directory. Each has
colours by Textual's names, of which only ``primary`` is required, and ``dark = false`` if it is light.

Textual derives text colours from these few and ignores the background: yellow on white, or a muted grey on the cursor's
row. Here each text colour moves towards white or black until it has ``CONTRAST_MIN`` on every background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textual.color import BLACK, WHITE, Color, ColorParseError
from textual.theme import Theme

from rmqadmin.core.files import config_dir, parse_toml
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


CONTRAST_MIN = 4.5
"""The contrast that WCAG 2 requires of text (level AA)."""

CURVE_CONTRAST_MIN = 3.0
"""The same of what is no text: curves stand back behind it."""

GROUNDS = ("background", "surface", "panel", "primary-muted", "boost")
"""The backgrounds of text. ``primary-muted`` is the cursor's row; ``boost`` lies over ``surface``."""
ROLES = (
    "foreground", "text-primary", "text-secondary", "text-accent", "text-success", "text-warning", "text-error",
)  # fmt: skip
FOOTER_GROUND = "footer-background"
"""Some themes give the last line a colour unlike all others."""
FOOTER_ROLES = ("footer-foreground", "footer-key-foreground", "footer-description-foreground")
_FIELD = 0.14
"""The background of an input is this far from the surface to the foreground: it must be visible while it is empty."""
_QUIET = {"text-muted": 0.35, "text-disabled": 0.5}
"""How far each is from the foreground to the background."""
BADGES = ("primary", "secondary", "success", "warning")
"""Colours used behind text: ``$on-primary`` is the text's colour on ``primary``."""

_CURVE = 0.45
"""How far a curve is from the background to the accent."""

_STEPS = 20


def contrast(one: Color, other: Color) -> float:
    """The contrast of two colours, from 1 to 21, as WCAG 2 defines it."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def are_terminals_own(variables: Mapping[str, str]) -> bool:
    """Whether a theme's colours are those of the terminal, whatever they are."""
    return Color.parse(variables["primary"]).ansi is not None


def readable(variables: Mapping[str, str]) -> dict[str, str]:
    """Replacements for some of a theme's CSS variables, and the new ones ``line``, ``curve``, ``field``,
    ``footer-disabled`` and ``on-…``. Colours of the terminal stay, because their values are unknown here."""
    if are_terminals_own(variables):
        kept = {"line": "primary", "curve": "primary", "field": "boost", "footer-disabled": "footer-foreground"}
        kept |= {f"on-{name}": "text" for name in BADGES}
        return {name: variables[like] for name, like in kept.items()}
    names = ("accent", *GROUNDS, *ROLES, FOOTER_GROUND, *FOOTER_ROLES, *BADGES, "block-cursor-background")
    colors = {name: Color.parse(variables[name]) for name in names}
    background, surface, foreground = colors["background"], colors["surface"], colors["foreground"]
    field = surface.blend(foreground, _FIELD, alpha=1)
    grounds = [*(surface + colors[name] for name in GROUNDS), field]
    found = {name: _stronger(colors[name], grounds) for name in ROLES}
    for name, factor in _QUIET.items():
        found[name] = _stronger(foreground.blend(background, factor), grounds)
    found["field"] = field
    curve = background.blend(colors["accent"], _CURVE, alpha=1)
    found["curve"] = _stronger(curve, grounds, CURVE_CONTRAST_MIN)
    found["line"] = _stronger(colors["primary"], grounds)
    footer = background + colors[FOOTER_GROUND]
    for name in FOOTER_ROLES:
        found[name] = _stronger(colors[name], [footer])
    faint = found["footer-foreground"].blend(footer, _QUIET["text-disabled"])
    found["footer-disabled"] = _stronger(faint, [footer])
    for name in BADGES:
        found[f"on-{name}"] = text_on(background + colors[name])
    found["block-cursor-foreground"] = text_on(background + colors["block-cursor-background"])
    return {name: color.hex for name, color in found.items()}


def _stronger(color: Color, grounds: Sequence[Color], least: float = CONTRAST_MIN) -> Color:
    """The readable colour nearest to ``color``; black or white if a theme's backgrounds are too far apart."""
    end = max(BLACK, WHITE, key=lambda color: min(contrast(color, ground) for ground in grounds))
    for step in range(_STEPS):
        mixed = color.blend(end, step / _STEPS, alpha=1)
        if all(contrast(mixed, ground) >= least for ground in grounds):
            return mixed
    return end


def text_on(ground: Color) -> Color:
    """White if it is readable on ``ground``, otherwise black, which then is."""
    return WHITE if contrast(WHITE, ground) >= CONTRAST_MIN else BLACK
