"""The lists that only have a place after ``:``, over a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqadmin.core.alerts.alert_rules import parse_alert_rules
from rmqadmin.core.audit_trail import BEGIN, END, AuditedChange, AuditLine, append
from rmqadmin.tui.command_line.places import PLACES
from rmqadmin.tui.screens.things import LISTS
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeRates
from rmqproto.message.properties import DELAY
from tests.rmqadmin.tui.conftest import BROKER, World
from tests.rmqadmin.tui.members import ScriptedMember
from tests.rmqadmin.tui.opened import Driver, drive, put_cursor_at
from tests.rmqserver.broker.transactions.test_server import send_half
from tests.support.wire import Wire


async def at_place(driver: Driver, line: str, *shown: str) -> None:
    await driver.press("colon")
    await driver.enter(line, into="command")
    await driver.until_shown(*shown)


def test_every_list_has_a_place() -> None:
    assert LISTS.keys() <= PLACES.keys()
    assert {word for word, place in PLACES.items() if place.noun and not place.names} == LISTS.keys() | {
        "pulse", "topics", "groups", "letters", "brokers", "search",
    }  # fmt: skip


@pytest.mark.slow
def test_who_is_online_and_what_waits_is_told_of_all_brokers(world: World) -> None:
    addr = world.server.broker_addr
    delayed = Message(world.topic, b"later", properties={DELAY: "17"})
    world.admin.send_message(addr, MessageQueue(world.topic, BROKER, 0), delayed)
    queues = [MessageQueue(world.topic, BROKER, queue_id) for queue_id in (0, 1)]
    rates = ConsumeRates(consume_ok_tps=12.5, consume_failed_tps=0.5)

    async def test(driver: Driver) -> None:
        await at_place(driver, "clients", f"{world.group}", "me@1", "12.5", "Groups › Clients")
        await put_cursor_at(driver, 0)
        await driver.press("b")
        await driver.until_shown("Clients › me@1", "4 Stacks")
        await driver.press("escape")
        await driver.until_shown("1 client")
        await at_place(driver, "half", "TransTopic", "Half messages", "1 open transaction")
        await at_place(driver, "producers", "Producers", "no producer is online")
        await at_place(driver, "delays", "1h00m", "timers: ", "delay level")
        await at_place(driver, "nameservers", world.server.namesrv_addr, "1 name server")
        await at_place(driver, "users", "Users", "no users, and nothing is granted")
        await at_place(driver, "broker broker-a", "putTps", "7 Half messages")
        await driver.press("7")
        await driver.until_shown("TransTopic")

    with ScriptedMember(world.server, world.group, world.topic, client_id="me@1", owns=queues, rates=rates):
        with Wire(addr) as wire:
            send_half(wire, b"open")
        drive(world.make_client, test, size=(200, 40))


@pytest.mark.slow
def test_alerts_and_the_log_are_told_without_asking_anybody(world: World, state_home: Path) -> None:
    append(AuditLine(id="1", event=BEGIN, time_ms=1, user="ann", command="deleteTopic", arguments={"topic": "[/red]"}))
    append(AuditLine(id="1", event=END, time_ms=2, outcome="done", changes=[AuditedChange(target="b", done=True)]))
    append(AuditLine(id="2", event=BEGIN, time_ms=3, user="bob", command="updateTopic"))
    rules = parse_alert_rules(
        f"[[alert]]\nwhen = 'disk'\nabove = '100%'\n[[alert]]\nwhen = 'lag'\ngroup = '{world.group}'\nabove = 3\n"
    )

    async def test(driver: Driver) -> None:
        await at_place(driver, "log", "deleteTopic", "[/red]", "unfinished", "2 changes")
        assert driver.text.index("updateTopic") < driver.text.index("deleteTopic"), "the newest first"
        await at_place(driver, "alerts", "lag more than 3", f"group {world.group}", "lag 4", "disk more than 100.0%")
        assert driver.text.index("lag more than 3") < driver.text.index("disk more"), "those that are on first"

    drive(world.make_client, test, size=(200, 40), alerts=rules)
