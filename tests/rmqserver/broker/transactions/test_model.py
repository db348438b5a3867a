"""Any sequence of sends, ends, checks, stops and kills. A committed message is delivered once, and a rolled back one
never. The broker asks about an undecided one a limited number of times, and then gives it up."""

import tempfile
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import trio
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.headers.sending import COMMIT, ROLLBACK, UNKNOWN
from rmqproto.names import TRANSACTION_CHECK_MAX_TIME_TOPIC
from rmqserver.core import Appended
from tests.rmqserver.broker.transactions.bench import TIMEOUT_MS, Asked, Bench

CHECKS_MAX = 15
IMMUNITY_S = 20


class Event(Enum):
    """Steps other than sends and ends."""

    CHECK = "check"
    WRITE_OP_MESSAGES = "write op messages"
    SAVE = "save"
    RESTART = "restart"
    KILL = "kill"


@dataclass
class Transaction:
    """``unused``: the offsets with which its producer could still end it."""

    body: bytes
    decision: int
    unused: list[Appended | Asked] = field(default_factory=list)
    asked_times: int = 0


Step = Event | tuple[int, bool] | int
"""An event; or a send, with its decision and whether it asks for immunity from checks; or an end of one of the
sends."""

STEPS = st.lists(
    st.one_of(
        st.sampled_from(Event),
        st.tuples(st.sampled_from((COMMIT, ROLLBACK, UNKNOWN)), st.booleans()),
        st.integers(0, 20),
    ),
    max_size=25,
)


class Model:
    def __init__(self, directory: Path):
        self.bench = Bench(directory / "store")
        self.sent: list[Transaction] = []

    async def step(self, step: Step) -> None:
        if isinstance(step, tuple):
            self.send(*step)
        elif isinstance(step, int):
            if self.sent:
                self.end(self.sent[step % len(self.sent)])
        elif step is Event.CHECK:
            await self.check()
        elif step is Event.WRITE_OP_MESSAGES:
            self.bench.write_op_messages()
        elif step is Event.SAVE:
            self.bench.save()
        else:
            self.bench = self.bench.restarted() if step is Event.RESTART else self.bench.killed()

    def send(self, decision: int, wants_immunity: bool) -> None:
        transaction = Transaction(b"%d" % len(self.sent), decision)
        properties = {"CHECK_IMMUNITY_TIME_IN_SECONDS": str(IMMUNITY_S)} if wants_immunity and decision else {}
        transaction.unused.append(self.bench.send_half(transaction.body, **properties))
        self.sent.append(transaction)

    def end(self, transaction: Transaction) -> None:
        """Ends it by its newest unused offsets. A producer with immunity ends it in time."""
        if transaction.decision == UNKNOWN or not transaction.unused:
            return
        by = transaction.unused.pop()
        header_says_checked = isinstance(by, Asked) or transaction.asked_times > 0
        self.bench.end(by, transaction.decision, from_transaction_check=header_says_checked)

    async def check(self) -> None:
        for asked in await self.bench.check(TIMEOUT_MS + 1):
            transaction = self.sent[int(asked.message.body)]
            transaction.asked_times += 1
            transaction.unused.append(asked)

    async def finish(self) -> None:
        """Answers every check from now on."""
        for _ in range(CHECKS_MAX + 5):
            await self.check()
            for transaction in self.sent:
                while transaction.decision != UNKNOWN and transaction.unused:
                    self.end(transaction)
        await self.check()


@given(STEPS)
def test_exactly_once(steps: list[Step]) -> None:
    async def play() -> None:
        with tempfile.TemporaryDirectory() as directory:
            model = Model(Path(directory))
            try:
                for step in steps:
                    await model.step(step)
                await model.finish()
                bodies = model.bench.bodies()
                assert sorted(bodies) == sorted(one.body for one in model.sent if one.decision == COMMIT)
                unknown = [one for one in model.sent if one.decision == UNKNOWN]
                given_up = model.bench.bodies(TRANSACTION_CHECK_MAX_TIME_TOPIC)
                assert sorted(given_up) == sorted(one.body for one in unknown)
                assert all(one.asked_times == CHECKS_MAX for one in unknown)
                assert all(one.asked_times <= CHECKS_MAX for one in model.sent)
            finally:
                model.bench.close()

    trio.run(play)
