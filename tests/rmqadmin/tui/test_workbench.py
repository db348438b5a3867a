"""The dead-letter workbench: letters are marked, redriven once, exported, walked through. It uses the redrive of `dlq
redrive`."""

from __future__ import annotations

import json
from pathlib import Path

import pexpect
import pytest
from textual.widgets import Input

from rmqadmin.tui.memory.readings import Depth
from rmqadmin.tui.screens.message import MessageScreen
from rmqadmin.tui.screens.messages import MessagesScreen
from rmqadmin.tui.widgets.detail import Detail
from rmqadmin.tui.widgets.frame import CutLine
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.headers.consuming import PULL_BATCH_COUNT
from rmqproto.names import dlq_topic, retry_topic
from rmqreplay.ledger.letters import REPLAY_ID, REPLAY_ROUND
from tests.rmqadmin.tui.conftest import BROKER, World
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.opened import Driver, at_row, drive, put_cursor_at
from tests.rmqadmin.tui.test_terminal import expect_all, started
from tests.support import servers
from tests.support.servers import Fresh

WIDE = (264, 40)
DEEP_BODY = b'{"n": 1, "route": {"from": "EWR", "to": "IAH"}}'


def make_letters(world: World, count: int) -> None:
    """Adds dead letters with the keys ``lost-1`` and so on, in queue 1 behind key-1; the world has key-0."""
    for number in range(1, count + 1):
        properties = {"error_message": "no such invoice"}
        message = Message(world.topic, DEEP_BODY, tags="A", keys=f"lost-{number}", properties=properties)
        world.admin.send_message(world.server.broker_addr, MessageQueue(world.topic, BROKER, 1), message)
        world.make_dead_letter(1, number)


def sent_again(world: World) -> list[str]:
    """The sorted keys of the messages that were redriven to the group alone."""
    addr, found, topic = world.server.broker_addr, [], retry_topic(world.group)
    for queue_id in range(world.admin.topic_config(addr, topic).read_queue_nums):
        queue = MessageQueue(topic, BROKER, queue_id)
        pulled = world.admin.pull_message(addr, queue, 0, max_count=32)
        found += [one.properties["KEYS"] for one in pulled.messages if REPLAY_ID in one.properties]
    return sorted(found)


async def at_letters(driver: Driver, world: World, count: int) -> MessagesScreen:
    await at_row(driver, "d", world.group, "enter")
    await driver.until_shown(f"{count} messages of {count}")
    screen = driver.app.screen
    assert isinstance(screen, MessagesScreen)
    return screen


async def filtered(driver: Driver, text: str, shown: str) -> None:
    await driver.press("slash")
    await driver.enter(text, into="filter")
    await driver.until_shown(shown)


@pytest.mark.slow
async def test_what_the_filter_shows_is_marked_and_redriven_once(driver: Driver, world: World) -> None:
    make_letters(world, 2)
    screen = await at_letters(driver, world, 3)
    assert "redriven" not in driver.text
    await filtered(driver, "lost", "2 of 3 messages")
    await driver.press("a")
    await driver.until_shown("2 marked", "●")
    await driver.press("R")
    await driver.until_shown(
        f"Redrive 2 dead letters of {world.group}",
        "would be sent",
        f"to {retry_topic(world.group)}",
        "no group reads it now",
    )
    await driver.until_shown("dlq redrive --execute --job", f"Type {world.group} to go on")
    assert sent_again(world) == []
    await driver.enter(world.group, into="name")
    await driver.until_shown("2 sent, 0 rejected", "found there 2, missing 0, doubled 0")
    assert sent_again(world) == ["lost-1", "lost-2"]
    await driver.press("escape")
    await driver.until(lambda: driver.app.screen is screen and not screen.table.marked)
    await driver.until(lambda: len(screen.table.left_out) == 2)
    await driver.press("slash", "escape")
    await driver.until(lambda: sum(" yes " in line for line in driver.lines) == 2)
    assert all("lost" in line for line in driver.lines if " yes " in line)
    await driver.press("a")
    await driver.until_shown("1 marked", "2 redriven before are left out")
    assert [one.properties["KEYS"] for one in screen.table.marked.values()] == ["key-0"]
    await driver.press("a")
    await driver.until(lambda: not screen.table.marked)
    await driver.press("home", "space", "space", "R")
    await driver.until_shown("left out: redriven before", "2 redriven before")
    assert "to go on" not in driver.text
    assert sent_again(world) == ["lost-1", "lost-2"]


