"""Colours of text, in all built-in themes and in any theme that a user may write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.color import BLACK, WHITE, Color
from textual.theme import BUILTIN_THEMES, Theme

from rmqadmin.core.contexts.context import ContextColor
from rmqadmin.tui.themes import (
    BADGES,
    CONTRAST_MIN,
    CURVE_CONTRAST_MIN,
    DARK,
    FOOTER_GROUND,
    FOOTER_ROLES,
    GROUNDS,
    LIGHT,
    ROLES,
    contrast,
    readable,
    text_on,
)
from rmqadmin.tui.widgets.frame import CONTEXT_STYLES

OWN = [theme for theme in BUILTIN_THEMES.values() if Color.parse(theme.primary).ansi is not None]
"""Their colours are the terminal's own."""
THEMES = [DARK, LIGHT, *(theme for theme in BUILTIN_THEMES.values() if theme not in OWN)]
COLORS = st.tuples(*[st.integers(0, 255)] * 3).map(lambda rgb: Color(*rgb))
ROLES_MADE = (*ROLES, "text-muted", "text-disabled", "line")


def variables_of(theme: Theme) -> dict[str, str]:
    variables = {**theme.to_color_system().generate(), **theme.variables}
    return {**variables, **readable(variables)}


def least(variables: dict[str, str], role: str) -> float:
    """The contrast on the worst of the backgrounds."""
    surface = Color.parse(variables["surface"])
    grounds = [surface + Color.parse(variables[name]) for name in (*GROUNDS, "field")]
    return min(contrast(Color.parse(variables[role]), ground) for ground in grounds)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_all_roles_on_all_grounds(theme: Theme) -> None:
    variables = variables_of(theme)
    assert {role: ratio for role in ROLES_MADE if (ratio := least(variables, role)) < CONTRAST_MIN} == {}
    assert least(variables, "curve") >= CURVE_CONTRAST_MIN
    for name in (*FOOTER_ROLES, "footer-disabled"):
        ground = Color.parse(variables["background"]) + Color.parse(variables[FOOTER_GROUND])
        assert contrast(Color.parse(variables[name]), ground) >= CONTRAST_MIN
    for name in BADGES:
        assert contrast(Color.parse(variables[f"on-{name}"]), Color.parse(variables[name])) >= CONTRAST_MIN


@given(COLORS, COLORS, st.booleans())
def test_of_any_theme_of_the_users_own(primary: Color, foreground: Color, dark: bool) -> None:
    theme = Theme(name="mine", primary=primary.hex, foreground=foreground.hex, dark=dark)
    variables = variables_of(theme)
    for role in ROLES_MADE:
        assert least(variables, role) >= CONTRAST_MIN or Color.parse(variables[role]) in (BLACK, WHITE)


@given(COLORS)
def test_black_or_white_can_be_read_on_any_colour(ground: Color) -> None:
    assert contrast(text_on(ground), ground) >= CONTRAST_MIN


def test_contrast_as_wcag_has_it() -> None:
    assert contrast(BLACK, WHITE) == contrast(WHITE, BLACK) == pytest.approx(21)
    assert contrast(WHITE, WHITE) == 1
    assert contrast(Color.parse("#767676"), WHITE) == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("theme", OWN, ids=lambda theme: theme.name)
def test_where_colours_are_the_terminals_own_they_stay(theme: Theme) -> None:
    variables = theme.to_color_system().generate()
    assert {name for name in readable(variables) if name in variables} == set()


@pytest.mark.parametrize("color", ContextColor)
def test_the_name_of_a_context_in_each_of_its_colours(color: ContextColor) -> None:
    text, ground = CONTEXT_STYLES[color].split(" on ")
    assert contrast(Color.parse(text), Color.parse(ground)) >= CONTRAST_MIN
