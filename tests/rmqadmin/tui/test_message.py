"""One message: what can be done with its body, what each group did with it, and what clients traced of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.widgets import Tabs

from rmqadmin.cli import program
from rmqadmin.core.error_table import EXPLANATIONS
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui.screens.message import MessageScreen
from rmqadmin.tui.screens.message_facts import compression_name, facts_of, flag_names
from rmqadmin.tui.widgets.json_tree import JsonTree
from rmqadmin.tui.widgets.lines import LINES_MAX, Lines
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.names import TRACE_TOPIC
from tests.rmqadmin.tui.conftest import BROKER, World
from tests.rmqadmin.tui.fixed import NOW_MS, dead_letter
from tests.rmqadmin.tui.opened import Driver, at_row, clients_of, drive, until_in_index
from tests.support import servers
from tests.support.python_member import PythonMember
from tests.support.quick import first_is_quick, in_one_test
from tests.support.servers import topic_config

WIDE = (170, 30)


@in_one_test(*range(58, 200))
def test_no_line_of_facts_ends_between_a_title_and_its_value(width: int) -> None:
    """``retries`` stood at the end of a line, and ``2`` on the next."""
    letter = dead_letter(2)
    found = FoundMessage(letter, BROKER, "192.0.2.10:10911", {"KEYS": "N39463", "TAGS": "UA", "RETRY_TOPIC": "flights"})
    lines = facts_of(found, "22 B", width).plain.splitlines()
    for fact in ("topic %DLQ%arrivals", "origin topic flights", "keys N39463", "tag UA", "retries 3", "body 22 B"):
        assert any(fact in line for line in lines), fact


def without_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test has no terminal for a pager; ``test_terminal`` has one."""

    @contextmanager
    def suspend(self: Any) -> Iterator[None]:
        yield

    monkeypatch.setattr("textual.app.App.suspend", suspend)


async def at_message(driver: Driver, topic: str, key: str) -> None:
    await driver.press("s")
    await driver.enter(topic, into="topic")
    await driver.enter(key, into="wanted")
    await until_in_index(driver, "1 message of")
    await driver.press("enter")
    await driver.until(lambda: isinstance(driver.app.screen, MessageScreen))
    await driver.until_shown(f"› {key}")


@pytest.mark.slow
async def test_a_long_line_is_wrapped_and_unwrapped(driver: Driver, world: World) -> None:
    world.send(b"start " + b"x" * 500 + b" end", keys="long", queue_id=1)
    await at_message(driver, world.topic, "long")
    text = driver.app.screen.query_one("#body-text", Lines)
    assert " end" not in driver.text
    await driver.press("f")
    await driver.until_shown("start ", " end")
    assert text.virtual_size.height == 3
    await driver.press("f")
    await driver.until(lambda: " end" not in driver.text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "end"),
    first_is_quick(
        [
            ("飞x" * 700_000, "x"),
            ("\n" * LINES_MAX, f"… only {LINES_MAX:,} lines are shown"),
            ("[" + "1," * 600_000 + "\n1]", "1]"),
        ]
    ),
    ids=["one line", "many lines", "JSON"],
)
@pytest.mark.dashboard(size=(80, 24), now_ms=NOW_MS)
async def test_a_large_body_is_shown_as_text(driver: Driver, body: str, end: str) -> None:
    """Of an unbroken line of megabytes, no key would wait for the whole."""
    await driver.until_shown("Pulse")
    await driver.app.push_screen(message_of(body.encode()))
    await driver.until(lambda: isinstance(driver.app.focused, Lines))
    await driver.press("f", "end")
    await driver.until(lambda: any(line.rstrip("▅▂▁ ").endswith(end) for line in driver.text.splitlines()))


def message_of(body: bytes) -> MessageScreen:
    stored = msgspec.structs.replace(dead_letter(0), topic="flights", body=body)
    return MessageScreen(FoundMessage(stored, BROKER, "192.0.2.10:10911", stored.properties))


@pytest.mark.slow
@pytest.mark.dashboard(size=(120, 30), now_ms=NOW_MS)
async def test_arrows_go_from_tab_to_tab_and_a_key_into_one(driver: Driver) -> None:
    """An arrow used to move the focus into the tab, so the next one scrolled there."""
    screen = message_of(b'{"tailnum": 1}')
    await driver.until_shown("Pulse")
    await driver.app.push_screen(screen)
    await driver.until_shown("tailnum")
    await driver.press("shift+tab", "right", "right")
    await driver.until(lambda: screen.open_tab == "hex")
    assert isinstance(driver.app.focused, Tabs)
    await driver.press("left", "left", "left")
    await driver.until(lambda: screen.open_tab == "trace")
    await driver.press("4")
    await driver.until_shown("RETRY_TOPIC")
    await driver.pilot.click("#--content-tab-json")
    await driver.press("tab")
    await driver.until(lambda: isinstance(driver.app.focused, JsonTree))


