"""A controller's decisions, case by case. Where Apache's decides otherwise, the case says so."""

import errno
import itertools

import pytest

from rmqproto.bodies.replication import SyncStateSet
from rmqproto.codes import RequestCode as R
from rmqproto.errors import StorageError, UsageError
from rmqproto.headers.base import from_ext
from rmqproto.headers.controller import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    CleanBrokerDataHeader,
    ElectMasterAnswer,
    ElectMasterHeader,
    NextBrokerIdHeader,
    RegisterToControllerHeader,
    ReplicaInfoAnswer,
    ReplicaInfoHeader,
)
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.controller.controller_state import BrokerSet
from rmqserver.controller.event_log import EventLog
from tests.crash.recording_disk import RecordingDisk
from tests.rmqserver.controller.seats import Seat, SeatedController

NAME = "broker-a"
NO_MASTER, NOT_ALIVE, NOT_CLEANED, MUST_REGISTER = 2004, 2006, 2009, 2010
STILL_THERE, NOT_ELECTED, BAD_ID = 2011, 2012, 2014


class Trio:
    """Three replicas: the first is the master, and the second is in sync with it."""

    def __init__(self, settings: str = "") -> None:
        self.disk = RecordingDisk()
        self.settings = settings
        self.start()
        for broker_id in (1, 2, 3):
            assert self.apply(broker_id).code == 0
            self.beat(broker_id, epoch=-1)
        assert self.elect(1, designate=False).code == 0
        assert self.alter(1, 2).code == 0
        self.seated.settle()
        self.beat(1, 2, 3)

    def start(self) -> None:
        self.seated = SeatedController(self.disk, settings=self.settings)
        self.seats: dict[int, Seat] = {}
        self.client = self.seated.seat()

    def restart(self) -> None:
        self.seated.controller.close()
        self.start()

    @property
    def found(self) -> BrokerSet:
        return self.seated.controller.sets[NAME]

    def beat(
        self,
        *broker_ids: int,
        epoch: int = 1,
        max_offset: int = 100,
        priority: int = 9,
        has_lease: bool = False,
        takes_messages: bool | None = None,
    ) -> ReplicaInfoAnswer:
        """Heartbeats of brokers without leases, as Apache's, or of ours; returns the last answer."""
        found = ReplicaInfoAnswer()
        for broker_id in broker_ids:
            header = BrokerHeartbeatHeader(
                cluster_name="c", broker_addr="", broker_name=NAME, broker_id=broker_id, epoch=epoch,
                max_offset=max_offset, election_priority=priority, heartbeat_timeout_mills=10_000,
                takes_messages=takes_messages,
            )  # fmt: skip
            seat = self.seats.setdefault(broker_id, self.seated.seat())
            answer = seat.exchange(seat.request(R.BROKER_HEARTBEAT, header, oneway=not has_lease))
            found = from_ext(answer.ext, ReplicaInfoAnswer) if answer is not None else found
        return found

    def die(self, broker_id: int) -> None:
        self.seats.pop(broker_id).hang_up()

    def apply(self, broker_id: int, code: str | None = None) -> Command:
        header = ApplyBrokerIdHeader(
            cluster_name="c", broker_name=NAME, applied_broker_id=broker_id,
            register_check_code=code or f"h:{broker_id};1",
        )  # fmt: skip
        return self.client.ask(R.CONTROLLER_APPLY_BROKER_ID, header)

    def register(self, broker_id: int, address: str) -> Command:
        header = RegisterToControllerHeader(
            cluster_name="c", broker_name=NAME, broker_id=broker_id, broker_address=address
        )
        return self.client.ask(R.CONTROLLER_REGISTER_BROKER, header)

    def elect(self, broker_id: int, *, designate: bool = True) -> Command:
        answer = self.client.exchange(self.election(broker_id, designate=designate))
        assert answer is not None
        return answer

    def election(self, broker_id: int, *, designate: bool = True) -> Command:
        header = ElectMasterHeader(cluster_name="c", broker_name=NAME, broker_id=broker_id, designate_elect=designate)
        return self.client.request(R.CONTROLLER_ELECT_MASTER, header)

    def want(self, broker_id: int, *, is_frozen: bool = False) -> Seat:
        """An operator designates a master; the seat gets the answer."""
        operator = self.seated.seat()
        assert operator.exchange(self.election(broker_id)) is None
        assert self.seated.notices.last_of(self.found) == [f"h:{broker_id}"], "it is told to send a heartbeat"
        if not is_frozen:
            self.beat(broker_id)
        return operator

    def give_back(self, handover_id: int | None) -> Command:
        """The first replica has given its lease back."""
        header = ElectMasterHeader(cluster_name="c", broker_name=NAME, broker_id=1, handover_id=handover_id)
        return self.seats[1].ask(R.CONTROLLER_ELECT_MASTER, header)

    def alter(self, *broker_ids: int) -> Command:
        master, epoch = self.found.master_broker_id, self.found.master_epoch
        assert master is not None
        header = AlterSyncStateSetHeader(broker_name=NAME, master_broker_id=master, master_epoch=epoch)
        wanted = SyncStateSet(sync_state_set=list(broker_ids), sync_state_set_epoch=self.found.sync_state_set_epoch)
        return self.client.ask(R.CONTROLLER_ALTER_SYNC_STATE_SET, header, fastjson.dumps(wanted))

    def clean(self, ids: str | None, *, also_living: bool = False) -> Command:
        header = CleanBrokerDataHeader(
            broker_name=NAME, broker_controller_ids_to_clean=ids, is_clean_living_broker=also_living
        )
        return self.client.ask(R.CLEAN_BROKER_DATA, header)


