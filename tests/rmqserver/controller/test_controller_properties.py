"""Invariants of a controller's state, whatever brokers, operators, time, deaths and restarts do, in any order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.replication import SyncStateSet
from rmqproto.codes import RequestCode as R
from rmqproto.headers.controller import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    CleanBrokerDataHeader,
    ElectMasterHeader,
    RegisterToControllerHeader,
    ReplicaInfoHeader,
)
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire import fastjson
from rmqserver.controller.controller_state import BrokerSet, BrokerSets
from rmqserver.controller.event_log import EventLog
from tests.crash.recording_disk import RecordingDisk
from tests.rmqserver.controller.seats import Seat, SeatedController

NAMES = st.sampled_from(["a", "b"])
IDS = st.integers(1, 4)
SETS = st.lists(IDS, max_size=3)

OPERATIONS = st.one_of(
    st.tuples(st.just("apply"), NAMES, IDS | st.none()),
    st.tuples(st.just("register"), NAMES, IDS),
    st.tuples(st.just("beat"), NAMES, IDS, st.integers(-1, 3), st.integers(0, 3)),
    st.tuples(st.just("die"), NAMES, IDS),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 4.0, 11.0])),
    st.tuples(st.just("scan")),
    st.tuples(st.just("elect"), NAMES, IDS, st.booleans()),
    st.tuples(st.just("alter"), NAMES, SETS, st.sampled_from([0, 0, 0, 1])),
    st.tuples(st.just("clean"), NAMES, SETS | st.none(), st.booleans()),
    st.tuples(st.just("restart")),
)
BEGINNING: list[tuple[Any, ...]] = [
    ("wait", 11.0),
    *(("apply", "a", None) for _ in range(3)),
    *(("beat", "a", broker_id, 1, broker_id) for broker_id in (1, 2, 3)),
    ("elect", "a", 1, False),
    ("alter", "a", [1, 2], 0),
]
"""Makes a set with a master, one replica in sync with it and one that is not."""


class World:
    def __init__(self, settings: str = "") -> None:
        self.disk = RecordingDisk()
        self.settings = settings
        self.masters: dict[tuple[str, int], int | None] = {}
        """The master by broker name and epoch, since the set was made."""
        self.start()

    def start(self) -> None:
        self.seated = SeatedController(self.disk, settings=self.settings)
        self.seats: dict[tuple[str, int], Seat] = {}
        self.client = self.seated.seat()

    @property
    def sets(self) -> BrokerSets:
        return self.seated.controller.sets

    def do(self, operation: tuple[Any, ...]) -> None:
        before, alive = self.sets, self.seated.controller.live.alive()
        is_settled = self.seated.controller.live.is_settled
        what, *args = operation
        getattr(self, what)(*args)
        for name, found in before.items():
            self.check_step(found, self.sets.get(name), alive, is_settled, what)
        for name, found in self.sets.items():
            self.check_set(found)
            assert self.masters.setdefault((name, found.master_epoch), found.master_broker_id) == found.master_broker_id
        self.masters = {key: master for key, master in self.masters.items() if key[0] in self.sets}

    def check_set(self, found: BrokerSet) -> None:
        assert set(found.sync_state_set) <= found.replicas.keys()
        assert list(found.sync_state_set) == sorted(set(found.sync_state_set))
        assert found.next_broker_id > max(found.replicas, default=0)
        if found.master_broker_id is not None:
            assert found.master_broker_id in found.sync_state_set
            assert found.master_epoch > 0

    def check_step(self, before: BrokerSet, after: BrokerSet | None, alive: Any, is_settled: bool, what: str) -> None:
        lives = {broker_id for broker_id in before.replicas if (before.broker_name, broker_id) in alive}
        if after is None:
            assert what == "clean"
            assert is_settled
            assert not lives
            return
        assert lives <= after.replicas.keys(), "what runs is not wiped"
        rise = after.master_epoch - before.master_epoch
        assert rise in (0, 1) or (rise > 0 and not before.master_epoch), "the first epoch is behind those of the log"
        assert after.sync_state_set_epoch >= before.sync_state_set_epoch
        if after.sync_state_set != before.sync_state_set:
            assert after.sync_state_set_epoch > before.sync_state_set_epoch
        if after.master_epoch == before.master_epoch:
            assert after.master_broker_id == before.master_broker_id
        elif after.master_broker_id is not None and before.master_epoch:
            assert is_settled, "no election before it is known who lives"
            assert after.master_broker_id in lives
            if not self.settings:
                assert after.master_broker_id in before.sync_state_set

    # --- what happens ------------------------------------------------------------------------------------------------

    def apply(self, name: str, broker_id: int | None) -> None:
        found = self.sets.get(name)
        wanted = broker_id or (found.next_broker_id if found else 1)
        self.client.ask(
            R.CONTROLLER_APPLY_BROKER_ID,
            ApplyBrokerIdHeader(
                cluster_name="c", broker_name=name, applied_broker_id=wanted, register_check_code=f"h:{wanted};1"
            ),
        )

    def register(self, name: str, broker_id: int) -> None:
        header = RegisterToControllerHeader(
            cluster_name="c", broker_name=name, broker_id=broker_id, broker_address=f"h:{broker_id}"
        )
        self.client.ask(R.CONTROLLER_REGISTER_BROKER, header)

    def beat(self, name: str, broker_id: int, epoch: int, max_offset: int) -> None:
        seat = self.seats.setdefault((name, broker_id), self.seated.seat())
        header = BrokerHeartbeatHeader(
            cluster_name="c", broker_addr="", broker_name=name, broker_id=broker_id, epoch=epoch,
            max_offset=max_offset, heartbeat_timeout_mills=10_000,
        )  # fmt: skip
        seat.exchange(seat.request(R.BROKER_HEARTBEAT, header, oneway=True))

    def die(self, name: str, broker_id: int) -> None:
        seat = self.seats.pop((name, broker_id), None)
        if seat is not None:
            seat.hang_up()

    def wait(self, time_s: float) -> None:
        self.seated.now_s += time_s

    def scan(self) -> None:
        self.seated.controller.scan_brokers()
        self.seated.controller.scan_masters()

    def elect(self, name: str, broker_id: int, designate: bool) -> None:
        header = ElectMasterHeader(cluster_name="c", broker_name=name, broker_id=broker_id, designate_elect=designate)
        self.client.ask(R.CONTROLLER_ELECT_MASTER, header)

    def alter(self, name: str, broker_ids: list[int], wrong: int) -> None:
        found = self.sets.get(name)
        if found is None or found.master_broker_id is None:
            return
        header = AlterSyncStateSetHeader(
            broker_name=name, master_broker_id=found.master_broker_id, master_epoch=found.master_epoch + wrong
        )
        wanted = SyncStateSet(sync_state_set=broker_ids, sync_state_set_epoch=found.sync_state_set_epoch)
        answer = self.client.ask(R.CONTROLLER_ALTER_SYNC_STATE_SET, header, fastjson.dumps(wanted))
        assert answer.code == 0 or self.sets[name] == found

    def clean(self, name: str, broker_ids: list[int] | None, also_living: bool) -> None:
        header = CleanBrokerDataHeader(
            broker_name=name,
            broker_controller_ids_to_clean=None if broker_ids is None else ";".join(map(str, broker_ids)),
            is_clean_living_broker=also_living,
        )
        self.client.ask(R.CLEAN_BROKER_DATA, header)

    def restart(self) -> None:
        before = self.sets
        self.seated.controller.close()
        self.start()
        assert self.sets == before


@given(operations=st.lists(OPERATIONS, max_size=40), unclean=st.booleans())
def test_what_always_holds(operations: list[tuple[Any, ...]], unclean: bool) -> None:
    """There is one master an epoch, epochs only rise, masters come from the in-sync set, nobody is elected before the
    living brokers are known, and no running broker is wiped. The log holds the state."""
    world = World("enableElectUncleanMaster=true" if unclean else "")
    for operation in [*BEGINNING, *operations]:
        world.do(operation)
    world.seated.controller.close()
    assert EventLog("/state", world.disk).open() == world.sets


def test_reading_changes_nothing() -> None:
    world = World()
    for operation in BEGINNING:
        world.do(operation)
    tree = world.disk.tree()
    world.client.ask(R.CONTROLLER_GET_REPLICA_INFO, ReplicaInfoHeader(broker_name="a"))
    world.client.ask(R.CONTROLLER_GET_SYNC_STATE_DATA, body=b'["a","b"]')
    world.client.ask(R.CONTROLLER_GET_METADATA_INFO)
    assert world.disk.tree() == tree
