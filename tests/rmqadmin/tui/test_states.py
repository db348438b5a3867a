"""What a screen looks like when there is nothing to show on it, or no room to show it."""

from __future__ import annotations

import pytest

from tests.rmqadmin.tui.fixed import TOPIC
from tests.rmqadmin.tui.opened import Driver, at_row


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24))
async def test_a_terminal_without_room_says_what_it_needs_and_the_screen_comes_back(driver: Driver) -> None:
    await at_row(driver, "t", TOPIC)
    for size in ((59, 24), (80, 15)):
        await driver.pilot.resize_terminal(*size)
        needed = f"the terminal is {size[0]}x{size[1]}, 60x16 is needed"
        await driver.until(lambda needed=needed: driver.text.split("\n")[0].strip() == needed)
        assert TOPIC not in driver.text
    await driver.pilot.resize_terminal(60, 16)
    await driver.until_shown(TOPIC, "Open")
    await driver.press("p")
    await driver.until_shown("type the name")
    await driver.pilot.resize_terminal(50, 12)
    await driver.until_shown("the terminal is 50x12, 60x16 is needed")