def not_elected(operator: Seat) -> str:
    """Why an election that the operator wanted has failed."""
    told = operator.take()
    assert told is not None
    assert told.code == NOT_ELECTED
    return told.remark or ""


def nobody() -> Trio:
    """Before the first replica has come."""
    found = Trio.__new__(Trio)
    found.disk, found.settings = RecordingDisk(), ""
    found.start()
    return found


@pytest.fixture
def trio() -> Trio:
    return Trio()


# --- elections -------------------------------------------------------------------------------------------------------


def test_a_master_whose_connection_ends_and_whose_port_is_closed_is_replaced_at_once(trio: Trio) -> None:
    trio.die(1)
    assert (trio.found.master_broker_id, trio.found.master_epoch, trio.found.sync_state_set) == (2, 2, (2,))
    assert sorted(trio.seated.notices.last_of(trio.found)) == ["h:1", "h:2", "h:3"], (
        "those that live, and the former master, if it is only cut off"
    )


def test_a_master_that_lives_stays_whoever_ended_its_connection(trio: Trio) -> None:
    """It has its lease and acknowledges messages. Apache's controller takes the end of the connection for its death."""
    trio.seated.connections.somebody_listens = True
    trio.die(1)
    assert trio.seated.connections.doubted == ["h:1"]
    trio.seated.controller.scan_masters()
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (1, 1)
    trio.beat(1)
    assert trio.seated.connections.doubted == []
    trio.seated.connections.somebody_listens = False
    trio.seated.connections.look()
    assert trio.found.master_broker_id == 1, "it was heard of since"


def test_nor_is_one_of_which_nothing_more_is_known_before_its_time_out(trio: Trio) -> None:
    """The master is frozen, or behind a proxy, or another program has its port. Its lease may still run."""
    trio.seated.connections.somebody_listens = True
    trio.die(1)
    trio.seated.now_s += 8
    trio.beat(2, 3)
    trio.seated.controller.scan_brokers()
    assert trio.found.master_broker_id == 1
    trio.seated.now_s += 3
    trio.seated.controller.scan_brokers()
    assert trio.found.master_broker_id == 2
    assert trio.seated.connections.doubted == []


def test_who_starts_again_is_looked_for_where_it_is_now(trio: Trio) -> None:
    trio.seated.connections.somebody_listens = True
    trio.die(2)
    trio.register(2, "h:22")
    assert trio.seated.connections.doubted == ["h:22"]
    trio.die(1)
    trio.register(1, "h:1")
    assert trio.seated.connections.doubted == ["h:22"], "the master's life before is over"


def test_a_silent_master_is_replaced_by_the_scan(trio: Trio) -> None:
    trio.seated.now_s += 8
    trio.beat(2, 3)
    trio.seated.now_s += 8
    assert trio.found.master_broker_id == 1
    trio.seated.controller.scan_brokers()
    assert trio.found.master_broker_id == 2


def test_nobody_outside_of_the_set_is_elected(trio: Trio) -> None:
    trio.die(2)
    trio.die(1)
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (None, 2)
    assert trio.found.sync_state_set == (1, 2), "who may lead again"
    for designate in (False, True):
        assert trio.elect(3, designate=designate).code == NOT_ELECTED
    trio.seated.controller.scan_masters()
    assert trio.found.master_epoch == 2, "no term of nobody after another"
    trio.beat(2)
    trio.seated.controller.scan_masters()
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (2, 3)


