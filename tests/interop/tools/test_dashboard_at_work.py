"""The dashboard's work over time on real clusters: dead letters redriven, a rebalance shown, an alert that starts and
ends, a plot, commands, and a replayed recording. Users and ACL are in ``guarded/test_dashboard_access``."""

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rmqadmin.core.alerts.alert_rules import parse_alert_rules
from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.recording.recording_client import RecordingClient
from rmqadmin.tui.recording.recording_file import Head, RecordingReader, RecordingWriter
from rmqadmin.tui.recording.replay import Replay
from rmqadmin.tui.settings import Reach
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.names import retry_topic
from rmqreplay.sending.replay_ids import REPLAY_ID
from tests.rmqadmin.tui.forms import confirm
from tests.rmqadmin.tui.members import ScriptedMember
from tests.rmqadmin.tui.opened import Driven, Driver, clients_of, drive, put_cursor
from tests.support.python_member import PythonMember

from ..cluster import BROKER_NAME, Cluster

pytestmark = pytest.mark.interop

QUEUES = 4
SIZE = (200, 40)
AT_ONCE = -1
"""The delay level that makes a message a dead letter at its first failure."""


@dataclass
class Work:
    """``topic`` has one message a queue, none of which ``group`` has consumed."""

    cluster: Cluster
    admin: AdminClient
    topic: str
    group: str

    def queue(self, queue_id: int) -> MessageQueue:
        return MessageQueue(self.topic, BROKER_NAME, queue_id)

    def commit(self, *queue_ids: int) -> None:
        for queue_id in queue_ids:
            self.admin.update_consumer_offset(self.cluster.broker_addr, self.group, self.topic, queue_id, 1)

    def replay_ids(self) -> set[str]:
        """The replay ids of the messages that were redriven to the group."""
        queue = MessageQueue(retry_topic(self.group), BROKER_NAME, 0)
        pulled = self.admin.pull_message(self.cluster.broker_addr, queue, 0, max_count=8)
        found = [one.properties[REPLAY_ID] for one in pulled.messages]
        assert len(found) == len(set(found)), "each once"
        return set(found)

    def drive(self, test: Driven, **settings: Any) -> None:
        drive(clients_of(self.cluster.namesrv_addr), test, size=SIZE, **settings)


