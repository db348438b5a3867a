"""Broken variants of the product, each with one wrong rule in a copy of its modules. The simulation must detect every
one of them. Each is a mistake that a developer could make, and several are what other brokers do."""

from collections.abc import Callable
from typing import Any, NamedTuple

from rmqserver.controller.quorum.etcd import TxnResult
from tests.simulation import faults, tasks
from tests.simulation.product import Product

Variant = Callable[[Product], None]


def acknowledges_without_lease(product: Product) -> None:
    """Like Apache's master, which acknowledges until it is told of another one."""
    product.set_master.SetMaster.may_acknowledge = True


def lease_outlasts_the_controller(product: Product) -> None:
    """The lease lasts longer than the controller waits for a heartbeat."""
    product.set_state.LEASE_PERCENT = 130


def lease_by_a_clock_that_sleeps(product: Product) -> None:
    """Counts the lease by a clock like trio's and ``time.monotonic``."""
    set_state = product.set_state
    begin = set_state.SetState.__init__
    set_state.SetState.__init__ = lambda state, epochs: begin(state, epochs, set_state.monotonic_ms)


def elects_at_once_after_a_start(product: Product) -> None:
    """A broker without a heartbeat so far is taken for dead."""
    product.live_brokers.LiveBrokers.is_settled = True


def takes_the_end_of_a_connection_for_death(product: Product) -> None:
    """Like Apache's controller. A broker that lives still has its lease."""

    async def is_refused(address: str) -> bool:
        return True

    product.live_brokers.is_refused = is_refused


def elects_before_the_lease_is_back(product: Product) -> None:
    """Like Apache's controller, which carries out a planned handover at once."""
    product.controller.Controller._leased_set = lambda controller, wanted: None
    product.controller.Controller._elect_unleased = lambda controller, now, wanted: product.elections.elect_master(
        now, wanted
    )


def keeps_the_lease_that_it_gives_back(product: Product) -> None:
    product.set_state.MasterLease.give_back = lambda lease, now_ms: None


def hands_over_to_one_that_is_behind(product: Product) -> None:
    """The master does not wait until its successor has everything."""

    async def has_caught_up(*args: Any) -> bool:
        return True

    product.member.has_caught_up = has_caught_up


def asks_the_next_master_to_hand_over(product: Product) -> None:
    """A handover outlives the master that was asked for it."""

    def of(handovers: Any, found: Any) -> Any:
        handover = handovers._of_name.get(found.broker_name)
        if handover is not None:
            handover.master_epoch = found.master_epoch
        return handover

    product.handovers.Handovers.of = of


def relieves_nobody(product: Product) -> None:
    """Like Apache's controller: a master whose disk is full stays."""
    product.handovers.Reliefs.wanted = lambda reliefs, now, found: None


def no_master_opens_its_store_again(product: Product) -> None:
    """A master whose disk was full waits until somebody starts it again."""
    product.member.SetMember.may_open_store_again = property(lambda member: member.state.sync_set is None)


def relieves_before_the_lease_is_back(product: Product) -> None:
    """A master that takes no messages is replaced at once. It may still acknowledge those that it took."""

    def elect(controller: Any, found: Any, wanted: Any, done: Any) -> None:
        controller._decider.submit(lambda now: product.elections.elect_master(now, wanted), done)

    product.controller.Controller._begin_handover = elect


def shrinks_before_it_is_agreed(product: Product) -> None:
    """Like Apache's master, which no longer waits for a broker once it has proposed that it leaves."""

    def required(sync_set: Any) -> frozenset[int]:
        members: frozenset[int] = sync_set.proposed or sync_set.members
        return members - {sync_set.own_id}

    product.set_state.SyncSet.required = property(required)


def elects_outside_of_the_set(product: Product) -> None:
    elections = product.elections

    def choose(now: Any, found: Any, designated: int | None) -> int | None:
        chosen: int | None = elections._best(now, found, found.replicas, designated)
        return chosen

    elections.choose = choose


def cuts_by_length_alone(product: Product) -> None:
    """Two logs are taken for equal up to the end of the shorter one."""

    def parting(epochs: Any, log_end: int, theirs: Any, their_end: int) -> int:
        return min(log_end, their_end)

    product.epochs.EpochList.parting = parting


def begins_no_epoch(product: Product) -> None:
    """Messages of a new master are attributed to the epoch before."""
    product.set_state.SetState.opened = lambda state, recovered, log_start: None
    begin = product.epochs.EpochList.begin

    def first_alone(epochs: Any, epoch: int, start_offset: int) -> None:
        if not epochs.entries:
            begin(epochs, epoch, start_offset)

    product.epochs.EpochList.begin = first_alone

    def opened(state: Any, recovered: Any, log_start: int) -> None:
        if state.sync_set is not None:
            state.epochs.epochs.begin(state.master_epoch, log_start)
            state.epochs.save()

    product.set_state.SetState.opened = opened


def master_shows_what_it_has(product: Product) -> None:
    """A master's confirm offset is the end of its log."""
    set_master = product.set_master
    set_master.SetMaster.hold_back = lambda master: master.store.copied(set_master.OFFSET_MAX)


def slave_shows_what_it_has(product: Product) -> None:
    confirm = product.set_slave.SetSlave._confirm

    def all_of_it(slave: Any, log_offset: int, copy: Any) -> None:
        confirm(slave, copy.end_offset, copy)

    product.set_slave.SetSlave._confirm = all_of_it


