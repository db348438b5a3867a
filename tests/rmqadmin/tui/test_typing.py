"""What people type and paste: with an input method, several lines at once, keys that follow each other."""

from __future__ import annotations

from threading import Event

import pytest
from textual import events
from textual.widgets import Input

from rmqadmin.tui.command_line.line_screen import KnownNames
from rmqadmin.tui.widgets.tables.row_table import RowTable
from tests.rmqadmin.tui.fixed import TOPIC, FixedClient
from tests.rmqadmin.tui.opened import Driver, key_event, opened
from tests.support.quick import first_is_quick


@pytest.mark.parametrize(
    ("key", "shown"),
    first_is_quick(
        [
            ("：", "topics, group NAME, save FILE"),
            ("？", "on this screen"),
            ("／", "regular expression"),
            ("、", "regular expression"),
            ("ｔ", "› Topics"),
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


def typed_at_once(driver: Driver, *keys: str) -> None:
    """As a terminal gives them when they come faster than they take effect."""
    for character in "".join(keys):
        driver.app.post_message(key_event({"\r": "enter", "\t": "tab"}.get(character, character)))


async def test_what_follows_the_key_of_a_line_is_its_text_and_what_follows_enter_is_not(driver: Driver) -> None:
    await driver.press("t")
    await driver.until(lambda: isinstance(driver.app.focused, RowTable) and driver.app.focused.all_count > 2)
    typed_at_once(driver, "/stopped", "\r", "o")
    await driver.until_shown("filter stopped")
    typed_at_once(driver, "/", "\r", ":search", "\r")
    await driver.until_shown("Enter asks")


async def test_a_place_is_what_was_typed_before_enter(driver: Driver) -> None:
    await driver.until_shown("broker-a")
    typed_at_once(driver, f":topic {TOPIC}", "\r", "m")
    await driver.until(lambda: driver.app.way == ["Topics", TOPIC])


async def test_lines_of_a_question_are_filled_in_as_fast_as_one_likes(driver: Driver) -> None:
    await driver.until_shown("broker-a")
    typed_at_once(driver, f"s{TOPIC}", "\r", "tag:UA", "\t", "-2h..now", "\r")
    await driver.until_shown(f"of {TOPIC} with tag:UA, stored -2h..now")


async def test_a_place_that_was_given_up_while_its_name_was_looked_up_opens_nothing(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen below was closed, too."""
    asked, answers = Event(), Event()

    def names(*_: object) -> list[str]:
        asked.set()
        answers.wait(30)
        return [TOPIC]

    await driver.press("t")
    await driver.until(lambda: driver.app.way == ["Topics"])
    driver.app.open_thing(TOPIC)
    await driver.until(lambda: driver.app.way == ["Topics", TOPIC])
    await driver.press("colon")
    await driver.until(lambda: isinstance(driver.app.focused, Input))
    monkeypatch.setattr(KnownNames, "of", names)
    typed_at_once(driver, f"messages {TOPIC}", "\r")
    await driver.until(asked.is_set)
    await driver.press("escape")
    await driver.until(lambda: not isinstance(driver.app.focused, Input))
    answers.set()
    await driver.press("r")
    assert driver.app.way == ["Topics", TOPIC]


async def test_keys_behind_the_one_that_quits_are_ignored() -> None:
    async with opened(FixedClient) as driver:
        await driver.until_shown("broker-a")
        await driver.press("q")
    assert not driver.app.screen_stack
    await driver.app.on_event(events.Key("t", "t"))