def test_who_joins_must_live_and_who_stays_need_not(trio: Trio) -> None:
    """Apache's controller refuses (2006) even a set from which only a dead replica is to go."""
    trio.die(3)
    assert trio.alter(1, 2, 3).code == NOT_ALIVE
    trio.beat(3)
    assert trio.alter(1, 2, 3).code == 0
    trio.die(2)
    trio.die(3)
    assert trio.alter(1, 3).code == 0
    assert trio.found.sync_state_set == (1, 3)


def test_an_unclean_election_is_a_switch() -> None:
    trio = Trio("enableElectUncleanMaster=true")
    trio.die(2)
    trio.die(1)
    assert (trio.found.master_broker_id, trio.found.sync_state_set) == (3, (3,))


@pytest.mark.parametrize(
    ("second", "third", "chosen"),
    [
        ({"epoch": 2, "max_offset": 5}, {"epoch": 1, "max_offset": 900}, 2),
        ({"epoch": 1, "max_offset": 1}, {"epoch": 2, "max_offset": 0, "priority": 99}, 3),
        ({"max_offset": 5}, {"max_offset": (1 << 31) + 6}, 3),
        ({"priority": 2}, {"priority": 1}, 3),
        ({"priority": 1}, {"priority": 2}, 2),
        ({}, {}, 2),
    ],
)
def test_the_longest_log_of_the_last_epoch_then_priority(
    trio: Trio, second: dict[str, int], third: dict[str, int], chosen: int
) -> None:
    """Apache's controller computes the difference of offsets in 32 bits, and takes the shorter log in the third
    case."""
    assert trio.alter(1, 2, 3).code == 0
    trio.beat(2, **second)
    trio.beat(3, **third)
    trio.die(1)
    assert trio.found.master_broker_id == chosen


def test_an_operator_designates(trio: Trio) -> None:
    assert trio.elect(1).code == STILL_THERE
    assert trio.elect(3).code == NOT_ELECTED
    answer = trio.elect(2)
    assert answer.code == 0
    assert b'"brokerAddrs":{"1":"h:1"' in answer.body, "quoted, or Apache's mqadmin cannot read it"
    assert trio.found.master_broker_id == 2


def test_a_master_gives_its_lease_back_before_another_is_elected(trio: Trio) -> None:
    """Apache's controller elects at once, and a master that has not heard of it yet acknowledges messages that the
    elected one lacks."""
    assert trio.beat(1, has_lease=True).handover_id is None
    operator = trio.want(2)
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (1, 1)
    assert trio.seated.notices.last_of(trio.found) == ["h:1"], "it is told to ask"
    asked = trio.beat(1, has_lease=True)
    answer = trio.client.ask(R.CONTROLLER_GET_REPLICA_INFO, ReplicaInfoHeader(broker_name=NAME))
    also = from_ext(answer.ext, ReplicaInfoAnswer)
    assert asked.handover_id == also.handover_id
    assert (asked.successor_id, also.successor_id) == (2, 2)
    assert asked.handover_id is not None
    assert trio.give_back(asked.handover_id + 1).code == STILL_THERE
    assert (trio.found.master_broker_id, operator.take()) == (1, None)
    found = trio.give_back(asked.handover_id)
    told = operator.take()
    assert (found.code, told.code, trio.found.master_broker_id, trio.found.master_epoch) == (0, 0, 2, 2)
    assert from_ext(found.ext, ElectMasterAnswer).master_broker_id == 2, "it follows at once"
    assert trio.give_back(asked.handover_id).code == STILL_THERE, "the answer was lost, and it asks again"
    assert trio.beat(1, has_lease=True).handover_id is None


def test_a_master_that_takes_no_messages_has_to_hand_over(trio: Trio) -> None:
    """Its disk is full, and its set took no messages until an operator came."""
    trio.beat(1, has_lease=True, takes_messages=False)
    assert trio.seated.notices.last_of(trio.found) == ["h:2"], "it is told to send a heartbeat"
    assert trio.beat(1, has_lease=True, takes_messages=False).handover_id is None, "not before the successor is heard"
    trio.beat(2)
    asked = trio.beat(1, has_lease=True, takes_messages=False)
    assert asked.successor_id == 2
    assert trio.give_back(asked.handover_id).code == 0
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (2, 2)


