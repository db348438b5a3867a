"""The broker put together: its parts, its dispatch table, the end of each round, and the tasks that keep house."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from pathlib import Path

import trio

from rmqproto.errors import StorageError
from rmqproto.record import host_text
from rmqserver.broker.acks import Acks
from rmqserver.broker.broker_admin import BrokerAdmin
from rmqserver.broker.client_admin import ClientAdmin
from rmqserver.broker.clients import Clients
from rmqserver.broker.consume_stats import ConsumeStatsAdmin
from rmqserver.broker.delay import Delays
from rmqserver.broker.group_admin import GroupAdmin
from rmqserver.broker.groups import GroupTable
from rmqserver.broker.hold import Holds
from rmqserver.broker.locks import QueueLocks
from rmqserver.broker.membership import Membership
from rmqserver.broker.message_query import MessageQuery
from rmqserver.broker.offset_admin import OffsetAdmin
from rmqserver.broker.offset_handlers import OffsetHandlers
from rmqserver.broker.offsets import ConsumerOffsets
from rmqserver.broker.pull import Pulls
from rmqserver.broker.reset_offset import ResetOffset
from rmqserver.broker.runtime_info import RuntimeInfo
from rmqserver.broker.send import Sends
from rmqserver.broker.send_back import SendBacks
from rmqserver.broker.stats import BrokerStats
from rmqserver.broker.topic_admin import TopicAdmin
from rmqserver.broker.topics import TopicTable
from rmqserver.config import BrokerConfig
from rmqserver.connection import Connection
from rmqserver.dispatch import Handler, Service
from rmqserver.loop import Loop
from rmqserver.store.config_files import ConfigFiles
from rmqserver.store.message_store import MessageStore, now_ms
from rmqserver.store.results import Arrival

log = logging.getLogger(__name__)

CLIENT_SCAN_EVERY_S = 10.0
ACK_SWEEP_EVERY_S = 0.5
DISPATCH_EVERY_S = 0.02
"""Work that the store puts behind is done when the loop has nothing better to do; a busy store does it by itself."""

GC_THRESHOLDS = (100_000, 50, 50)
"""What a round allocates dies with it by counting references; looking for cycles all the time costs 6 to 9 %."""


class Broker(Service):
    """Make it with its settings, ``open`` it, ``run`` it as a task beside the loop, ``close`` it."""

    def __init__(self, config: BrokerConfig, loop: Loop, clock_ms: Callable[[], int] = now_ms):
        self.config = config
        self.loop = loop
        self.clock_ms = clock_ms
        root = config.store_path_root_dir
        self.store = MessageStore(root, config.store_options(), clock_ms=clock_ms)
        self.files = ConfigFiles(str(Path(root, "config")), self.store.disk, self._not_saved)
        self.topics = TopicTable(config, self.files, clock_ms)
        self.groups = GroupTable(config, self.files, clock_ms)
        self.offsets = ConsumerOffsets(self.files, clock_ms)
        self.clients = Clients(clock_ms)
        self.stats = BrokerStats(config.broker_cluster_name, clock_ms, self.topics.system_names)
        self.locks = QueueLocks(clock_ms)
        self.holds = Holds(self.store, clock_ms)
        self.acks = Acks(self.store, self.stats)
        self.delays = Delays(config, self.store, self.files, self.stats)
        self.sends = Sends(config, self.store, self.topics, self.groups, self.locks, self.stats, self.acks)
        self.send_backs = SendBacks(config, self.store, self.topics, self.groups, self.stats, self.acks)
        self.pulls = Pulls(
            config, self.store, self.topics, self.groups, self.offsets, self.clients, self.holds, self.stats
        )
        self._has_news = trio.Event()
        """Messages became visible since the store's work behind was last looked at; each is replaced when it is set."""
        self.store.on_visible = self._visible
        self.topics.on_change.append(self.sends.settings_changed)
        self.when_told: Callable[[Callable[[], None]], None] = _at_once
        """Calls back when the nameservers know of the topics as they are now."""
        self._is_open = False
        self._is_all_saved = True
        super().__init__("broker", self._table())

    def _table(self) -> dict[int, Handler]:
        """Every request code that the broker serves."""
        config, store, topics, groups = self.config, self.store, self.topics, self.groups
        offsets, clients, stats, clock_ms = self.offsets, self.clients, self.stats, self.clock_ms
        runtime = RuntimeInfo(config, store, stats, self.delays, clock_ms)
        parts = (
            self.sends,
            self.pulls,
            self.send_backs,
            self.locks,
            Membership(config, topics, groups, clients),
            OffsetHandlers(store, topics, groups, offsets),
            TopicAdmin(config, topics, offsets, store, stats, self._when_told),
            GroupAdmin(config, groups, offsets, stats),
            ClientAdmin(config, topics, groups, clients, store),
            OffsetAdmin(topics, offsets, clients, self.delays, store, self.address_of),
            ConsumeStatsAdmin(
                config.broker_name, topics, groups, offsets, clients, store, stats, self.address_of, clock_ms
            ),
            ResetOffset(config, topics, groups, offsets, clients, store),
            MessageQuery(config, clients, store),
            BrokerAdmin(config, topics, store, stats, runtime, self.settings_changed),
        )
        table: dict[int, Handler] = {}
        for part in parts:
            table.update(part.handlers())
        return table

    # --- life --------------------------------------------------------------------------------------------------------

    def open(self, advertised_host: bytes | None = None) -> None:
        """Opens the store and loads the tables. ``advertised_host`` is what records say of us; None: the address on
        which each message came. StorageError if the store cannot be used; nothing stays open then."""
        self.sends.advertised_host = self.send_backs.advertised_host = advertised_host
        recovered = self.store.open()
        try:
            self.topics.load()
            self.groups.load()
            self.offsets.load()
            if not recovered.was_clean:
                self.offsets.hold_back(self.store.max_offset)
            self.delays.load()
        except BaseException:
            self.store.close()
            raise
        self._is_open = True
        self._has_news.set()  # recovery leaves work behind, too
        self.loop.watch(self.store.flush_fd, self._flush_done)

    def close(self) -> bool:
        """Saves the tables and closes the store; True if everything is on the device. Idempotent."""
        if not self._is_open:
            return True
        self._is_open = False
        self.loop.unwatch(self.store.flush_fd)
        self.end_round()
        self.store.flush()
        self.acks.flushed()
        for connection in self.loop.connections:  # who is not told now would send again
            connection.flush()
        self.offsets.save()
        if self.store.is_writeable:
            self.delays.save()
        self.files.close()
        return self.store.close() and self._is_all_saved

    def _not_saved(self, error: StorageError) -> None:
        self._is_all_saved = False

    def address_of(self, connection: Connection) -> str:
        """What the broker calls itself to a peer."""
        advertised_host = self.sends.advertised_host
        return connection.local_addr if advertised_host is None else host_text(advertised_host)

    def _when_told(self, callback: Callable[[], None]) -> None:
        self.when_told(callback)

    def settings_changed(self, keys: set[str]) -> None:
        """Settings have other values than before (25 UPDATE_BROKER_CONFIG)."""
        self.store.use_options(self.config.store_options())
        self.sends.settings_changed()
        if "brokerPermission" in keys:
            self.topics.changed()  # it bounds that of every topic: the nameservers take only a newer table

    # --- the loop calls ----------------------------------------------------------------------------------------------

    def end_round(self) -> None:
        self.acks.end_round()

    def idle(self) -> None:
        self.store.index_few()

    def connection_closed(self, connection: Connection) -> None:
        self.clients.connection_closed(connection)

    def _visible(self, arrivals: list[Arrival]) -> None:
        self.holds.arrived(arrivals)
        self._has_news.set()

    def _flush_done(self) -> None:
        self.store.on_flush_done()
        self.acks.flushed()

    # --- housekeeping ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """The broker's tasks, until cancelled. All run in the loop's thread, between its rounds."""
        gc.freeze()  # with what little garbage the start left: to look for it would take 10 ms of that
        gc.set_threshold(*GC_THRESHOLDS)
        async with trio.open_nursery() as nursery:
            self.pulls.start(nursery)
            nursery.start_soon(self.holds.run)
            nursery.start_soon(self.delays.run)
            nursery.start_soon(self.stats.run)
            nursery.start_soon(self._dispatch_behind)
            nursery.start_soon(self._sweep_acks)
            nursery.start_soon(self._scan_clients)
            nursery.start_soon(self._save_offsets)
            nursery.start_soon(self._clean_store)

    async def _dispatch_behind(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news = trio.Event()
            await trio.sleep(DISPATCH_EVERY_S)
            while self.store.dispatch_some():
                await trio.lowlevel.checkpoint()

    async def _sweep_acks(self) -> None:
        while True:
            await trio.sleep(ACK_SWEEP_EVERY_S)
            self.acks.expire(time.monotonic())

    async def _scan_clients(self) -> None:
        while True:
            await trio.sleep(CLIENT_SCAN_EVERY_S)
            self.locks.expire()
            for connection in self.clients.expired_connections(self.config.channel_expired_timeout_ms):
                connection.close("no heartbeat")

    async def _save_offsets(self) -> None:
        while True:
            await trio.sleep(self.config.flush_consumer_offset_interval_ms / 1000)
            self.offsets.save()

    async def _clean_store(self) -> None:
        while True:
            await trio.sleep(self.config.clean_resource_interval_ms / 1000)
            try:
                report = self.store.clean_expired()
            except StorageError as error:
                log.error("event=not-cleaned reason=%r", str(error))
                continue
            if report.deleted_log_files:
                log.info("event=cleaned log_files=%d", report.deleted_log_files)


def _at_once(callback: Callable[[], None]) -> None:
    callback()
