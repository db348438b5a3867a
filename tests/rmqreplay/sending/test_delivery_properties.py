"""The promise: whatever dies at whatever time, every message of the plan is at the target exactly once."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqproto.bodies.base import MessageQueue
from rmqreplay.ledger.ledger import read_ledger
from rmqreplay.ledger.letters import replay_id
from rmqreplay.plans.plan import Plan, Source, TargetRule
from rmqreplay.sending.permits import Entered, Granted, PermitBook
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet, queue_text
from tests.rmqreplay.replay_simulation import TTL_S, Simulation


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch):
    """A crash here ends a driver, not the machine. Written data survives it, so fsync would only cost time."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def a_plan(counts: list[int], wave_count: int, canary_counts: tuple[int, ...] = ()) -> Plan:
    ranges = [OffsetRange(MessageQueue("%DLQ%g", "b", queue), 5, 5 + count) for queue, count in enumerate(counts)]
    return Plan(
        job="j", created_ms=0, source=Source(path="x"), ranges=ranges, target=TargetRule(kind="same"),
        wave_count=wave_count + bool(canary_counts),
        canary_ends={queue_text(each.queue): 5 + count for each, count in zip(ranges, canary_counts, strict=False)},
    )  # fmt: skip


plans = st.builds(
    a_plan, st.lists(st.integers(0, 12), min_size=1, max_size=3), st.integers(1, 3),
    st.lists(st.integers(0, 15), max_size=3).map(tuple),
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=plans, seed=st.integers(0, 2**32), partitions=st.integers(1, 3))
def test_nothing_is_lost_and_nothing_doubled_whatever_dies(tmp_path_factory, plan, seed, partitions):
    directory = str(tmp_path_factory.mktemp("job"))
    counts = Simulation(seed, plan, directory, partitions).run()
    wanted = {replay_id(plan.replay_job, each.queue, at) for each in plan.ranges for at in range(each.start, each.end)}
    assert set(counts) == wanted, "lost, or sent what was not asked for"
    assert all(count == 1 for count in counts.values()), "doubled"
    state = read_ledger(directory)
    assert state.end is not None
    assert state.delivered() == OffsetSet(plan.ranges)


def test_without_protection_the_same_faults_do_double(tmp_path):
    """A fault model that breaks nothing would prove nothing."""
    doubled = 0
    for seed in range(30):
        directory = tmp_path / str(seed)
        directory.mkdir()
        counts = Simulation(seed, a_plan([10, 10], 2), str(directory), 2, protected=False).run()
        doubled += sum(count - 1 for count in counts.values())
    assert doubled > 0


def _doubled(tmp_path, seeds: int) -> int:
    found = 0
    for seed in range(seeds):
        directory = tmp_path / str(seed)
        directory.mkdir()
        counts = Simulation(seed, a_plan([12, 10], 3), str(directory), 3).run()
        found += sum(count - 1 for count in counts.values())
    return found


def _never_look(monkeypatch):
    enter = PermitBook.enter

    def changed(self, *task):
        answer = enter(self, *task)
        return Entered(False) if isinstance(answer, Entered) else answer

    monkeypatch.setattr(PermitBook, "enter", changed)


def _never_settle(monkeypatch):
    init = PermitBook.__init__
    monkeypatch.setattr(
        PermitBook, "__init__", lambda self, clock, *, settle_s, ttl_s: init(self, clock, settle_s=0.0, ttl_s=ttl_s)
    )


def _new_driver_does_not_wait(monkeypatch):
    init = PermitBook.__init__

    def changed(self, clock, *, settle_s, ttl_s):
        init(self, clock, settle_s=settle_s, ttl_s=ttl_s)
        self._started -= 100

    monkeypatch.setattr(PermitBook, "__init__", changed)


def _new_driver_forgets(monkeypatch):
    open_wave = PermitBook.open_wave
    monkeypatch.setattr(
        PermitBook, "open_wave", lambda self, wave, *, recovering: open_wave(self, wave, recovering=False)
    )


def _more_time_for_anybody(monkeypatch):
    monkeypatch.setattr(PermitBook, "extend", lambda self, *task: Granted(0, TTL_S))


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", [_never_look, _never_settle, _new_driver_does_not_wait, _new_driver_forgets, _more_time_for_anybody]
)
def test_each_rule_of_the_permit_book_is_needed(tmp_path, monkeypatch, broken):
    """If any one of the rules is missing, the simulation finds doubled messages."""
    broken(monkeypatch)
    assert _doubled(tmp_path, 60) > 0
