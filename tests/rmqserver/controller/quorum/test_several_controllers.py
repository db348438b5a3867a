"""Two whole controllers over one etcd in memory: which one answers, what, and when."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rmqproto.codes import RequestCode as R
from rmqproto.headers.base import Header, from_ext
from rmqproto.headers.controller import (
    ApplyBrokerIdHeader,
    ControllerMetaAnswer,
    ElectMasterHeader,
    NextBrokerIdHeader,
    ReplicaInfoHeader,
)
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire.command import Command
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.controller.controller import Controller
from rmqserver.controller.controller_store import ControllerName
from rmqserver.controller.quorum.quorum_store import QuorumStore
from tests.rmqserver.controller.quorum.etcd_in_memory import EtcdInMemory, Line, Mishap, trio_ms
from tests.rmqserver.controller.seats import HeardNotices, SaidConnections, Seat

pytestmark = pytest.mark.trio

NAME = "broker-a"
NOT_LEADER, NOT_ELECTED = 2007, 2012
TTL_S = 5


class Running:
    """A running controller. ``stop`` ends it as a process that is asked to end."""

    def __init__(self, number: int, etcd: EtcdInMemory, nursery: trio.Nursery):
        self.me = ControllerName(f"n{number}", f"10.0.0.{number}:9878")
        self.line = Line(etcd, nursery)
        self.notices = HeardNotices()
        config = ControllerConfig.from_properties(f"controllerDLegerSelfId=n{number}\netcdEndpoints=http://etcd:2379")
        self.controller = Controller(
            config,
            QuorumStore(self.line, "g", TTL_S, clock_ms=trio_ms),
            self.notices,
            SaidConnections(),
            lambda host: self.me.address,
            trio.current_time,
        )  # type: ignore[arg-type]
        self.controller.open()
        self.seat = Seat(self.controller)
        self.scope = trio.CancelScope()
        self._nursery = nursery
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        with self.scope:
            await self.controller.run(self.me)

    def stop(self) -> None:
        self.scope.cancel()
        self.controller.close()

    async def until_leading(self) -> None:
        while not self.controller.is_leading:
            await trio.sleep(0.1)

    async def ask(self, code: R, header: Header | None = None, body: bytes = b"") -> Command:
        answer = self.seat.exchange(Seat.request(code, header, body))
        while answer is None:
            await trio.sleep(0.001)
            answer = self.seat.take()
        return answer

    async def meta(self) -> ControllerMetaAnswer:
        return from_ext((await self.ask(R.CONTROLLER_GET_METADATA_INFO)).ext, ControllerMetaAnswer)

    async def apply(self, broker_id: int) -> Command:
        return await self.ask(R.CONTROLLER_APPLY_BROKER_ID, applied(broker_id))

    async def beat(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            beat = BrokerHeartbeatHeader(
                cluster_name="c", broker_addr="", broker_name=NAME, broker_id=broker_id, epoch=-1, max_offset=1
            )
            assert (await self.ask(R.BROKER_HEARTBEAT, beat)).code == 0

    async def elect(self, broker_id: int) -> Command:
        header = ElectMasterHeader(cluster_name="c", broker_name=NAME, broker_id=broker_id)
        return await self.ask(R.CONTROLLER_ELECT_MASTER, header)


def applied(broker_id: int) -> ApplyBrokerIdHeader:
    return ApplyBrokerIdHeader(
        cluster_name="c", broker_name=NAME, applied_broker_id=broker_id, register_check_code=f"h:{broker_id};1"
    )


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Running, Running]]:
    """Two controllers; the first one leads."""
    etcd = EtcdInMemory()
    async with trio.open_nursery() as nursery:
        first = Running(0, etcd, nursery)
        await first.until_leading()
        second = Running(1, etcd, nursery)
        while (await second.meta()).controller_leader_id is None:
            await trio.sleep(0.1)
        yield first, second
        nursery.cancel_scope.cancel()


async def test_one_decides_and_the_other_names_it(autojump_clock: object) -> None:
    async with two() as (first, second):
        assert (await first.apply(1)).code == 0
        refused = await second.apply(2)
        assert (refused.code, refused.remark, refused.ext) == (NOT_LEADER, "The controller is not in leader state", {})
        assert (await second.ask(R.CONTROLLER_GET_REPLICA_INFO, ReplicaInfoHeader(broker_name=NAME))).code == NOT_LEADER
        beat = BrokerHeartbeatHeader(cluster_name="c", broker_addr="", broker_name=NAME, broker_id=1)
        assert (await second.ask(R.BROKER_HEARTBEAT, beat)).code == NOT_LEADER, "a master has its lease from the leader"
        assert second.seat.exchange(Seat.request(R.BROKER_HEARTBEAT, beat, oneway=True)) is None, "as Apache's sends it"
        assert (await second.ask(R.GET_CONTROLLER_CONFIG)).code == 0
        for each in (first, second):
            meta = await each.meta()
            assert meta.controller_leader_id == "n0"
            assert meta.controller_leader_address == "10.0.0.0:9878"
            assert meta.is_leader is (each is first)
        assert (await second.meta()).peers == "n0:10.0.0.0:9878;n1:10.0.0.1:9878;"


async def test_a_decision_is_answered_when_it_is_kept_and_in_its_turn(autojump_clock: object) -> None:
    async with two() as (first, _):
        for broker_id in (1, 2, 3):
            assert first.seat.exchange(Seat.request(R.CONTROLLER_APPLY_BROKER_ID, applied(broker_id))) is None
        header = NextBrokerIdHeader(cluster_name="c", broker_name=NAME)
        answer = await first.ask(R.CONTROLLER_GET_NEXT_BROKER_ID, header)
        while answer.ext.get("nextBrokerId") is None:
            answer = await first.ask(R.CONTROLLER_GET_NEXT_BROKER_ID, header)
        assert answer.ext["nextBrokerId"] == "4", "it was asked behind three others, and each saw the one before"


async def test_nobody_is_told_that_it_is_master_while_an_election_is_kept(autojump_clock: object) -> None:
    """Otherwise a lease could be renewed after the decision that ends it."""
    async with two() as (first, _):
        for broker_id in (1, 2):
            assert (await first.apply(broker_id)).code == 0
        await first.beat(1, 2)
        operator = Seat(first.controller)
        header = ElectMasterHeader(cluster_name="c", broker_name=NAME, broker_id=1)
        assert operator.exchange(Seat.request(R.CONTROLLER_ELECT_MASTER, header)) is None, "etcd has not answered yet"
        beat = BrokerHeartbeatHeader(cluster_name="c", broker_addr="", broker_name=NAME, broker_id=1)
        assert (await first.ask(R.BROKER_HEARTBEAT, beat)).code == NOT_LEADER
        while (answer := operator.take()) is None:
            await trio.sleep(0.001)
        assert answer.code == 0
        told = await first.ask(R.BROKER_HEARTBEAT, beat)
        assert (told.code, told.ext["masterBrokerId"], told.ext["masterEpoch"]) == (0, "1", "1")


async def test_a_controller_that_is_cut_off_ceases_before_another_begins(autojump_clock: object) -> None:
    async with two() as (first, second):
        assert (await first.apply(1)).code == 0
        cut_s = trio.current_time()
        first.line.is_cut = True
        lost = await first.apply(2)
        assert lost.code == 1
        assert "whether it is kept is not known" in (lost.remark or "")
        assert (await first.apply(3)).code == NOT_LEADER
        assert (await first.meta()).controller_leader_address is None
        assert not second.controller.is_leading
        await second.until_leading()
        assert trio.current_time() - cut_s < 2 * TTL_S
        assert second.controller.sets[NAME].replicas.keys() == {1}
        first.line.is_cut = False
        while (await first.meta()).controller_leader_id != "n1":
            await trio.sleep(0.1)


async def test_an_answer_that_is_lost_is_found_out(autojump_clock: object) -> None:
    async with two() as (first, _):
        for mishap in (Mishap.ANSWER_LOST, Mishap.REQUEST_LATE, Mishap.REQUEST_LOST):
            mishaps = [mishap]
            first.line.next_mishap = lambda call: mishaps.pop() if call == "txn" and mishaps else Mishap.NONE  # noqa: B023
            broker_id = len(first.controller.sets[NAME].replicas) + 1 if first.controller.sets else 1
            assert (await first.apply(broker_id)).code == 0
            assert not mishaps
            await trio.sleep(10)
            assert first.controller.sets[NAME].next_broker_id == broker_id + 1
            assert first.controller.is_leading


async def test_nobody_is_elected_before_it_is_known_who_lives(autojump_clock: object) -> None:
    """A controller that has just begun to lead elects nobody, however long it has followed."""
    async with two() as (first, second):
        for broker_id in (1, 2):
            assert (await first.apply(broker_id)).code == 0
        await first.beat(1, 2)
        assert (await first.elect(1)).code == 0
        assert first.notices.told
        for _ in range(30):
            await first.beat(1, 2)
            await trio.sleep(1)
        first.stop()
        stopped_s = trio.current_time()
        await second.until_leading()
        began_s = trio.current_time()
        assert began_s - stopped_s < TTL_S, "the lease was given back"
        found = second.controller.sets[NAME]
        assert (found.master_broker_id, found.master_epoch) == (1, 1)
        await second.beat(2)
        assert (await second.elect(2)).code == NOT_ELECTED
        while second.controller.sets[NAME].master_epoch == 1:
            await second.beat(2)
            await trio.sleep(0.5)
        assert trio.current_time() - began_s >= 10
        assert second.controller.sets[NAME].master_broker_id is None, "only the first was in sync"


async def test_a_state_that_is_damaged_is_not_led(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    etcd = EtcdInMemory()
    async with trio.open_nursery() as nursery:
        first = Running(0, etcd, nursery)
        await first.until_leading()
        assert (await first.apply(1)).code == 0
        first.stop()
        key = f"/rmqserver/g/sets/{NAME}"
        good = etcd.rows[key]
        etcd.rows[key] = good[0]._replace(value=b'{"half'), 0
        second = Running(1, etcd, nursery)
        while "restore a snapshot of etcd" not in caplog.text:
            await trio.sleep(0.1)
        assert key in caplog.text
        assert (await second.apply(2)).code == NOT_LEADER
        etcd.rows[key] = good
        await second.until_leading()
        assert second.controller.sets[NAME].replicas.keys() == {1}
        nursery.cancel_scope.cancel()
