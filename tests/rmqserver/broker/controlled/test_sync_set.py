"""Which slaves are in sync, in any order of events: a slave that may be elected has everything that was
acknowledged."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from rmqserver.broker.controlled.set_state import SyncSet

LAG_MAX_MS = 100
IDS = (2, 3)


@dataclass
class Play:
    """A master (1), its slaves, and a controller. ``told``: up to where the log is acknowledged to producers."""

    sync_set: SyncSet = field(default_factory=lambda: SyncSet(1, frozenset({1}), 1, 0))
    at_controller: frozenset[int] = frozenset({1})
    epoch: int = 1
    on_its_way: frozenset[int] | None = None
    now_ms: int = 0
    end: int = 0
    told: int = 0
    logs: dict[int, int] = field(default_factory=dict)
    acked: dict[int, int] = field(default_factory=dict)

    def tell(self) -> None:
        self.told = max(self.told, min((self.acked.get(one, -1) for one in self.sync_set.required), default=self.end))

    def propose(self) -> None:
        wanted = self.sync_set.proposed or self.sync_set.wanted(
            self.acked, self.end, self.told, 0, self.now_ms, LAG_MAX_MS
        )
        if wanted is not None:
            self.sync_set.propose(wanted)
            self.on_its_way = wanted

    def carry_out(self, *, answers: bool) -> None:
        if self.on_its_way is None:
            return
        if self.on_its_way != self.at_controller:
            self.at_controller, self.epoch = self.on_its_way, self.epoch + 1
        self.on_its_way = None
        if answers:
            self.sync_set.take(self.at_controller, self.epoch)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 5)),
        st.tuples(st.just("copy"), st.sampled_from(IDS)),
        st.tuples(st.just("report"), st.sampled_from(IDS)),
        st.tuples(st.just("gone"), st.sampled_from(IDS)),
        st.tuples(st.just("wait"), st.integers(1, 150)),
        st.tuples(st.just("propose"), st.just(0)),
        st.tuples(st.just("carry out"), st.booleans()),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_whoever_may_be_elected_has_what_was_told(steps: list[tuple[str, int]]) -> None:
    play = Play()
    for what, value in steps:
        if what == "write":
            play.end += value
        elif what == "copy":
            play.logs[value] = play.end
        elif what == "report":
            play.acked[value] = play.logs.get(value, 0)
            play.sync_set.reported(value, play.acked[value], play.end, play.now_ms)
        elif what == "gone":
            play.acked.pop(value, None)
            play.sync_set.gone(value)
        elif what == "wait":
            play.now_ms += value
        elif what == "propose":
            play.propose()
        else:
            play.carry_out(answers=bool(value))
        play.tell()
        for member in play.at_controller - {1}:
            assert play.logs.get(member, 0) >= play.told


def test_a_slave_that_follows_and_is_never_level_stays() -> None:
    sync_set, end = SyncSet(1, frozenset({1, 2}), 1, 0), 0
    for now_ms in range(0, 1000, 50):
        sync_set.reported(2, end, end + 10, now_ms)
        end += 10
        assert sync_set.wanted({2: end - 10}, end + 10, 0, 0, now_ms, LAG_MAX_MS) is None
    stuck = {2: end - 10}
    assert sync_set.wanted(stuck, end + 1000, 0, 0, 2000, LAG_MAX_MS) == {1}


def test_a_slave_leaves_when_it_is_gone_and_joins_with_what_is_confirmed() -> None:
    sync_set = SyncSet(1, frozenset({1, 2}), 1, 0)
    sync_set.gone(2)
    assert sync_set.wanted({}, 50, 0, 0, 1, LAG_MAX_MS) == {1}
    assert sync_set.wanted({3: 49}, 50, 50, 0, 1, LAG_MAX_MS) == {1}
    assert sync_set.wanted({3: 50}, 50, 50, 51, 1, LAG_MAX_MS) == {1}, "it has not all of what came before this master"
    assert sync_set.wanted({3: 50}, 50, 50, 50, 1, LAG_MAX_MS) == {1, 3}
    sync_set.propose(frozenset({1, 3}))
    assert (sync_set.required, sync_set.size) == ({2, 3}, 3)
    assert sync_set.wanted({3: 50}, 50, 50, 50, 1, LAG_MAX_MS) is None
    assert not sync_set.take(frozenset({1, 2, 3}), 0)
    assert sync_set.take(frozenset({1, 3}), 2)
    assert sync_set.required == {3}
