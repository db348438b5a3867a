"""The parts that the broker's operations share, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqproto.message.message_id import UniqueIds
    from rmqserver.broker.clients.clients import Clients
    from rmqserver.broker.clients.locks import QueueLocks
    from rmqserver.broker.consuming.filters import Filters
    from rmqserver.broker.consuming.holds import Holds
    from rmqserver.broker.own_address import OwnAddress
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
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.sequences.sequence_feed import SequenceFeed
    from rmqserver.store.timers.timer_store import TimerStore


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """Made once, by the broker. Each operation takes the parts it needs when it is made."""

    config: BrokerConfig
    store: MessageStore
    timer_store: TimerStore
    sequences: SequenceFeed
    files: ConfigFiles
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    consumer_filters: ConsumerFilters
    filters: Filters
    clients: Clients
    locks: QueueLocks
    stats: BrokerStats
    pending: PendingPuts
    replicas: HaMaster
    holds: Holds
    reads: Reads
    transaction_metrics: TransactionMetrics
    address: OwnAddress
    unique_ids: UniqueIds
    clock_ms: Callable[[], int]
