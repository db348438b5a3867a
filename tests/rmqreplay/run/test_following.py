"""A replay that goes on with what comes, at a real broker and without Spark: each message once over all its jobs."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError, UsageError
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.entry import ReplayOutcome, Runner, redrive
from rmqreplay.run.following import follow
from rmqreplay.run.job import Hooks, PlanConflict, ReplayProgress
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Fresh, Server, broker, namesrv, topic_config


@dataclass
class Move:
    """A topic that grows, and the one to which it moves."""

    admin: AdminClient
    address: str
    request: ReplayRequest
    runner: Runner
    topic: str
    target: str
    count: int = 0

    def more(self, count: int, queue_id: int = 0) -> None:
        for _ in range(count):
            queue = MessageQueue(self.topic, "broker-a", queue_id)
            self.admin.send_message(self.address, queue, Message(self.topic, b"%d" % self.count))
            self.count += 1

    def follow(
        self, *then: Callable[[], None], runner: Runner | None = None, engine: Callable[..., ReplayOutcome] = redrive
    ) -> None:
        """Follows; each time there is nothing new, or it waits, one of ``then`` comes, and at last Ctrl-C."""
        steps = iter(then)

        def step(_: float) -> None:
            try:
                next(steps)()
            except StopIteration:
                raise KeyboardInterrupt from None

        with pytest.raises(KeyboardInterrupt):
            follow(engine, self.request, runner or self.runner, execute=True, resume=False, job="move", sleep=step)

    def moved(self) -> Counter[int]:
        found = self.admin.pull_message(self.address, MessageQueue(self.target, "broker-a", 0), 0).messages
        return Counter(int(message.body) for message in found)


def made_move(admin: AdminClient, address: str, name_server: str, topic: str, target: str, ledgers: Path) -> Move:
    for name, queues in ((topic, 2), (target, 1)):
        admin.create_topic(address, topic_config(name, queues))
        wait_for_route(admin, name)
    request = ReplayRequest(name_server=name_server, topics=[topic], to=f"topic:{target}")
    return Move(admin, address, request, Runner(ledger_root=str(ledgers)), topic, target)


@pytest.fixture
def move(server: Server, admin: AdminClient, fresh: Fresh, tmp_path: Path) -> Move:
    return made_move(admin, server.broker_addr, server.namesrv_addr, fresh("MoveFrom"), fresh("MoveTo"), tmp_path)


def each_once(count: int) -> Counter[int]:
    return Counter(range(count))


def test_what_comes_is_sent_once_in_queues_old_and_new(move: Move, tmp_path: Path) -> None:
    move.follow(lambda: move.more(5), lambda: move.more(3, queue_id=1), lambda: move.more(2))
    assert move.moved() == each_once(10)
    assert sorted(path.name for path in tmp_path.glob("move.*")) == ["move.0", "move.1", "move.2"]
    move.more(1)
    move.follow()
    assert move.moved() == each_once(11)


@pytest.mark.usefixtures("no_driver_lives")
def test_a_job_that_was_broken_off_is_finished_first(move: Move) -> None:
    move.more(4)
    move.follow()
    move.more(4)

    def end(progress: ReplayProgress) -> None:
        if progress.wave:
            raise KeyboardInterrupt

    move.follow(runner=replace(move.runner, hooks=Hooks(on_progress=end)))
    move.more(4)
    move.follow()
    assert move.moved() == each_once(12)


def test_what_came_while_nobody_followed_is_sent_though_it_is_older_than_since(move: Move) -> None:
    """``--since 2h`` is two hours before the first job, not before the command that goes on."""
    move.request = replace(move.request, start_ms=1, start_text="2h")
    move.more(2)
    move.follow()
    move.more(2)
    move.request = replace(move.request, start_ms=time.time_ns() // 1_000_000 + 60_000)
    move.follow()
    assert move.moved() == each_once(4)


def test_a_broker_that_is_away_is_waited_for_once_something_was_sent(move: Move) -> None:
    move.more(2)
    away = iter([False, True])

    def engine(*given: Any, **how: Any) -> ReplayOutcome:
        if next(away, False):
            raise ConnectError("it is away")
        return redrive(*given, **how)

    move.follow(lambda: move.more(2), engine=engine)
    assert move.moved() == each_once(4)
    away = iter([True])
    with pytest.raises(ConnectError):
        follow(engine, move.request, move.runner, execute=True, resume=False, job="move")


def test_a_broker_that_has_ended_is_waited_for(tmp_path: Path) -> None:
    """No name server knows its topics any more: that does not say that they are gone."""
    with namesrv(tmp_path) as names, AdminClient(names.namesrv_addr) as admin, ExitStack() as running:
        addr = names.namesrv_addr
        first = running.enter_context(broker(tmp_path, addr, "broker-a"))
        move = made_move(admin, first.broker_addr, addr, "From", "To", tmp_path / "ledgers")
        told: list[str] = []
        move.runner = replace(move.runner, hooks=Hooks(on_stage=told.append))

        def start_again() -> None:
            move.address = running.enter_context(broker(tmp_path, addr, "broker-a")).broker_addr
            wait_for_route(admin, move.topic)
            move.more(2)

        move.more(2)
        move.follow(lambda: None if first.stop() == 0 else pytest.fail("it ends"), start_again)
        assert move.moved() == each_once(4)
        assert "waiting: broker broker-a of From is away" in told


def test_a_source_that_was_made_anew_is_told_and_nothing_is_sent(move: Move) -> None:
    """It has more messages than were sent of the one before."""

    def make_anew() -> None:
        move.admin.delete_topic_in_broker(move.address, move.topic)
        move.admin.create_topic(move.address, topic_config(move.topic, 2))
        wait_for_route(move.admin, move.topic)
        move.more(9)

    move.more(4)
    with pytest.raises(PlanConflict, match=r"has other messages than those that job move\.0 was planned with"):
        follow(redrive, move.request, move.runner, execute=True, resume=False, job="move", sleep=lambda _: make_anew())
    assert move.moved() == each_once(4)


def test_only_the_first_job_is_confirmed_and_a_dry_run_sends_nothing(move: Move) -> None:
    asked: list[str] = []
    runner = replace(move.runner, hooks=Hooks(confirm=lambda plan: asked.append(plan.job)))
    move.more(2)
    planned: ReplayOutcome = follow(redrive, move.request, runner, execute=False, resume=False, job="move")
    assert (planned.plan.job, planned.plan.offset_count, move.moved()) == ("move.0", 2, each_once(0))
    move.follow(lambda: move.more(2), runner=runner)
    assert (asked, move.moved()) == (["move.0"], each_once(4))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"limit": 3}, "--limit and --follow exclude each other"),
        ({"topics": [], "dlq_group": "g", "to": None}, "those that fail again would go round"),
        ({"to": "topic:Elsewhere"}, "the jobs of move were planned with another target"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(move: Move, change, words: str) -> None:
    move.more(1)
    move.follow()
    with pytest.raises(UsageError, match=words):
        follow(redrive, replace(move.request, **change), move.runner, execute=True, resume=False, job="move")
    with pytest.raises(UsageError, match="--follow needs --job NAME"):
        follow(redrive, move.request, move.runner, execute=True, resume=False, job=None)