def test_it_stays_if_no_broker_in_sync_takes_any(trio: Trio) -> None:
    """Two masters whose disks are both full would take turns."""
    told = len(trio.seated.notices.told)
    trio.beat(2, takes_messages=False)
    trio.beat(1, has_lease=True, takes_messages=False)
    assert len(trio.seated.notices.told) == told
    trio.beat(2)
    trio.beat(1, has_lease=True, takes_messages=False)
    assert len(trio.seated.notices.told) == told + 1


def test_one_that_could_not_hand_over_is_asked_again_later(trio: Trio) -> None:
    """In each handover clients wait for up to a second."""
    for _ in range(2):
        trio.beat(1, has_lease=True, takes_messages=False)
        trio.beat(2)
        assert trio.beat(1, has_lease=True, takes_messages=False).successor_id == 2
        trio.seated.now_s += 2.5
        trio.seated.controller.scan_handovers()
        assert trio.beat(1, has_lease=True, takes_messages=False).successor_id is None
        trio.beat(1, 2, 3, has_lease=True)
        trio.seated.now_s += 7.5


def test_a_master_without_a_lease_is_not_asked_to_hand_over(trio: Trio) -> None:
    told = len(trio.seated.notices.told)
    trio.beat(1, takes_messages=False)
    assert len(trio.seated.notices.told) == told


def test_nothing_is_handed_over_to_a_broker_that_is_silent(trio: Trio) -> None:
    """A frozen broker counts as alive for some seconds. It was elected, and the set had no master until it woke up."""
    trio.beat(1, has_lease=True)
    operator = trio.want(2, is_frozen=True)
    assert trio.beat(3).handover_id is None
    assert trio.beat(1, has_lease=True).handover_id is None
    assert trio.seated.notices.last_of(trio.found) == ["h:2"]
    trio.seated.now_s += 2.5
    trio.seated.controller.scan_handovers()
    assert "broker 2 has sent no heartbeat for 2.5 s" in not_elected(operator)
    assert trio.beat(2).handover_id is None
    assert trio.beat(1, has_lease=True).handover_id is None
    assert trio.found.master_broker_id == 1


def test_a_master_that_keeps_its_lease_stays(trio: Trio) -> None:
    """It may be cut off, or its successor may be behind. What it says later is void: it has its lease again."""
    trio.beat(1, has_lease=True)
    operator = trio.want(2)
    asked = trio.beat(1, has_lease=True)
    refused = trio.elect(2)
    assert (refused.code, refused.remark) == (
        NOT_ELECTED, "Failed to elect a new master: another handover of this set is under way"
    )  # fmt: skip
    trio.seated.now_s += 2.5
    trio.seated.controller.scan_handovers()
    assert "h:1 did not give its lease back" in not_elected(operator)
    assert trio.beat(1, has_lease=True).handover_id is None
    assert trio.give_back(asked.handover_id).code == STILL_THERE
    assert trio.found.master_broker_id == 1


def test_a_handover_ends_where_another_is_elected(trio: Trio) -> None:
    """The next master was asked for its lease, too, and let its clients wait for a second."""
    trio.beat(1, has_lease=True)
    operator = trio.want(2)
    asked = trio.beat(1, has_lease=True)
    trio.die(1)
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (2, 2)
    assert trio.beat(2, has_lease=True).handover_id is None
    trio.seated.controller.scan_handovers()
    assert "the master at h:1 was lost, or has started again, meanwhile" in not_elected(operator)
    trio.beat(1)
    assert trio.give_back(asked.handover_id).code == STILL_THERE
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (2, 2)


def test_another_handover_may_begin_where_the_master_of_the_first_is_gone(trio: Trio) -> None:
    trio.beat(1, has_lease=True)
    first = trio.want(2)
    trio.die(1)
    assert trio.alter(2, 3).code == 0
    trio.beat(2, has_lease=True)
    second = trio.want(3)
    assert not_elected(first)
    assert trio.beat(2, has_lease=True).successor_id == 3
    assert second.take() is None


def test_the_first_master_is_one_that_is_known() -> None:
    """Apache's controller elects the first id that asks, even an unknown one."""
    trio = nobody()
    assert trio.elect(1).code == MUST_REGISTER
    trio.apply(1)
    assert trio.elect(7, designate=False).code == NOT_ELECTED
    assert trio.elect(1).code == NOT_ELECTED, "an operator's must live"
    assert trio.elect(1, designate=False).code == 0


# --- lives -----------------------------------------------------------------------------------------------------------


