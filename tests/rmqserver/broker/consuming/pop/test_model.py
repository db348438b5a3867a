"""POP against a model, with any sends, pops, acknowledgements, changes, waits, restarts and crashes. No message is
lost, none is handed out before its invisible time is over, and none after it was acknowledged in time."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from rmqproto.pop import Handle
from rmqserver.broker.consuming.pop.revive_log import REVIVE_MARGIN_MS
from tests.rmqserver.broker.consuming.pop.bench import Bench

TRIES_MAX = 1000


class Pops(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.bench = Bench(self.directory, retry_max_times=TRIES_MAX)
        self.sent = 0
        self.hidden_until_ms: dict[bytes, int] = {}
        self.handles: dict[bytes, Handle] = {}
        self.acked: set[bytes] = set()

    def teardown(self) -> None:
        self.bench.wait(10_000_000)
        seen = self.take(32, 1000)
        while True:
            self.bench.wait(1)
            more = self.take(32, 1_000_000)
            if not more:
                break
            seen |= more
        held = set(self.handles)
        assert held | self.acked | seen == {b"%d" % number for number in range(self.sent)}
        self.bench.close()
        shutil.rmtree(self.directory)

    def take(self, count: int, invisible_ms: int) -> set[bytes]:
        now_ms = self.bench.clock.now_ms
        bodies = set()
        for taken in self.bench.take(count, invisible_ms):
            assert taken.body not in bodies
            assert taken.body not in self.acked
            assert now_ms >= self.hidden_until_ms.get(taken.body, 0)
            self.hidden_until_ms[taken.body] = now_ms + invisible_ms
            self.handles[taken.body] = taken.handle
            bodies.add(taken.body)
        return bodies

    @rule(queue_id=st.integers(0, 1))
    def send(self, queue_id: int) -> None:
        self.bench.send(b"%d" % self.sent, queue_id)
        self.sent += 1

    @rule(count=st.integers(1, 5), invisible_ms=st.integers(1, 20_000))
    def pop(self, count: int, invisible_ms: int) -> None:
        self.take(count, invisible_ms)

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        if self.handles:
            body = data.draw(st.sampled_from(sorted(self.handles)))
            if self.bench.clock.now_ms <= self.hidden_until_ms[body]:  # later it may come again in any case
                self.bench.ack(self.handles.pop(body))
                self.acked.add(body)

    @rule(data=st.data(), invisible_ms=st.integers(1, 20_000))
    def change(self, data: st.DataObject, invisible_ms: int) -> None:
        if self.handles:
            body = data.draw(st.sampled_from(sorted(self.handles)))
            if self.bench.clock.now_ms <= self.hidden_until_ms[body]:
                self.handles[body] = self.bench.change(self.handles[body], invisible_ms)
                self.hidden_until_ms[body] = self.bench.clock.now_ms + invisible_ms

    @rule(ms=st.sampled_from([0, 1, 500, REVIVE_MARGIN_MS, 5000, 30_000]))
    def wait(self, ms: int) -> None:
        self.bench.wait(ms)

    @rule()
    def save_offsets(self) -> None:
        self.bench.save_offsets()

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @rule()
    def crash(self) -> None:
        """The saved offsets are older than a pop."""
        self.bench.save_offsets()
        self.take(3, 10_000)
        self.bench.crash()


TestPops = Pops.TestCase
TestPops.settings = settings(max_examples=settings.default.max_examples // 4, stateful_step_count=30)