@pytest.mark.slow
async def test_the_one_under_the_cursor_is_redriven_if_none_is_marked_and_one_that_goes_round_is_not(
    driver: Driver, world: World
) -> None:
    message = Message(world.topic, b"x", keys="round", properties={REPLAY_ROUND: "3"})
    world.admin.send_message(world.server.broker_addr, MessageQueue(world.topic, BROKER, 2), message)
    world.make_dead_letter(2, 1)
    screen = await at_letters(driver, world, 2)
    key = next(key for key in screen.table.row_keys() if screen.table.part(key).properties["KEYS"] == "round")
    screen.table.move_to(key)
    await driver.press("R")
    await driver.until_shown("Redrive 1 dead letter", "would be rejected: was redriven 3 times")
    assert "to go on" not in driver.text
    await driver.press("escape", "a")
    await driver.until_shown("2 marked")
    await driver.press("R")
    await driver.until_shown("would be rejected", "would be sent", "to go on")
    await driver.enter(world.group, into="name")
    await driver.until_shown("1 sent, 1 rejected", "rejected: was redriven 3 times")
    assert sent_again(world) == ["key-0"]


@pytest.mark.slow
async def test_where_letters_go_is_chosen_and_the_groups_that_get_copies_are_named(
    driver: Driver, world: World, fresh: Fresh
) -> None:
    addr, other = world.server.broker_addr, fresh("b-audit")
    world.admin.create_group(addr, SubscriptionGroupConfig(group_name=other))
    world.admin.update_consumer_offset(addr, other, world.topic, 0, 0)
    make_letters(world, 1)

    def copies(topic: str) -> int:
        queues = range(world.admin.topic_config(addr, topic).read_queue_nums)
        return sum(world.admin.max_offset(addr, topic, queue_id) for queue_id in queues)

    await at_letters(driver, world, 2)
    await driver.press("R")
    await driver.until_shown(f"● {world.group} only", "no group reads it now", f"Type {world.group} to go on")
    before = copies(world.topic)
    driver.app.screen.set_focus(driver.app.screen.query_one("#field-to"))
    await driver.press("down")
    await driver.until_shown(f"to {world.topic}: read by", f"of which {other} did not fail")
    await driver.until_shown(f"○ {world.group} only", "● the topics they came from")
    await driver.press("down")
    await driver.until_shown("to which topic?")
    assert "to go on" not in driver.text
    await driver.press("up")
    await driver.until_shown(f"of which {other} did not fail", "to go on")
    assert copies(world.topic) == before
    await driver.press("enter")
    await driver.enter(world.group, into="name")
    await driver.until_shown("1 sent, 0 rejected")
    assert copies(world.topic) == before + 1
    assert sent_again(world) == []


async def test_an_orderly_group_is_refused_with_the_reason_and_the_other_way(driver: Driver, world: World) -> None:
    make_letters(world, 1)
    config = SubscriptionGroupConfig(group_name=world.group, consume_message_orderly=True)
    world.admin.create_group(world.server.broker_addr, config)
    await at_letters(driver, world, 2)
    await driver.press("a", "R")
    await driver.until_shown("consumes orderly", "Choose the topics they came from")
    assert "to go on" not in driver.text


@pytest.mark.slow
async def test_a_rate_is_kept_and_stopped_on_the_way_the_rest_can_be_resumed(driver: Driver, world: World) -> None:
    make_letters(world, 9)
    await at_letters(driver, world, 10)
    await driver.press("a", "R")
    await driver.until_shown("to go on")
    rate = driver.app.screen.query_one("#field-rate")
    driver.app.screen.set_focus(rate)
    await driver.enter("2", into="field-rate")
    await driver.until_shown("to go on")
    await driver.enter(world.group, into="name")
    await driver.until_shown("of 10 sent, at most 2/s", "Slower")
    await driver.press("escape")
    await driver.until_shown("dlq redrive --resume --job", "not confirmed yet", "of 10 sent so far", "to go on")
    assert "would be sent" not in driver.text
    sent_count = len(sent_again(world))
    assert sent_count < 10
    await driver.enter(world.group, into="name")
    await driver.until_shown("10 sent, 0 rejected", "found there 10, missing 0, doubled 0")
    assert len(sent_again(world)) == 10 == len(set(sent_again(world)))


