"""``--parallel``: how many servers are asked at once."""

import threading
from pathlib import Path

import pytest

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.core.contexts.context import ASKED_AT_ONCE_DEFAULT
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.servers import broker_answers
from rmqadmin.core.servers.broker_answers import ask_each, asking_at_once
from tests.rmqadmin.conftest import Rmqadmin

WAIT_S = 30


class Gauge:
    """Counts those who ask at the same time. Each waits until ``wanted`` are there; the first group lets all pass."""

    def __init__(self, wanted: int):
        self._lock = threading.Lock()
        self._all_there = threading.Event()
        self._wanted = wanted
        self._now = 0
        self.most = 0

    def ask(self, _one: int) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            if self._now == self._wanted:
                self._all_there.set()
        assert self._all_there.wait(WAIT_S)
        with self._lock:
            self._now -= 1


@pytest.mark.parametrize(("count", "most"), [(1, 1), (3, 3), (40, 40), (None, ASKED_AT_ONCE_DEFAULT)])
def test_as_many_are_asked_at_once_as_the_user_says(count: int | None, most: int) -> None:
    gauge = Gauge(most)
    with asking_at_once(count):
        ask_each(gauge.ask, range(80))
    assert gauge.most == most


@pytest.mark.parametrize(("count", "most"), [(1, 1), (7, 6)])
def test_questions_inside_a_question_share_the_number(count: int, most: int) -> None:
    """Of 7, two groups get 3 each."""
    gauge = Gauge(most)
    with asking_at_once(count):
        ask_each(lambda _group: ask_each(gauge.ask, range(6)), range(2))
    assert gauge.most == most


def test_the_limit_ends_with_the_command() -> None:
    with asking_at_once(1):
        pass
    gauge = Gauge(2)
    ask_each(gauge.ask, range(2))
    assert gauge.most == 2


def test_a_command_asks_as_its_flag_says_else_its_environment(
    rmqadmin: Rmqadmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int | None] = []

    def noted(count: int | None) -> object:
        said.append(count)
        return whole(count)

    whole = asking_at_once
    monkeypatch.setattr("rmqadmin.core.servers.broker_answers.asking_at_once", noted)
    assert rmqadmin("clusterList").status == 0
    monkeypatch.setenv("RMQADMIN_PARALLEL", "5")
    assert rmqadmin("clusterList").status == 0
    assert rmqadmin("clusterList", "--parallel", "2").status == 0
    assert said == [5, 2]
    assert rmqadmin("clusterList", "--parallel", "0").status == 2
    assert CommonOptions(parallel=2).settings().setting("parallel").source == "--parallel"


def test_a_context_may_limit_every_command_and_the_dashboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The dashboard, opened by a plain line, asked as many as ever; a context could not hold the limit."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ContextStore().add("far", {"namesrv_addr": "h:1", "parallel": 2})
    call = Call("tui", CommonOptions(context="far"))
    asked: list[int | None] = []
    with call.asking_limited():
        asked.append(broker_answers._asked_at_once)
    assert (asked, broker_answers._asked_at_once) == ([2], None)


@pytest.mark.parametrize("is_nested", [False, True])
def test_after_ctrl_c_nobody_else_is_asked(is_nested: bool) -> None:
    """The pool asked everybody who waited before it let the interrupt through: thousands of topics."""
    asked: list[int] = []
    may_go_on = threading.Event()

    def ask(one: int) -> None:
        asked.append(one)
        assert one < 3 or may_go_on.wait(WAIT_S)

    def ask_group(_group: int) -> None:
        ask_each(ask, range(3, 1000))

    def told(done: int, _total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    before = {*threading.enumerate()}
    with asking_at_once(4), pytest.raises(KeyboardInterrupt):
        ask_each((lambda one: ask(one) if one < 3 else ask_group(one)) if is_nested else ask, range(1000), told)
    may_go_on.set()  # the answers that are under way come after the interrupt
    for thread in {*threading.enumerate()} - before:
        thread.join(WAIT_S)
    assert len(asked) < 20