def slave_reports_before_it_writes(product: Product) -> None:
    shape = product.set_slave.SET_REPORT

    async def receive(slave: Any, stream: Any, copy: Any) -> None:
        head = product.set_slave.SET_TRANSFER_HEAD
        while True:
            data = await stream.receive_some(1 << 20)
            if not data:
                raise product.ha_slave.MasterGone("closed")
            received = slave._head + data
            if not slave._missing_bytes and len(received) >= head.size and int.from_bytes(received[:4], "big") == 2:
                _, size, offset, *_ = head.unpack_from(received)
                if offset == copy.end_offset and size:
                    slave._send_report(stream, shape.pack(2, offset + size))
                    await tasks.sleep(0.02)
            slave._take(data, copy)
            slave._send_report(stream, shape.pack(2, copy.end_offset))

    product.set_slave.SetSlave._receive = receive


def takes_messages_with_too_few(product: Product) -> None:
    """minInSyncReplicas is ignored."""
    product.set_master.SetMaster.is_short = False


def controller_answers_before_it_synced(product: Product) -> None:
    event_log = product.event_log.EventLog
    append = event_log.append

    def unsynced(log: Any, *args: Any) -> None:
        file, log._file = log._file, _Unsynced(log._file)
        try:
            append(log, *args)
        finally:
            if isinstance(log._file, _Unsynced):
                log._file = file

    event_log.append = unsynced


class _Unsynced:
    def __init__(self, file: Any):
        self._file = file

    def fdatasync(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


# --- several controllers, behind one etcd ----------------------------------------------------------------------------


def _asked_otherwise(product: Product, txn: Callable[..., Any]) -> None:
    """Makes a leader store its decisions with ``txn(etcd, conditions, *rest)``."""
    term = product.quorum_store._Term
    begin = term.__init__

    def begun(term: Any, etcd: Any, *args: Any) -> None:
        begin(term, _Asked(etcd, txn), *args)

    term.__init__ = begun


class _Asked:
    def __init__(self, etcd: Any, txn: Callable[..., Any]):
        self._etcd = etcd
        self._txn = txn

    async def txn(self, conditions: Any, *rest: Any, **more: Any) -> Any:
        return await self._txn(self._etcd, conditions, *rest, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._etcd, name)


def decides_without_looking_who_leads(product: Product) -> None:
    """The leader trusts its own clock alone."""

    async def txn(etcd: Any, conditions: Any, *rest: Any, **more: Any) -> Any:
        return await etcd.txn([], *rest, **more)

    _asked_otherwise(product, txn)


def sends_again_without_looking_what_came(product: Product) -> None:
    """The head is not compared, so a late transaction undoes later decisions."""

    async def txn(etcd: Any, conditions: Any, *rest: Any, **more: Any) -> Any:
        return await etcd.txn(conditions[:1], *rest, **more)

    _asked_otherwise(product, txn)


def takes_silence_for_consent(product: Product) -> None:
    async def txn(etcd: Any, conditions: Any, *rest: Any, **more: Any) -> Any:
        try:
            return await etcd.txn(conditions, *rest, **more)
        except product.quorum_store.EtcdError:
            return TxnResult(True, conditions[1].revision)

    _asked_otherwise(product, txn)


def answers_before_etcd_has_it(product: Product) -> None:
    store = product.quorum_store.QuorumStore
    append = store.append

    def appended(store: Any, events: Any, after: Any, kept: Any) -> None:
        append(store, events, after, lambda error: None)
        kept(None)

    store.append = appended


def leads_from_what_it_knew(product: Product) -> None:
    """A new leader does not read what other controllers have decided since it last led."""
    store = product.quorum_store.QuorumStore
    read = store._read_state

    async def known(store: Any, term: Any) -> Any:
        found = await read(store, term)
        store.known = getattr(store, "known", found)
        return store.known

    append = store.append

    def appended(store: Any, events: Any, after: Any, kept: Any) -> None:
        store.known = after
        append(store, events, after, kept)

    store._read_state, store.append = known, appended


QUORUM_VARIANTS: tuple[Variant, ...] = (
    decides_without_looking_who_leads, sends_again_without_looking_what_came, takes_silence_for_consent,
    answers_before_etcd_has_it, leads_from_what_it_knew,
)  # fmt: skip

VARIANTS: tuple[Variant, ...] = (
    acknowledges_without_lease, lease_outlasts_the_controller, lease_by_a_clock_that_sleeps,
    elects_at_once_after_a_start, takes_the_end_of_a_connection_for_death, elects_before_the_lease_is_back,
    keeps_the_lease_that_it_gives_back, relieves_before_the_lease_is_back, shrinks_before_it_is_agreed,
    elects_outside_of_the_set,
    cuts_by_length_alone, begins_no_epoch, master_shows_what_it_has, slave_shows_what_it_has,
    slave_reports_before_it_writes, takes_messages_with_too_few, controller_answers_before_it_synced,
)  # fmt: skip


class Aim(NamedTuple):
    """Narrows the histories to those that show a broken rule often enough. Among all histories, those that rely on
    leases and have only these kinds of faults are rare."""

    mode: str | None = None
    kinds: tuple[faults.Fault, ...] = faults.KINDS


AIMS: dict[Variant, Aim] = {
    acknowledges_without_lease: Aim("lease", (faults.freeze, faults.isolate)),
    lease_outlasts_the_controller: Aim("lease", (faults.cut, faults.isolate)),
    lease_by_a_clock_that_sleeps: Aim("lease", (faults.sleep,)),
    elects_at_once_after_a_start: Aim("lease", (faults.kill_controller, faults.isolate)),
    takes_the_end_of_a_connection_for_death: Aim("lease", (faults.reset_controller,)),
    elects_before_the_lease_is_back: Aim("lease", (faults.hand_over, faults.slow_down, faults.isolate)),
    keeps_the_lease_that_it_gives_back: Aim("lease", (faults.hand_over, faults.isolate, faults.cut)),
    relieves_before_the_lease_is_back: Aim("lease", (faults.fill_disk, faults.slow_down, faults.isolate)),
}