@pytest.mark.slow
async def test_marked_ones_are_exported_as_msg_export_does(
    driver: Driver, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_letters(world, 2)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "some.jsonl"
    screen = await at_letters(driver, world, 3)
    await driver.press("space", "space")
    await driver.until_shown("2 marked")
    await driver.press("x")
    await driver.until_shown("Export 2 messages", f"DLQ-{world.group}.jsonl")
    await driver.until(lambda: driver.app.focused is not None and driver.app.focused.id == "name")
    driver.app.screen.query_one("#name", Input).value = "~/some.jsonl"
    await driver.press("enter")
    await driver.until_shown("exported 2 to")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["message_id"] for line in lines} == {one.message_id for one in screen.table.marked.values()}
    assert all(line["topic"] == dlq_topic(world.group) for line in lines)
    before = path.read_bytes()
    await driver.until(lambda: driver.app.screen is screen)
    await driver.press("x")
    await driver.until(lambda: driver.app.focused is not None and driver.app.focused.id == "name")
    driver.app.screen.query_one("#name", Input).value = str(path)
    await driver.press("enter")
    await driver.until_shown("exists already")
    assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_a_wide_terminal_shows_what_is_in_the_message_under_the_cursor(driver: Driver, world: World) -> None:
    make_letters(world, 1)
    screen = await at_letters(driver, world, 2)
    laid_out = '    "to": "IAH"'
    await driver.until_shown(laid_out, "error_message", "no such invoice", f"failed in      {world.group}")
    await driver.press("down")
    await driver.until(lambda: laid_out not in driver.text)
    await driver.press("space")
    await driver.until_shown("1 marked")
    assert screen.table.marked.keys() == {screen.table.cursor_key}
    await driver.pilot.resize_terminal(120, 40)
    await driver.until_shown("born at")
    assert not screen.query_one(CutLine).display, "what has no room stands beside the list"
    await driver.pilot.resize_terminal(109, 40)
    await driver.until(lambda: not screen.query_one(Detail).region.area)


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_from_message_to_message_and_what_became_of_each(driver: Driver, world: World) -> None:
    make_letters(world, 2)
    screen = await at_letters(driver, world, 3)
    await driver.press("enter")
    await driver.until_shown("message 1 of 3", "keys lost-2", "every time it was stored")
    await driver.until_shown("sent ", "dead letter ", f"{world.topic} broker-a queue 1 @ 2", "no such invoice")
    await driver.press("8")
    message = driver.app.screen
    await driver.until(lambda: "-history" in message.classes and driver.text.count("every time it was stored") == 1)
    await driver.press("4")
    await driver.until_shown("UNIQ_KEY", "every time it was stored")
    await driver.press("right_square_bracket")
    await driver.until_shown("message 2 of 3", "keys lost-1", "UNIQ_KEY")
    await driver.press("right_square_bracket")
    await driver.until_shown("message 3 of 3", "keys key-0")
    await driver.press("right_square_bracket")
    await driver.until_shown("the list ends here")
    await driver.press("left_square_bracket")
    await driver.until_shown("message 2 of 3", "keys lost-1")
    assert isinstance(driver.app.screen, MessageScreen)
    await driver.press("escape")
    await driver.until(lambda: driver.app.screen is screen)
    assert screen.table.cursor_at == 1
    await driver.until(lambda: driver.text.count(screen.table.chosen.message_id) == 2)  # in its row, and beside it


