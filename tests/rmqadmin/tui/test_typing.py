"""What people type and paste: with an input method, several lines at once, keys that follow each other."""

from __future__ import annotations

import pytest
from textual import events
from textual.widgets import Input

from tests.rmqadmin.tui.opened import Driver
from tests.support.quick import first_is_quick


@pytest.mark.parametrize(
    ("key", "shown"),
    first_is_quick(
        [
            ("：", "topics, group NAME, save FILE"),
            ("？", "on this screen"),
            ("／", "regular expression"),
            ("、", "regular expression"),
            ("ｔ", "newest"),
        ]
    ),
)
async def test_a_key_in_full_width_is_the_key(driver: Driver, key: str, shown: str) -> None:
    await driver.until_shown("broker-a")
    assert shown not in driver.text
    driver.app.post_message(events.Key(f"fullwidth_{ord(key)}", key))
    await driver.until_shown(shown)
    assert not isinstance(driver.app.focused, Input) or not driver.app.focused.value


@pytest.mark.slow
async def test_in_a_line_of_text_full_width_letters_are_text(driver: Driver) -> None:
    await driver.press("t", "slash")
    await driver.until(lambda: isinstance(driver.app.focused, Input))
    for key in "订单：":
        driver.app.post_message(events.Key(f"wide_{ord(key)}", key))
    await driver.until(lambda: isinstance(focused := driver.app.focused, Input) and focused.value == "订单：")


@pytest.mark.parametrize(("key", "into"), first_is_quick([("slash", "filter"), ("colon", "command"), ("s", "topic")]))
async def test_pasted_lines_are_one_line_and_that_is_said(driver: Driver, key: str, into: str) -> None:
    """Only the first line was taken."""
    await driver.press(key)
    await driver.until(lambda: driver.app.focused is not None and driver.app.focused.id == into)
    driver.app.post_message(events.Paste("  fli\r\n\nghts \n"))
    await driver.until_shown("2 pasted lines are one now")
    assert isinstance(driver.app.focused, Input)
    assert driver.app.focused.value == "fli ghts"
    driver.app.post_message(events.Paste("!"))
    await driver.until(lambda: isinstance(focused := driver.app.focused, Input) and focused.value == "fli ghts!")


@pytest.mark.slow
async def test_ctrl_c_names_the_key_that_quits(driver: Driver) -> None:
    await driver.press("ctrl+c")
    await driver.until_shown("q quits")
    assert "ctrl+q" not in driver.text


@pytest.mark.slow
async def test_escape_leaves_the_search_and_its_key_goes_to_the_question(driver: Driver) -> None:
    """After two of them, a key was text; and what was typed at the next visit were keys."""
    await driver.press("s")
    await driver.type("fli", into="topic")
    await driver.press("escape", "escape", "t")
    await driver.until(lambda: driver.app.way == ["Topics"])
    await driver.press("s")
    await driver.type("ghts", into="topic")
    assert isinstance(driver.app.focused, Input)
    assert driver.app.focused.value == "ghts", "in place of the text before"
    assert driver.app.way == ["Search"]
