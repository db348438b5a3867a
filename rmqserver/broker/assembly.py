"""Puts the broker together: every part is made here, once, and given what it uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.message.message_id import UniqueIds
from rmqserver.broker.admin.broker_admin import BrokerAdmin, MasterAdmin, TimerAdmin
from rmqserver.broker.admin.message_query import MessageQuery
from rmqserver.broker.admin.offset_admin import ConsumeStatsAdmin, OffsetAdmin
from rmqserver.broker.admin.runtime_info import RuntimeInfo
from rmqserver.broker.admin.topics_and_groups import GroupAdmin, TopicAdmin
from rmqserver.broker.clients.client_admin import ClientAdmin
from rmqserver.broker.clients.clients import Clients
from rmqserver.broker.clients.membership import MemberNotices, Membership, QueueLocks
from rmqserver.broker.consuming.filters import Filters
from rmqserver.broker.consuming.holds import Holds
from rmqserver.broker.consuming.lite_pops import LitePops
from rmqserver.broker.consuming.lite_subscriptions import LiteSubscriptions, Ready
from rmqserver.broker.consuming.lite_topics import Lite, LiteInfos
from rmqserver.broker.consuming.offset_requests import CommittedOffsets, QueueEnds, ResetOffset
from rmqserver.broker.consuming.pop.acks import Acks
from rmqserver.broker.consuming.pop.assignment import AskRoute, Assigning
from rmqserver.broker.consuming.pop.looks import Looks
from rmqserver.broker.consuming.pop.orders import Orders
from rmqserver.broker.consuming.pop.pop_checks import PopChecks
from rmqserver.broker.consuming.pop.pop_request import Pops
from rmqserver.broker.consuming.pop.popping import Popping
from rmqserver.broker.consuming.pop.revive import Reviver
from rmqserver.broker.consuming.pop.revive_log import ReviveLog
from rmqserver.broker.consuming.pop.waiting import Post, Waiting
from rmqserver.broker.consuming.pull import Pulls
from rmqserver.broker.consuming.pull_plans import PullPlans
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.own_address import OwnAddress
from rmqserver.broker.reads import Reads
from rmqserver.broker.relays.delay import Delays
from rmqserver.broker.relays.timers import Timers
from rmqserver.broker.sending.pending import PendingPuts
from rmqserver.broker.sending.put import Put
from rmqserver.broker.sending.recall import Recalls
from rmqserver.broker.sending.repeats import Repeats
from rmqserver.broker.sending.reply import Replies
from rmqserver.broker.sending.rewrites import Rewrites, TimerSlots
from rmqserver.broker.sending.send import Sends
from rmqserver.broker.sending.send_back import SendBacks
from rmqserver.broker.sending.targets import Targets, at_once
from rmqserver.broker.stats import BrokerStats
from rmqserver.broker.tables.consumer_filters import ConsumerFilters
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topic_counts import TransactionMetrics
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.broker.transactions.end_transaction import EndTransactions
from rmqserver.broker.transactions.half_messages import OpMessages
from rmqserver.broker.transactions.state import TransactionState
from rmqserver.broker.transactions.transactions import Transactions
from rmqserver.system import boot_ms, steady_clock

if TYPE_CHECKING:
    from rmqserver.broker.registration import Registration
    from rmqserver.broker.replicas.ha_master import HaMaster
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.sequences.sequence_feed import SequenceFeed
    from rmqserver.store.timers.timer_store import TimerStore


class BrokerAssembly:
    """The parts of a broker on a store, whatever its role. None of them runs by itself: see ``Broker``."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, timer_store: TimerStore, sequences: SequenceFeed,
        files: ConfigFiles, replicas: HaMaster, wake: Callable[[], None], post: Post,
        nameservers: Registration | None = None,
    ):  # fmt: skip
        """``wake`` makes a round of the loop end soon, with ``end_round``; ``post`` has something called in the next
        one; ``nameservers`` is told of every change of a topic."""
        self.config = config
        self.store = store
        self.timer_store = timer_store
        self.sequences = sequences
        self.files = files
        self.replicas = replicas
        self.clock_ms = store.clock_ms
        self.on_settings_changed: list[Callable[[], None]] = []
        """Called when a request has changed settings."""
        self.address = OwnAddress(config)
        self.unique_ids = UniqueIds()
        self._when_told = nameservers.when_told if nameservers is not None else at_once
        self.ask_route: AskRoute = lambda topic, on_route: on_route(None)
        if nameservers is not None:
            self.ask_route = nameservers.ask_route
        self._make_tables()
        self._make_senders()
        self._make_relays()
        self._make_readers()
        self._make_pop(wake, post)
        self._make_admin()
        if nameservers is not None:
            self.topics.on_change.append(nameservers.changed)
        self.topics.on_change.append(lambda put_names: self.sends.settings_changed())
        if isinstance(replicas, SetMaster):
            replicas.on_need = self.sends.settings_changed

    # --- what is made, from below -------------------------------------------------------------------------------------

    def _make_tables(self) -> None:
        config, files, clock_ms = self.config, self.files, self.clock_ms
        self.topics = TopicTable(config, files, clock_ms)
        self.groups = GroupTable(config, files, clock_ms)
        self.offsets = ConsumerOffsets(files, clock_ms, has_light_queues=config.has_light_queues)
        self.consumer_filters = ConsumerFilters(clock_ms)
        self.transaction_metrics = TransactionMetrics(files, clock_ms)
        self.stats = BrokerStats(config.broker_cluster_name, clock_ms, self.topics.system_names)
        self.clients = Clients(steady_clock(), MemberNotices(config, self.groups, self.consumer_filters).tell)
        self.locks = QueueLocks(boot_ms)
        self.membership = Membership(config, self.topics, self.groups, self.clients, self.consumer_filters)

    def _make_senders(self) -> None:
        """Makes what stands between a message and its acknowledgement."""
        config, store, topics, stats, address = self.config, self.store, self.topics, self.stats, self.address
        self.pending = PendingPuts(store, stats, self.replicas)
        self.replicas.on_report = self.pending.settle
        slots = TimerSlots(config, self.timer_store, self.clock_ms)
        self.rewrites = Rewrites(config, topics, self.groups, self.locks, address, self.unique_ids, slots)
        self.put = put = Put(store, stats, self.pending, self.transaction_metrics, self.rewrites)
        targets = Targets(config, topics, stats, self.clock_ms, self._when_told)
        self.sends = Sends(
            config, store, stats, address, put, targets, Repeats(config, store, self.sequences), self.unique_ids,
            self.transaction_metrics, slots,
        )  # fmt: skip
        self.send_backs = SendBacks(config, store, topics, self.groups, stats, address, put)
        self.replies = Replies(config, targets, self.clients, stats, address, put, self.clock_ms)
        self.recalls = Recalls(config, topics, address, self.clock_ms, put)

    def _make_relays(self) -> None:
        """Makes what puts messages into their queues later."""
        config, store, topics, metrics = self.config, self.store, self.topics, self.transaction_metrics
        self.delays = Delays(config, store, self.files, self.put)
        self.timers = Timers(config, store, self.timer_store, topics, self.files, self.put)
        state = TransactionState(store, topics, self.offsets, OpMessages(config, self.clock_ms, self.put))
        self.transactions = Transactions(config, store, topics, self.clients, self.pending, metrics, self.put, state)
        self.transaction_ends = EndTransactions(config, store, metrics, self.put, state)

    def _make_readers(self) -> None:
        config, store, topics, groups, offsets = self.config, self.store, self.topics, self.groups, self.offsets
        self.holds = Holds(store, steady_clock())
        self.reads = Reads(store, self.end_round)
        self.filters = Filters(config, self.consumer_filters)
        self.pulls = Pulls(
            config, store, topics, groups, offsets, self.clients, self.stats, self.address, self.holds, self.reads,
            self.filters,
        )  # fmt: skip
        self.pull_plans = PullPlans(config, store, offsets, self.stats)
        for table in (topics, groups):
            table.on_change.append(self.pull_plans.table_changed)
        self.clients.on_subscribed = offsets.on_reset = self.pull_plans.forget
        self.committed_offsets = CommittedOffsets(store, topics, groups, offsets)
        self.queue_ends = QueueEnds(store)
        self.reset_offset = ResetOffset(config, store, topics, groups, offsets, self.clients)

    def _make_pop(self, wake: Callable[[], None], post: Post) -> None:
        config, store, topics, groups, offsets = self.config, self.store, self.topics, self.groups, self.offsets
        stats, reads, address = self.stats, self.reads, self.address
        waiting = self.pop_waiting = Waiting(config, topics, self.holds, self.clock_ms, wake, post)
        # Lite topics, whose orders are kept in memory.
        lite_orders, ready = Orders(self.files, topics, groups, self.clock_ms), Ready(store, offsets, self.holds)
        subscriptions = LiteSubscriptions(config, store, groups, offsets, lite_orders, ready)
        checks = PopChecks(config, topics, groups, address, self.filters, self.clock_ms)
        self.lite_pops = LitePops(store, offsets, stats, reads, checks, subscriptions, ready, lite_orders, waiting)
        self.lite_infos = LiteInfos(config, store, topics, groups, offsets, subscriptions, lite_orders, ready)
        self.lite = Lite(config, store, topics, offsets, ready, subscriptions)
        # All other topics.
        revive_log = ReviveLog(config, store, topics)
        orders = self.pop_orders = Orders(self.files, topics, groups, self.clock_ms)
        self.reviver = Reviver(config, store, topics, groups, offsets, self.put, revive_log)
        self.popping = Popping(config, store, topics, groups, offsets, stats, orders, revive_log)
        self.pops = Pops(stats, self.clients, reads, self.pending, address, checks, self.popping, waiting)
        self.looks = Looks(config, store, reads, checks, self.popping, orders, waiting)
        self.acks = Acks(store, offsets, stats, address, checks, orders, revive_log, waiting, self.lite_pops)
        self.assigning = Assigning(config, self.files, topics, groups, self.clients, self.ask_route)

    def _make_admin(self) -> None:
        """Makes what tools ask for."""
        config, store, topics, groups, offsets = self.config, self.store, self.topics, self.groups, self.offsets
        clients, stats, counts = self.clients, self.stats, self.timers.counts
        runtime = RuntimeInfo(
            config, store, self.timer_store, self.replicas, stats, self.delays, counts, self.following_problem
        )
        self.broker_admin = BrokerAdmin(config, topics, store, stats, runtime, self.settings_changed)
        self.topic_admin = TopicAdmin(config, store, topics, offsets, stats, self._when_told)
        self.group_admin = GroupAdmin(config, groups, offsets, stats)
        self.offset_admin = OffsetAdmin(store, topics, offsets, clients, self.address, self.delays)
        self.client_admin = ClientAdmin(config, store, topics, groups, clients)
        self.timer_admin = TimerAdmin(config, self.timer_store, self.clock_ms, counts)
        self.master_admin = MasterAdmin(config, self.replicas, self.address)
        self.message_query = MessageQuery(config, store, topics, clients, self.consumer_filters)
        self.consume_stats = ConsumeStatsAdmin(config, store, topics, groups, offsets, clients, stats, self.address)

    # --- what concerns them together ---------------------------------------------------------------------------------

    def end_round(self) -> None:
        pending, appended = self.pending, self.store.round
        if not appended.is_empty or pending.when_written or pending.when_safe:
            pending.end_round()
        else:
            appended.store_timestamp_ms = 0  # what began the round was refused
        while self.pop_waiting.woken:  # by what the round wrote; what they take is written in turn
            self.pop_waiting.go_on()
            pending.end_round()

    def load_pop(self, offsets_saved_ms: int | None) -> None:
        """To be called after the tables of topics, groups and offsets are loaded. ``offsets_saved_ms``: after a crash,
        when the offsets were last saved. Raises StorageError if a file is not ours."""
        self.pop_orders.load()
        self.assigning.load()
        self.reviver.load(offsets_saved_ms)

    def save_pop(self) -> None:
        """To be called at the end, after the store is flushed and before the offsets are saved."""
        self.reviver.commit()
        self.pop_orders.save()

    def settings_changed(self, keys: set[str]) -> None:
        """Applies settings that a request has changed (25 UPDATE_BROKER_CONFIG); ``keys`` are their names."""
        self.store.use_options(self.config.store_options())
        self.pull_plans.forget()
        self.sends.settings_changed()
        if isinstance(self.replicas, SetMaster):
            self.replicas.set_changed()
        for told in self.on_settings_changed:
            told()
        if "brokerPermission" in keys:
            self.topics.changed()  # it bounds every topic's permission, and nameservers take only a newer table

    def following_problem(self) -> str:
        """Why a slave cannot follow its master; empty if it can, or is none."""
        return ""
