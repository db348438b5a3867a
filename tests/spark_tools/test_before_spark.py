"""The steps of ``replay`` before it starts Spark. These tests forbid Spark."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Fresh, topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError, RefusedError, UsageError
from rmqreplay.ledger.ledger import Begin, Ledger
from rmqreplay.plans.plan import Selection
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.entry import Runner
from rmqreplay.run.job import Hooks
from spark_tools.replay import entry
from spark_tools.replay.entry import replay
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Server


class SparkStarted(Exception):
    """Raised in place of starting Spark."""


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> AbstractContextManager[Any]:
        raise SparkStarted

    monkeypatch.setattr(entry, "spark_session", start)


@pytest.fixture
def topic(server: Server, admin: AdminClient, fresh: Fresh) -> str:
    """A topic with three messages."""
    name = fresh("BeforeSpark")
    admin.create_topic(server.broker_addr, topic_config(name))
    wait_for_route(admin, name)
    for _ in range(3):
        admin.send_message(server.broker_addr, MessageQueue(name, "broker-a", 0), Message(name, b"x"))
    return name


def test_an_unfinished_job_over_the_same_messages_is_named_without_it(
    server: Server, admin: AdminClient, topic: str, fresh: Fresh, tmp_path: Path
) -> None:
    """It used to be named once Spark had started, which takes minutes on a busy machine."""
    target = fresh("BeforeTarget")
    admin.create_topic(server.broker_addr, TopicConfig(topic_name=target, perm=6))
    wait_for_route(admin, target)
    request = ReplayRequest(
        name_server=server.namesrv_addr, topics=[topic], to=f"topic:{target}", skip_redriven=True
    )  # fmt: skip
    runner = Runner(ledger_root=str(tmp_path))
    first = replay(request, runner, job="first")
    with Ledger(first.directory) as ledger:
        ledger.append(Begin(first.plan.identity, 1, excluded={}, fences=[]))
    with pytest.raises(UsageError, match="job first has begun") as caught:
        replay(request, runner, execute=True, job="second")
    assert "--resume --job first" in str(caught.value.hint)
    assert replay(request, runner, job="second").result is None, "a dry run"


def test_a_small_plan_is_counted_without_it(server: Server, topic: str, fresh, tmp_path: Path) -> None:
    """The plan is also shown and confirmed first: Spark starts only when there is something to send."""
    target = fresh("BeforeTarget")
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, TopicConfig(topic_name=target, perm=6))
        wait_for_route(admin, target)
    said: list[str] = []
    hooks = Hooks(on_stage=said.append, confirm=lambda plan: said.append(f"confirm {plan.job}"))
    runner = Runner(ledger_root=str(tmp_path), hooks=hooks)
    request = ReplayRequest(name_server=server.namesrv_addr, topics=[topic], to=f"topic:{target}")
    assert replay(request, runner, job="dry").plan.shown["selected"] == 3
    assert said == ["reading 3 messages of 1 queue"]
    with pytest.raises(SparkStarted):
        replay(request, runner, execute=True, job="real")
    assert said[1:] == ["reading 3 messages of 1 queue", "confirm real", "starting Spark, which takes some seconds"]


def test_a_broker_that_cannot_filter_says_so_at_once(server: Server, topic: str, tmp_path: Path) -> None:
    selection = Selection(sql92="a = 1", where="true")
    request = ReplayRequest(
        name_server=server.namesrv_addr, topics=[topic], to=f"topic:{topic}Again", selection=selection
    )
    with AdminClient(server.namesrv_addr) as admin:
        admin.update_broker_config(server.broker_addr, {"enablePropertyFilter": "false"})
        try:
            with pytest.raises(RefusedError, match="SQL92"):
                replay(request, Runner(ledger_root=str(tmp_path)))
        finally:
            admin.update_broker_config(server.broker_addr, {"enablePropertyFilter": "true"})


def test_a_target_that_is_not_there_is_said_at_once(server: Server, topic: str, tmp_path: Path) -> None:
    """The condition needs Spark, but the check of the target does not."""
    request = ReplayRequest(
        name_server=server.namesrv_addr, topics=[topic], to="topic:NoSuchTarget", selection=Selection(where="true")
    )
    with pytest.raises(NotFoundError, match="NoSuchTarget does not exist"):
        replay(request, Runner(ledger_root=str(tmp_path)))