@pytest.mark.slow
def test_from_the_shell_a_redrive_is_written_down(world: World, tmp_path: Path, state_home: Path) -> None:
    program = started(world, tmp_path, "tui", "--interval", "0.5", size=(120, 40))
    program.expect("broker-a")
    program.send("d/")
    program.expect("regular expression")
    program.send(world.group)
    program.expect(r"1 (of [\d,]+ )?group")
    program.send("\r")
    program.expect("Open")
    program.send("\r")
    expect_all(program, "key-0", "1 message of 1")
    program.send(" ")
    program.expect("1 marked")
    program.send("R")
    expect_all(program, "would be sent", f"Type {world.group} to go on")
    program.send(f"{world.group}\r")
    program.expect("1 sent, 0 rejected")
    program.send("\x1b")
    program.expect("Older")
    program.send("q")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before
    assert sent_again(world) == ["key-0"]
    lines = [json.loads(line) for line in (state_home / "rmqadmin/audit.jsonl").read_text().splitlines()]
    begin, end = lines
    assert (begin["event"], begin["command"], end["outcome"]) == ("begin", "tui", "done")
    (change,) = end["changes"]
    assert change["target"] == world.group
    assert change["action"].startswith(f"redrive of 1 dead letter to {retry_topic(world.group)}, job ")


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_all_that_match_are_marked_also_those_that_the_list_does_not_show(
    driver: Driver, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to mark only the 200 newest."""
    monkeypatch.setattr("rmqadmin.tui.sources.messages.WINDOW_COUNT", 4)
    make_letters(world, 9)
    await at_row(driver, "d", world.group, "enter")
    await driver.until_shown(" of 10")
    screen = driver.app.screen
    assert isinstance(screen, MessagesScreen)
    await filtered(driver, "lost", "filter lost")
    assert screen.table.all_count < 9
    await driver.press("a")
    await driver.until_shown("9 marked")
    await driver.press("a")
    await driver.until(lambda: not screen.table.marked)
    await driver.press("a")
    await driver.until_shown("9 marked")
    await driver.press("R")
    await driver.until_shown("Redrive 9 dead letters", f"to {retry_topic(world.group)}", f"Type {world.group} to go on")
    await driver.enter(world.group, into="name")
    await driver.until_shown("9 sent, 0 rejected", "found there 9, missing 0, doubled 0")
    assert sent_again(world) == [f"lost-{number}" for number in range(1, 10)]


@pytest.mark.slow
async def test_it_is_told_when_not_all_that_match_could_be_marked(
    driver: Driver, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of one pull is not cut: here 32 messages."""
    monkeypatch.setattr("rmqadmin.tui.sources.messages.WINDOW_COUNT", 2)
    monkeypatch.setattr("rmqadmin.tui.screens.messages.MARKED_MAX", 3)
    make_letters(world, PULL_BATCH_COUNT + 2)
    await at_row(driver, "d", world.group, "enter")
    await driver.until_shown(f" of {PULL_BATCH_COUNT + 3}")
    await driver.press("a")
    await driver.until_shown(f"{PULL_BATCH_COUNT + 2} marked; not all were looked at: 3 matched")


@pytest.mark.slow
def test_a_letter_that_was_redriven_in_one_cluster_was_not_in_another_with_the_same_names(
    world: World, tmp_path: Path
) -> None:
    """Broker, group, topic, queue and offset are the same in both. Where it was redriven, what was and what is left
    are together as many as there are."""
    make_letters(world, 2)

    async def redrive(driver: Driver) -> None:
        await at_letters(driver, world, 3)
        await filtered(driver, "lost", "2 of 3 messages")
        await driver.press("a", "R")
        await driver.enter(world.group, into="name")
        await driver.until_shown("2 sent, 0 rejected")
        await driver.press("escape", "escape")
        await driver.until(lambda: counts(driver, world.group) == (3, 2, 1))

    async def look(driver: Driver) -> None:
        await driver.press("d")
        await driver.until(lambda: counts(driver, world.group) == (3, 0, 3))
        screen = await at_letters(driver, other, 3)
        await driver.until(lambda: screen.table.model.known_count("numbers") == 3)
        assert not screen.table.left_out
        assert "redriven" not in driver.text

    with servers.standalone(tmp_path / "other") as server, AdminClient(server.namesrv_addr) as admin:
        other = World(server, admin, world.topic, world.group)
        other.fill()
        make_letters(other, 2)
        drive(world.make_client, redrive)
        drive(other.make_client, look)


def counts(driver: Driver, group: str) -> tuple[int | None, ...]:
    """How many letters a group has, how many were redriven, and how many are left, by the list of groups."""
    table = driver.app.screen.query_one(RowTable)
    found: Depth | None = table.part(group, "numbers")
    return () if found is None else (found.letters.depth_count, found.letters.redriven_count, found.letters.left_count)


@pytest.mark.dashboard(make_client=FixedClient, now_ms=NOW_MS, size=(110, 30))
async def test_bytes_beside_a_list_stand_on_one_line_with_their_characters(driver: Driver) -> None:
    await driver.press("d", "enter")
    await put_cursor_at(driver, 2)
    await driver.until_shown("6e 6f 74 20  4a 53 4f 4e  |not JSON|")
