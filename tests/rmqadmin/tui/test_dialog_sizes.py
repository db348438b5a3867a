"""Dialogs fit every terminal from 80 x 24 on: the line that carries out a change is in view, and the rest scrolls. A
closed dialog accepts nothing more."""

from __future__ import annotations

import pytest
from textual.css.query import NoMatches
from textual.widgets import Input

from rmqadmin.tui.dialogs.change import ChangeDialog
from rmqadmin.tui.until_closed import until_closed, while_open
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.fixed import NOW_MS, TOPIC
from tests.rmqadmin.tui.opened import Driver, at_row, drive, put_cursor
from tests.support.quick import first_size_is_quick
from tests.support.servers import topic_config

QUEUE_COUNT = 16
SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.mark.slow
@pytest.mark.parametrize("size", first_size_is_quick(SIZES), ids=str)
def test_a_reset_of_many_queues_shows_the_totals_and_the_line_to_type_into(world: World, size: tuple[int, int]) -> None:
    topic = f"{world.topic}-wide"
    addr = world.server.broker_addr
    world.admin.create_topic(addr, topic_config(topic, QUEUE_COUNT))
    world.topic = topic
    for queue_id in range(QUEUE_COUNT):
        world.send(b"x", queue_id=queue_id)
        world.admin.update_consumer_offset(addr, world.group, topic, queue_id, 0)

    def offsets() -> list[int | None]:
        return [world.admin.consumer_offset(addr, world.group, topic, number) for number in range(QUEUE_COUNT)]

    async def test(driver: Driver) -> None:
        await at_row(driver, "g", world.group, "enter")
        await put_cursor(driver, f"{topic}/broker-a/0")
        await driver.press("ctrl+r")
        await driver.enter("end", into="field-to")
        await driver.until_shown("lag in 16 queues: 16 before, 0 after", f"Type {world.group} to go on")
        dialog = driver.app.screen
        assert isinstance(dialog, ChangeDialog)
        name = dialog.query_one("#name", Input)
        screen = dialog.region
        await driver.until(lambda: name.region.height == 1 and name.region in screen)
        if size == SIZES[0]:
            assert "page down shows all 16 rows" in driver.text
            assert "broker-a     15" not in driver.text
            await driver.press("pagedown")  # while the name has the focus
        await driver.until_shown("broker-a     15")
        await driver.enter(world.group, into="name")
        await driver.until_shown("to undo this:")
        assert offsets() == [1] * QUEUE_COUNT

    drive(world.make_client, test, size=size)


@pytest.mark.slow
@pytest.mark.dashboard(size=SIZES[0])
async def test_a_text_has_the_focus_only_while_it_scrolls_and_shows_it(driver: Driver, world: World) -> None:
    """``shift+tab`` used to go from the first field to a text, which showed nothing of that."""
    await at_row(driver, "t", world.topic, "e")
    dialog = driver.app.screen
    assert isinstance(dialog, ChangeDialog)
    text = dialog.query_one("#saying")
    assert text not in dialog.focus_chain
    dialog.say("\n".join(map(str, range(9))))
    await driver.until(lambda: text in dialog.focus_chain)
    plain = text.background_colors
    text.focus()
    await driver.until(lambda: text.background_colors != plain)


@pytest.mark.slow
@pytest.mark.dashboard(size=SIZES[0], now_ms=NOW_MS)
async def test_what_may_be_entered_is_said_of_the_field_with_the_focus(driver: Driver) -> None:
    await at_row(driver, "t", TOPIC, "n")
    await driver.until_shown("letters, digits")
    await driver.press("tab")
    await driver.until(lambda: "a cluster, or a broker's address" in driver.text and "letters" not in driver.text)


@pytest.mark.slow
async def test_what_comes_for_a_dialog_that_is_closed_is_dropped(driver: Driver, world: World) -> None:
    """A preview, a layout and a new focus used to end the dashboard, because their widgets were gone."""
    await at_row(driver, "t", world.topic, "p")
    await driver.until_shown("Permissions of the topic")
    dialog = driver.app.screen
    assert isinstance(dialog, ChangeDialog)
    await driver.press("escape")
    await driver.until(lambda: not dialog.query("*"))
    await until_closed(dialog, lambda: dialog._preview(then_name=True))
    dialog.on_row_table_moved()
    dialog._preview_if_filled()
    with pytest.raises(NoMatches), while_open(driver.app.screen):
        driver.app.screen.query_one("#none")
