"""The life of the broker: its store and its role, opening and closing, what the loop calls, and its housekeeping."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from pathlib import Path

import trio

from rmqproto.errors import StorageError
from rmqproto.names import TIMER_TOPIC
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.auth.plain_acl.migration import migrate
from rmqserver.broker.admin.auth_admin import AuthAdmin
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.controlled.set_slave import SetSlave
from rmqserver.broker.controlled.set_state import SetState
from rmqserver.broker.lost_queues import tell_lost_queues, tell_unlisted_topics
from rmqserver.broker.registration import Registration
from rmqserver.broker.relays.relay import run_every
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.broker.replicas.metadata_copy import MetadataCopy
from rmqserver.broker.replicas.same_log import MasterLink
from rmqserver.broker.replicas.slave import Slave, forget_slave_note
from rmqserver.broker.replicas.table_watch import TableWatch
from rmqserver.broker.tables.topics import tell_static_topics
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.setting_values import BrokerRole
from rmqserver.operation import Peer
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.traffic import ByLoop
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.message_store import MessageStore, now_ms
from rmqserver.store.options import TimerPaths
from rmqserver.store.queues.round import Arrival
from rmqserver.store.recovery.recovery import Recovered
from rmqserver.store.sequences.sequence_feed import SequenceFeed
from rmqserver.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)

CLIENT_SCAN_EVERY_S = 10.0
PUT_EXPIRY_EVERY_S = 0.5
DISPATCH_EVERY_S = 0.02
"""How long the broker waits for more messages before it does the work that the store has postponed. A busy store does
this work by itself."""

TIMER_FILES_OPEN_MAX = 16

GC_THRESHOLDS = (100_000, 50, 50)
"""Reference counting frees what a round allocates. Looking for cycles all the time would cost 6 to 9 %."""


class Broker(BrokerAssembly):
    """The broker, without its doors. Construct it, ``open`` it, ``run`` it as a task beside the loop, then ``close``
    it. It has one role all its life: when the role changes, a new broker is made."""

    slave: Slave | None = None
    """None on a master."""

    table_watch: TableWatch | None = None
    """None on a slave."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: Loop,
        nameservers: Registration | None = None,
        clock_ms: Callable[[], int] = now_ms,
        auth: AuthSettings = AuthSettings(),  # noqa: B008 - it is frozen
        set_state: SetState | None = None,
    ):
        """``nameservers`` is told of every change of a topic; ``set_state`` is what controllers have decided on this
        broker."""
        self.loop = loop
        self.auth_settings = auth
        self.set_state = set_state
        self._is_open = False
        self._is_all_saved = True
        self._has_news = trio.Event()
        """Set when messages became visible since the store's postponed work was last done; then replaced by a new
        one."""
        root, traffic = config.store_path_root_dir, ByLoop(loop)
        store = MessageStore(
            root, config.store_options(), clock_ms=clock_ms, on_visible=self._visible, on_written=self._grown,
            follow=[self._follow_sequences],
        )  # fmt: skip
        timer_cache = FileCache(store.disk, TIMER_FILES_OPEN_MAX)
        super().__init__(
            config,
            store,
            TimerStore(TimerPaths.below(root), config.timer_options(), store.disk, timer_cache),
            self.sequences,
            ConfigFiles(str(Path(root, "config")), store.disk, self._not_saved),
            HaMaster(config, store, traffic) if set_state is None else SetMaster(config, store, set_state, traffic),
            loop.wake,
            loop.post,
            nameservers,
        )
        self.auth = AuthTable(self.files)
        self.auth_admin = AuthAdmin(self.auth, auth)
        self._lite_clients = self.lite.subscriptions.by_client
        if config.broker_role is BrokerRole.SLAVE:
            self.slave = self._make_slave(loop, nameservers)
        else:
            self.table_watch = TableWatch(self.topics, self.groups, loop.wake)

    def _make_slave(self, loop: Loop, nameservers: Registration | None) -> Slave:
        config, store, state, traffic = self.config, self.store, self.set_state, ByLoop(loop)
        follower = (
            HaSlave(config, store, traffic)
            if state is None
            else SetSlave(config, store, state.epochs, state.cut, traffic)
        )
        metadata = MetadataCopy(
            config, store, self.timer_store, self.files, self.topics, self.groups, self.offsets,
            lambda: follower.link_number,
        )  # fmt: skip
        slave = Slave(
            config, store, self.timer_store, self.files, metadata, lambda: MasterLink(loop, nameservers), follower
        )
        if state is None and nameservers is not None:
            nameservers.when_master_is_known(slave.take_master)
        return slave

    def _follow_sequences(self, store: MessageStore) -> SequenceFeed:
        self.sequences = SequenceFeed(store)
        self.sequences.on_behind = lambda: self._has_news.set()
        return self.sequences

    def following_problem(self) -> str:
        """Why a slave cannot follow its master; empty if it can, or is none."""
        return "" if self.slave is None else self.slave.log.problem

    # --- life --------------------------------------------------------------------------------------------------------

    def open(self, advertised_host: bytes | None = None) -> Recovered:
        """Opens the store, loads the tables, and returns what recovery found. ``advertised_host`` is the store host
        that records name; None: the address on which each message came. Raises StorageError if the store cannot be
        used; nothing stays open then."""
        self.address.advertised_host = advertised_host
        recovered = self.store.open()
        try:
            self._load_users()
            self._load_tables(recovered)
            if self.set_state is not None:
                self.set_state.opened(recovered, self.store.log.min_offset)
                if isinstance(self.replicas, SetMaster) and self.set_state.sync_set is not None:
                    self.replicas.hold_back()
                    self.topics.data_version.state_version = self.set_state.master_epoch
        except BaseException:
            self.store.close(keeps_mark=not recovered.was_clean)  # the tables are not yet corrected after the crash
            raise
        self._is_open = True
        self._has_news.set()  # recovery postpones work, too
        self.loop.watch(self.store.flush_fd, self._flush_done)
        return recovered

    def _load_users(self) -> None:
        settings = self.auth_settings
        self.auth.load()
        self.auth.init_super_user(settings.init_user)
        self.auth.init_super_user(settings.inner_client)
        if settings.migrates_plain:
            migrate(settings.plain_home, self.auth)

    def _load_tables(self, recovered: Recovered) -> None:
        self.topics.load()
        tell_static_topics(self.files, self.topics)
        self.groups.load()
        self.offsets.load()
        if self.slave is None:  # a slave gets its master's tables later
            tell_lost_queues(self.offsets, self.store)
            tell_unlisted_topics(self.topics, self.store)
        # Offsets may be ahead of the log, after a clean stop, too: config/ may come from another store, or from a copy
        # that was made after the log's; after a promotion, from a broker whose log went further. A slave's offsets are
        # those of its master, whose log may be ahead of its own.
        if self.slave is None or recovered.may_lack_messages:
            self.offsets.hold_back(self.store.max_offset, self.store.queues.ends.of)
        if self.slave is not None:
            self.slave.load()
        else:
            # A slave leaves deliveries to its master.
            self.delays.load()
            self.delays.hold_back()
            self.transactions.load()
            self.timers.load(clean=recovered.was_clean)
            offsets_path = Path(self.files.directory, self.offsets.file_name)
            self.load_pop(None if recovered.was_clean else _written_ms(offsets_path))
            forget_slave_note(self.files)

    def answer_all(self) -> None:
        """Answers every request that still waits. To be called before ``close``, when the tasks have ended, if
        connections outlive this broker: nobody else knows their requests."""
        self.end_round()
        self.store.flush()
        self.store.dispatch_some()  # requests that wait for the index
        self.end_round()
        self.pending.settle()
        self.pending.give_up("the broker has another role now: it may be done or not")
        self.reads.end()
        self.holds.give_up()
        self.pop_waiting.give_up()
        if self.table_watch is not None:
            self.table_watch.end()
        for client in list(self._lite_clients.values()):
            client.peer.close("it is to say again to which lite topics it subscribes")

    def close(self) -> bool:
        """Saves the tables and closes the store. Returns True if everything is on the device. Idempotent."""
        if not self._is_open:
            return True
        self._is_open = False
        self.pull_plans.forget()
        self.loop.unwatch(self.store.flush_fd)
        if self.slave is None:
            self.transactions.write_op_messages()
        self.end_round()
        self.store.flush()
        self.pending.settle()
        if self.slave is None:
            self.save_pop()
        for connection in self.loop.connections:  # a client that is not told now would send again
            connection.flush()
        # If another broker of the set is the master now, the messages that were put for deliveries may be cut off.
        keeps_progress = self.slave is None and not self.store.flags.refuses_writes and self.store.is_all_kept
        if keeps_progress:
            self.transactions.save()
        self.offsets.save()
        if keeps_progress:
            self.delays.save()
            self._is_all_saved &= self.timers.close()
        self.files.close()
        return self.store.close() and self._is_all_saved

    def _not_saved(self, error: StorageError) -> None:
        self._is_all_saved = False

    # --- the loop calls ----------------------------------------------------------------------------------------------

    def peer_gone(self, peer: Peer) -> None:
        self.clients.peer_gone(peer)
        if self.table_watch is not None:
            self.table_watch.peer_gone(peer)
        self.lite.peer_gone(peer)

    def _grown(self) -> None:
        """Serves waiting slaves: in controller mode they get records before readers see them."""
        if self.replicas.waiting:
            self.replicas.grown()

    def _visible(self, arrivals: list[Arrival]) -> None:
        self.holds.arrived(arrivals)
        if self.replicas.waiting:
            self.replicas.grown()
        if self._lite_clients:
            self.lite.arrived(arrivals)
        for arrival in arrivals:
            if arrival.queue.topic == TIMER_TOPIC:
                self.timers.arrived()
        self._has_news.set()

    def _flush_done(self) -> None:
        self.store.on_flush_done()
        self.pending.settle()

    # --- housekeeping ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs the broker's tasks until cancelled. All run in the loop's thread, between its rounds."""
        gc.freeze()  # including the little garbage of the start: finding it would take 10 ms of the start
        gc.set_threshold(*GC_THRESHOLDS)
        async with trio.open_nursery() as nursery:
            self.reads.start(nursery)
            nursery.start_soon(self.holds.run)
            if self.table_watch is not None:
                nursery.start_soon(self.table_watch.run)
            if self.slave is not None:
                nursery.start_soon(self.slave.run)
            else:  # a slave leaves these to its master
                for duty in (self.delays, self.transactions, self.timers, self.reviver, self.lite):
                    nursery.start_soon(duty.run)
            nursery.start_soon(self.stats.run)
            nursery.start_soon(self._dispatch_behind)
            nursery.start_soon(run_every, lambda: PUT_EXPIRY_EVERY_S, self._expire_puts)
            nursery.start_soon(run_every, lambda: CLIENT_SCAN_EVERY_S, self._scan_clients)
            nursery.start_soon(
                run_every, lambda: self.config.flush_consumer_offset_interval_ms / 1000, self._save_tables
            )
            nursery.start_soon(self._clean_store)

    async def _dispatch_behind(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news = trio.Event()
            await trio.sleep(DISPATCH_EVERY_S)
            while self.store.dispatch_some():
                await trio.lowlevel.checkpoint()

    def _expire_puts(self) -> None:
        config = self.config
        self.pending.expire(time.monotonic(), config.sync_flush_timeout_ms / 1000, config.slave_timeout_ms / 1000)

    def _scan_clients(self) -> None:
        self.locks.expire()
        for peer in self.clients.expired_peers(self.config.channel_expired_timeout_ms):
            peer.close("no heartbeat")

    def _save_tables(self) -> None:
        self.offsets.save()
        self.pop_orders.save()
        self.files.try_again()  # other tables, too: the disk may have room again

    async def _clean_store(self) -> None:
        while True:
            await trio.sleep(self.config.clean_resource_interval_ms / 1000)
            try:
                report = self.store.clean_expired()
                if report.deleted_log_files:
                    if self.set_state is not None:
                        self.set_state.log_begins(self.store.log.min_offset)
                    log.info("event=cleaned log_files=%d", report.deleted_log_files)
                if self.store.has_old_files:
                    await trio.to_thread.run_sync(self.store.look_for_old_files, abandon_on_cancel=True)
                while self.store.clean_some():
                    await trio.lowlevel.checkpoint()
                self.timers.clean_expired()
                self.pull_plans.forget()  # it holds files, of which some may be removed
            except StorageError as error:
                log.error("event=not-cleaned reason=%r", str(error))


def _written_ms(path: Path) -> int:
    """When a file was last written, in ms since 1970; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0
