"""The parts of a broker on a store and a clock of the test's own, without a loop or a listener."""

from __future__ import annotations

from rmqproto.message.message_id import UniqueIds
from rmqserver.broker.clients.clients import Clients
from rmqserver.broker.clients.locks import QueueLocks
from rmqserver.broker.consuming.filters import Filters
from rmqserver.broker.consuming.holds import Holds
from rmqserver.broker.own_address import OwnAddress
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.reads import Reads
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.broker.sending.pending import PendingPuts
from rmqserver.broker.stats.stats import BrokerStats
from rmqserver.broker.tables.consumer_filters import ConsumerFilters
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.offsets import ConsumerOffsets
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.broker.transactions.metrics import TransactionMetrics
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.message_store import MessageStore
from rmqserver.store.sequences.sequence_feed import SequenceFeed
from rmqserver.store.timers.timer_options import TimerPaths
from rmqserver.store.timers.timer_store import TimerStore


def parts_on(store: MessageStore, files: ConfigFiles, settings: str = "") -> BrokerParts:
    """The parts of a broker on an open ``store``. The caller closes ``store`` and ``files``."""
    config, clock_ms = BrokerConfig.from_properties(settings), store.clock_ms
    consumer_filters = ConsumerFilters(clock_ms)
    topics = TopicTable(config, files, clock_ms)
    root = store.directory.root
    timer_store = TimerStore(
        TimerPaths.below(root), config.timer_options(), store.disk, FileCache(store.disk, open_files_max=10)
    )
    stats = BrokerStats(config.broker_cluster_name, clock_ms, topics.system_names)
    replicas = HaMaster(config, store)
    pending = PendingPuts(store, stats, replicas)
    return BrokerParts(
        config=config,
        store=store,
        timer_store=timer_store,
        sequences=SequenceFeed(store),
        files=files,
        topics=topics,
        groups=GroupTable(config, files, clock_ms),
        offsets=ConsumerOffsets(files, clock_ms),
        consumer_filters=consumer_filters,
        filters=Filters(config, consumer_filters),
        clients=Clients(clock_ms),
        locks=QueueLocks(clock_ms),
        stats=stats,
        pending=pending,
        replicas=replicas,
        holds=Holds(store, clock_ms),
        reads=Reads(store, pending.end_round),
        transaction_metrics=TransactionMetrics(files, clock_ms),
        address=OwnAddress(config),
        unique_ids=UniqueIds(),
        clock_ms=clock_ms,
    )