@pytest.mark.slow
async def test_a_body_is_copied_and_saved_as_it_is(
    driver: Driver, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"[/red] \xff\x00"
    world.send(body, keys="raw", queue_id=1)
    monkeypatch.chdir(tmp_path)
    await at_message(driver, world.topic, "raw")
    await driver.press("Y")
    await driver.until_shown("copied the body")
    assert driver.app.clipboard == "[/red] \\xff\x00"
    await driver.press("x")
    await driver.until(lambda: bool(list(tmp_path.glob("*.body"))))
    (saved,) = tmp_path.glob("*.body")
    assert saved.read_bytes() == body
    await driver.press("x")
    await driver.until_shown("exists")
    assert saved.read_bytes() == body


@pytest.mark.slow
async def test_a_body_is_shown_in_the_users_pager(
    driver: Driver, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    pager = tmp_path / "pager"
    pager.write_text(f'#!/bin/sh\n[ "$1" = -R ] && cp "$2" {taken}\n')
    pager.chmod(0o755)
    monkeypatch.setenv("PAGER", f"{pager} -R")
    monkeypatch.delenv("RMQADMIN_PAGER", raising=False)
    without_terminal(monkeypatch)
    await at_message(driver, world.topic, "key-1")
    await driver.press("v")
    await driver.until(taken.exists)
    assert taken.read_bytes() == b'{"n": 1}'


@pytest.mark.slow
async def test_a_pager_that_does_not_exist_is_said(
    driver: Driver, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQADMIN_PAGER", "no-such-pager")

    without_terminal(monkeypatch)
    await at_message(driver, world.topic, "key-1")
    await driver.press("v")
    await driver.until_shown("no-such-pager: No such file or directory")


def test_flags_and_compression_of_a_record_in_words() -> None:
    assert compression_name(0) == "not compressed"
    assert [compression_name(1 | kind) for kind in (0, 0x100, 0x200, 0x300)] == [
        "compressed with zlib", "compressed with LZ4", "compressed with Zstandard", "compressed with zlib",
    ]  # fmt: skip
    assert flag_names(0) == ""
    assert flag_names(0x1 | 0x10 | 0x8) == "compressed, born host IPv6, committed transaction"


@pytest.mark.slow
def test_from_a_message_to_a_group_and_a_client_and_back(world: World) -> None:
    async def test(driver: Driver) -> None:
        await at_message(driver, world.topic, "key-1")
        await driver.press("6")
        await driver.until_shown(world.group, "consumed", "every 0.2 s")
        await driver.press("enter")
        await driver.until_shown(f"› {world.group}", "queues balanced")
        await driver.press("tab")
        await driver.press("enter")
        await driver.until_shown(member.client_id, "1 Queues", world.topic, "commits 1")
        await driver.press("escape", "escape")
        await driver.until_shown("what became of it", world.group)
        assert driver.app.way[-1] == "key-1"

    with PythonMember(world.server.namesrv_addr, world.group, world.topic) as member:
        drive(world.make_client, test, size=WIDE)


@pytest.mark.slow
@pytest.mark.dashboard(size=WIDE)
async def test_why_it_is_not_known_what_a_group_did_is_said_in_words(driver: Driver, world: World) -> None:
    """It used to be shown as mqadmin prints it: "CODE:206 DESC:the consumer group[...] not online"."""
    await at_message(driver, world.topic, "key-1")
    await driver.press("6")
    await driver.until_shown(world.group, "not online", EXPLANATIONS[ResponseCode.CONSUMER_NOT_ONLINE].meaning)
    assert "CODE:" not in driver.text


@pytest.mark.slow
async def test_without_a_trace_topic_tracing_is_said_to_be_off(driver: Driver, world: World) -> None:
    await at_message(driver, world.topic, "key-1")
    await driver.press("7")
    await driver.until_shown(f"There is no topic {TRACE_TOPIC}: tracing is off")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    folder = tmp_path_factory.mktemp("traced")
    with servers.standalone(folder, "--set", "traceTopicEnable=true") as running:
        with AdminClient(running.namesrv_addr) as admin:
            admin.create_topic(running.broker_addr, topic_config("Traced"))
        yield running


@pytest.mark.slow
def test_what_producer_and_consumers_traced_of_a_message(traced: servers.Server) -> None:
    """The producer's records come from `sendMessage -m true`; the test writes the consumers' records as Java does."""
    sent = ["sendMessage", "-n", traced.namesrv_addr, "-t", "Traced", "-p", "x", "-k", "traced-key", "-m", "true"]
    assert program.run(sent) == 0
    with AdminClient(traced.namesrv_addr) as admin:
        addr = traced.broker_addr
        message = admin.pull_message(addr, MessageQueue("Traced", BROKER, 0), 0, max_count=1).messages[0]
        message_id = message.properties["UNIQ_KEY"]
        now_ms = message.store_timestamp_ms
        records = [
            ["SubBefore", now_ms + 1, "R", "payers", "r1", message_id, 0, "traced-key"],
            ["SubAfter", "r1", message_id, 7, "false", "traced-key", 2],
            ["SubBefore", now_ms + 2, "R", "[/red]", "r2", message_id, 3, "traced-key"],
            ["SubBefore", now_ms + 3, "R", "others", "r3", "another id", 0, "k"],
        ]
        body = "".join("\x01".join(map(str, fields)) + "\x02" for fields in records).encode()
        trace = Message(TRACE_TOPIC, body, keys=[message_id])
        admin.send_message(addr, MessageQueue(TRACE_TOPIC, BROKER, 0), trace)
        admin.send_message(addr, MessageQueue(TRACE_TOPIC, BROKER, 0), Message(TRACE_TOPIC, b"\xff", keys=[message_id]))

    async def test(driver: Driver) -> None:
        await at_message(driver, "Traced", "traced-key")
        await driver.press("7")
        await driver.until_shown("TOOLS_PRODUCER", "payers", "[/red]")
        rows = [line for line in driver.lines if line.strip().startswith("20")]
        assert [row.split()[2] for row in rows] == ["sent", "consumed", "delivered"]
        assert "exception" in rows[1]
        assert "7 ms" in rows[1]
        assert "no outcome yet, retry 3" in rows[2]
        assert "others" not in driver.text
        await driver.press("enter")
        await driver.until_shown("TOOLS_PRODUCER is not a consumer group")
        await driver.press("down", "enter")
        await driver.until_shown("traced-key › payers")

    drive(clients_of(traced.namesrv_addr), test, size=WIDE)


@pytest.mark.slow
def test_a_message_that_nobody_traced(traced: servers.Server) -> None:
    assert program.run(["sendMessage", "-n", traced.namesrv_addr, "-t", "Traced", "-p", "x", "-k", "untraced-key"]) == 0

    async def test(driver: Driver) -> None:
        await at_message(driver, "Traced", "untraced-key")
        await driver.press("7")
        await driver.until_shown("Nobody traced this message")

    drive(clients_of(traced.namesrv_addr), test, size=WIDE)


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), now_ms=NOW_MS)
async def test_the_times_of_a_message_are_there_however_long_its_topic_is(driver: Driver) -> None:
    """At 80 columns a long topic used to fill all four lines."""
    topic = "payments-" + "x" * 100 + "-tail"
    stored = msgspec.structs.replace(dead_letter(0), topic=topic)
    await driver.until_shown("Pulse")
    await driver.app.push_screen(MessageScreen(FoundMessage(stored, BROKER, "192.0.2.10:10911", stored.properties)))
    await driver.until_shown("topic payments-xx", "x-tail", "stored 2013", "born 2013", "body 96 B")
    await driver.press("5")
    await driver.until_shown(f"queue                {topic[:50]}")


@pytest.mark.slow
@pytest.mark.dashboard(size=(200, 40))
async def test_the_history_beside_a_message_is_wrapped_at_the_width_that_it_gets(driver: Driver, world: World) -> None:
    """If the pane came with a resize, the history used to be wrapped at one cell, a letter a line, until it was read
    again."""
    await at_row(driver, "d", world.group, "enter")
    await driver.until_shown("1 message of 1")
    await driver.press("enter")
    await driver.until(lambda: isinstance(driver.app.screen, MessageScreen))
    screen = driver.app.screen
    assert isinstance(screen, MessageScreen)
    await driver.until_shown("every time it was stored")
    for width in (12, 40):
        screen.side.styles.width = width
        await driver.until(lambda width=width: width - 9 < screen.side.virtual_size.width <= width)