def test_a_master_that_starts_again_begins_no_term_where_its_old_one_was(trio: Trio) -> None:
    """Its log may have lost its end. If Apache's controller has not noticed the death, the master goes on in its old
    epoch, and two logs differ in one epoch."""
    answer = trio.register(1, "h:1")
    assert (answer.ext["masterBrokerId"], answer.ext["masterEpoch"]) == ("2", "2")
    assert trio.found.sync_state_set == (2,)


def test_a_master_that_starts_again_alone_leads_in_a_new_epoch(trio: Trio) -> None:
    for broker_id in (3, 2):
        trio.die(broker_id)
    answer = trio.register(1, "h:11")
    assert "masterBrokerId" not in answer.ext
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (None, 2)
    trio.beat(1)
    assert trio.elect(1, designate=False).ext["masterEpoch"] == "3"
    before = trio.found
    trio.restart()
    assert trio.found == before, "address and term were kept together"
    assert trio.found.master_address == "h:11"


def test_a_slave_that_starts_again_hears_of_the_master(trio: Trio) -> None:
    answer = trio.register(2, "h:22")
    assert (answer.ext["masterBrokerId"], answer.ext["masterAddress"]) == ("1", "h:1")
    assert trio.found.replicas[2].broker_address == "h:22"
    assert trio.found.master_epoch == 1


# --- a controller that has just started ------------------------------------------------------------------------------


def test_no_election_before_it_is_known_who_lives(trio: Trio) -> None:
    trio.restart()
    trio.beat(2, 3)
    assert trio.elect(2).code == NOT_ELECTED
    assert "has just started" in (trio.elect(2, designate=False).remark or "")
    trio.seated.controller.scan_masters()
    assert trio.found.master_broker_id == 1
    trio.seated.settle()
    trio.beat(2, 3)
    trio.seated.controller.scan_masters()
    assert (trio.found.master_broker_id, trio.found.master_epoch) == (2, 2)


def test_a_restart_between_heartbeats_changes_nothing(trio: Trio) -> None:
    before = trio.found
    trio.restart()
    trio.beat(1, 2, 3)
    assert trio.elect(2, designate=False).code == STILL_THERE
    trio.die(2)
    trio.seated.controller.scan_masters()
    assert trio.found == before


def test_a_master_that_dies_before_that_is_replaced_after_it(trio: Trio) -> None:
    trio.restart()
    trio.beat(1, 2, 3)
    trio.die(1)
    assert trio.found.master_broker_id == 1
    trio.seated.settle()
    trio.beat(2, 3)
    trio.seated.controller.scan_masters()
    assert trio.found.master_broker_id == 2


def test_nothing_is_cleaned_before_that(trio: Trio) -> None:
    trio.restart()
    assert trio.clean("3").code == NOT_CLEANED
    trio.seated.settle()
    assert trio.clean("3").code == 0


# --- ids, and what is forgotten --------------------------------------------------------------------------------------


def test_only_the_next_id_is_given_and_a_lost_answer_is_repeated(trio: Trio) -> None:
    assert trio.apply(8).code == BAD_ID
    assert trio.apply(2, "h:9;9").code == BAD_ID
    assert trio.apply(2).code == 0
    header = NextBrokerIdHeader(cluster_name="c", broker_name=NAME)
    assert trio.client.ask(R.CONTROLLER_GET_NEXT_BROKER_ID, header).ext["nextBrokerId"] == "4"


@pytest.mark.parametrize("also_living", [False, True])
def test_what_runs_is_not_wiped(trio: Trio, also_living: bool) -> None:
    """With -l Apache's controller wipes the whole set, whatever ids were named, and its brokers never come back."""
    before = trio.found
    for ids in (None, "1", "3", "1;2;3", "3;x"):
        assert trio.clean(ids, also_living=also_living).code == NOT_CLEANED
    assert trio.found == before
    trio.die(3)
    assert trio.clean("2;3", also_living=also_living).code == NOT_CLEANED
    assert trio.clean("3", also_living=also_living).code == 0
    assert sorted(trio.found.replicas) == [1, 2]
    assert trio.register(3, "h:3").code == MUST_REGISTER


def test_ids_that_are_no_numbers_are_refused_in_apaches_words(trio: Trio) -> None:
    """The remark held Python's words, and ``1_0`` was the id 10."""
    for text in ("x", "1_0", "1.5"):
        answer = trio.clean(f"1;{text}")
        assert answer.code == NOT_CLEANED
        assert answer.remark == (
            "Please set the option <brokerControllerIdsToClean> according to the format, "
            f'exception: java.lang.NumberFormatException: For input string: "{text}"'
        )