@pytest.fixture
def work(cluster: Cluster, fresh: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    monkeypatch.setenv("XDG_STATE_HOME", str(cluster.work / "state"))
    monkeypatch.setattr("rmqadmin.tui.sampler.GROUPS_BUSY_RATIO", math.inf)
    topic, group, addr = fresh("a-DashboardWork"), fresh("a-DashboardWork"), cluster.broker_addr
    with AdminClient(cluster.namesrv_addr) as admin:
        admin.create_topic(addr, TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
        admin.create_group(addr, SubscriptionGroupConfig(group_name=group))
        made = Work(cluster, admin, topic, group)
        for queue_id in range(QUEUES):
            admin.send_message(addr, made.queue(queue_id), Message(topic, b"%d" % queue_id, keys=f"key-{queue_id}"))
            admin.update_consumer_offset(addr, group, topic, queue_id, 0)
        yield made


def line_of(driver: Driver, *texts: str) -> str:
    return next((line for line in driver.lines if all(text in line for text in texts)), "")


def test_marked_dead_letters_are_redriven_once(work: Work) -> None:
    addr = work.cluster.broker_addr
    for queue_id in range(3):
        failed = work.admin.pull_message(addr, work.queue(queue_id), 0, max_count=1).messages[0]
        work.admin.send_message_back(addr, work.group, failed, delay_level=AT_ONCE)

    async def test(driver: Driver) -> None:
        await driver.press("d")
        await put_cursor(driver, work.group)
        await driver.press("enter")
        await driver.until_shown("3 messages of 3", "origin topic", work.topic)
        await driver.press("space", "space")
        await driver.until_shown("2 marked")
        await driver.press("R")
        await driver.until_shown("2 of ", f"to {retry_topic(work.group)}", f"Type {work.group} to go on")
        assert not work.replay_ids()
        await confirm(driver, work.group)
        await driver.until_shown("2 sent, 0 rejected", "found there 2, missing 0, doubled 0")
        assert len(work.replay_ids()) == 2
        await driver.press("escape")
        await driver.press("a")
        await driver.until_shown("2 redriven before")  # for some seconds
        await driver.press("R")
        await driver.until_shown(f"Type {work.group} to go on", "Redrive 1 dead letter of")

    work.drive(test)


def test_a_member_leaves_and_who_gained_its_queues_is_told(work: Work) -> None:
    one, two = (PythonMember(work.cluster.namesrv_addr, work.group, work.topic) for _ in range(2))

    async def test(driver: Driver) -> None:
        await driver.press("g")
        await put_cursor(driver, work.group)
        await driver.press("enter")
        await driver.until_shown("Members: 2", "queues balanced")
        await driver.press("3")
        await driver.until_shown("every queue has its member", two.client_id)
        two.__exit__()
        told = rf"queues went .*: {re.escape(one.client_id)} gained (\d), {re.escape(two.client_id)} lost \1"
        await driver.until(lambda: bool(re.search(told, driver.text)))
        await driver.until(lambda: line_of(driver, work.topic, two.client_id, one.client_id, " owned ") != "")

    with one:
        two.__enter__()
        work.drive(test)


def test_members_that_disagree_are_told_of_with_what_to_do(work: Work) -> None:
    def member(name: str, *queue_ids: int, expression: str) -> ScriptedMember:
        owns = [work.queue(queue_id) for queue_id in queue_ids]
        return ScriptedMember(work.cluster, work.group, work.topic, client_id=name, owns=owns, expression=expression)

    async def test(driver: Driver) -> None:
        await driver.press("g")
        await put_cursor(driver, work.group)
        await driver.until(lambda: "nobody consumes 1 queue" in line_of(driver, work.group))
        await driver.press("enter", "3")
        await driver.until(lambda: line_of(driver, work.topic, " 1 ", "owned twice", "one, two") != "")
        assert line_of(driver, work.topic, " 3 ", "unowned")
        await driver.until_shown("take each other's queues", "nobody consumes 1 queue")

    with member("one", 0, 1, expression="*"), member("two", 1, 2, expression="TagA"):
        work.drive(test)


def test_an_alert_keeps_on_between_its_thresholds(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GROUPS_MIN_S", "UNSEEN_GROUPS_MIN_S"):
        monkeypatch.setattr(f"rmqadmin.tui.sampler.{name}", 0.1)
    bells = []
    monkeypatch.setattr(DashboardApp, "bell", lambda _: bells.append(None))
    rules = parse_alert_rules(f"[[alert]]\nwhen = 'lag'\ngroup = '{work.group}'\nabove = 3\nuntil = 1\n")

    async def test(driver: Driver) -> None:
        await driver.until_shown("alert: lag 4, more than 3", work.group)
        await driver.press("g")
        await put_cursor(driver, work.group)
        await driver.until(lambda: line_of(driver, f" {work.group} ", "alert: lag") != "")
        work.commit(0, 1)
        await driver.until(lambda: line_of(driver, f" {work.group} ", "alert: lag").split()[1:2] == ["2"])
        work.commit(2, 3)
        await driver.until_shown("alert is over: lag")
        await driver.until(lambda: line_of(driver, f" {work.group} ", "offline") != "")
        assert len(bells) == 1

    work.drive(test, alerts=rules)


def test_commands_of_a_row_are_run_and_it_is_plotted(work: Work) -> None:
    async def run(driver: Driver, command: str) -> None:
        await driver.press("ctrl+p")
        await driver.until_shown(f"topicStatus -t {work.topic}")
        await driver.press(*command)
        await driver.until(lambda: f"{command} -t {work.topic}" in driver.text and "topicRoute" not in driver.text)
        await driver.press("enter")

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, work.topic)
        await run(driver, "topicStatus")
        await driver.until_shown("status 0", "Messages: 4", BROKER_NAME)
        await driver.press("escape")
        await run(driver, "deleteTopic")
        await driver.until_shown("A dry run: nothing was changed", "status 0", "delete")
        assert work.topic in work.admin.topic_list()
        await driver.press("g")
        await put_cursor(driver, work.group)
        await driver.press("l")
        await driver.until_shown(f"{work.group} over time", "lag  4", "consumed/s  0.0")

    work.drive(test, reach=Reach(["-n", work.cluster.namesrv_addr]))


def test_a_recording_shows_what_was_there(work: Work, tmp_path: Path) -> None:
    path, now_ms = tmp_path / "recording", lambda: time.time_ns() // 1_000_000
    writer = RecordingWriter(path, Head(work.cluster.namesrv_addr, now_ms()))

    def make(*, read_only: bool) -> DashboardClient:
        client = RecordingClient(work.cluster.namesrv_addr, None, 5.0, read_only=read_only)
        client.recording, client.recorded_ms = writer, now_ms
        return client

    async def seen(driver: Driver) -> None:
        sampler = driver.app.sampler
        assert sampler is not None
        await driver.press("g")
        await put_cursor(driver, work.group)
        await driver.press("enter")
        await driver.until_shown("4 queues, lag 4")
        brokers_s = sampler.brokers_s
        await driver.press("h")
        await driver.until(lambda: sampler.brokers_s > brokers_s)  # the step is complete

    drive(make, seen, size=SIZE, recording=writer)
    writer.close()
    work.commit(*range(QUEUES))

    async def seen_again(driver: Driver) -> None:
        last = replay.reader.step_count
        await driver.until(lambda: driver.app.sampler is not None and f"step 1 of {last}" in driver.text)
        await driver.press("shift+right")
        await driver.until(lambda: driver.app.sampler is not None and f"step {last} of {last}" in driver.text)
        await driver.press("g")
        await put_cursor(driver, work.group)
        await driver.press("enter")
        await driver.until_shown("4 queues, lag 4", "read-only")

    reader = RecordingReader(path)
    replay = Replay(reader)
    drive(replay.make_client, seen_again, size=SIZE, clock=replay.now_ms, replay=replay, read_only=True)
    reader.close()