def test_a_whole_set_that_is_dead_goes(trio: Trio) -> None:
    for broker_id in (2, 3):
        trio.die(broker_id)
    trio.seated.now_s += 60  # nothing has scanned: the master is still the master
    assert trio.clean(None).code == NOT_CLEANED
    assert trio.clean(None, also_living=True).code == 0
    assert NAME not in trio.seated.controller.sets


def test_a_master_that_is_forgotten_leads_no_more(trio: Trio) -> None:
    for broker_id in (3, 2):
        trio.die(broker_id)
    trio.seated.now_s += 60
    assert trio.clean("1").code == 0
    assert (trio.found.master_broker_id, trio.found.master_epoch, trio.found.sync_state_set) == (None, 2, (2,))


# --- what it cannot keep ---------------------------------------------------------------------------------------------


def test_a_log_that_fails_ends_all_decisions(trio: Trio) -> None:
    before = trio.found

    def fail(operation: str, path: str) -> None:
        if operation == "fdatasync":
            raise OSError(errno.EIO, "the device", path)

    trio.disk.on_call = fail
    answer = trio.elect(2)
    assert answer.code == 1
    assert "cannot write the controller's log" in (answer.remark or "")
    trio.disk.on_call = None
    assert trio.found == before
    assert trio.alter(1).code == 1, "nobody knows what is on the device"


def test_the_log_begins_anew_with_a_snapshot(trio: Trio) -> None:
    log, short = EventLog("/short", trio.disk, snapshot_after_records=3), "/short/controller.log"
    sets = log.open()
    sizes: list[int] = []
    failures: list[object] = []
    for _ in range(8):
        log.append((), sets, failures.append)
        sizes.append(trio.disk.file_size(short))
    assert sizes[2] < sizes[1]
    assert sizes[5] < sizes[4]
    assert failures == [None] * 8
    log.close()
    trio.disk.open(short).truncate(5)
    with pytest.raises(StorageError, match="no record"):
        EventLog("/short", trio.disk).open()


def test_a_log_that_has_no_room_to_begin_anew_goes_on(trio: Trio) -> None:
    """The controller ended, though its log had the event: it lacked a file handle for a moment. Later it tried again
    with every event while its disk was full."""
    log, short = EventLog("/short", trio.disk, snapshot_after_records=3), "/short/controller.log"
    sets, failures = log.open(), list[object]()
    codes = itertools.chain([errno.EMFILE, errno.ENOSPC], itertools.repeat(0))

    def fail(operation: str, path: str) -> None:
        if operation == "open" and (code := next(codes)):
            raise OSError(code, "no room", path)

    trio.disk.on_call = fail
    sizes: list[int] = []
    for _ in range(9):
        log.append((), sets, failures.append)
        sizes.append(trio.disk.file_size(short))
    assert failures == [None] * 9
    assert sizes[:8] == sorted(sizes[:8])
    assert sizes[8] < sizes[7]
    log.close()
    assert EventLog("/short", trio.disk).open() == sets


def test_a_bad_record_in_the_middle_is_damage(trio: Trio) -> None:
    trio.seated.controller.close()
    file = trio.disk.open("/state/controller.log")
    at = file.size() // 2
    (byte,) = file.pread(1, at)
    file.pwrite(bytes([byte ^ 1]), at)
    with pytest.raises(StorageError, match="a bad record, and a good one behind it"):
        EventLog("/state", trio.disk).open()


def test_one_controller_is_no_group() -> None:
    with pytest.raises(UsageError, match="several controllers keep their state in etcd"):
        ControllerConfig.from_properties("controllerDLegerPeers=n0-a:9878;n1-b:9878")
    with pytest.raises(UsageError, match="controllerType=jRaft"):
        ControllerConfig.from_properties("controllerType=jRaft")


def test_a_set_whose_controller_was_lost_goes_on_behind_the_epochs_of_its_log() -> None:
    """Its first master gets a higher epoch than any in its log. Apache's controller begins at 1."""
    for epoch, first in ((7, 8), ((1 << 31) - 1, (1 << 30) + 1)):
        lone = nobody()
        lone.apply(1)
        lone.beat(1, epoch=epoch)
        assert lone.elect(1, designate=False).ext["masterEpoch"] == str(first)
    lone.beat(1, epoch=99)
    assert lone.register(1, "h:1").code == 0
    assert lone.found.master_epoch == (1 << 30) + 2, "then a heartbeat says nothing of it"
