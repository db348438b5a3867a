"""Prometheus' text format, version 0.0.4, and a broker's metrics in it: those of RocketMQ 5 that follow from what it
counts anyway, under their names and labels (``BrokerMetricsConstant``, ``DefaultStoreMetricsConstant``,
``ConsumerLagCalculator``, 5.5.0).

Nothing is counted for metrics: everything is read on request. Two things differ from Apache's broker. Offline groups
also have a lag: no one else reports theirs. And there is no ``message_type``, because nothing counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from rmqproto.bodies.groups import CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP
from rmqproto.codes import version_name
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, TIMER_TOPIC, is_system_group, retry_topic
from rmqproto.pop import normal_topic
from rmqserver.broker.clients.clients import Client, Clients
from rmqserver.broker.stats import BrokerStats, Flow, store_time_ms
from rmqserver.broker.tables.consumer_offsets import SEPARATOR, ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.cached_reads import one_by_one
from rmqserver.store.message_store import MessageStore
from rmqserver.store.timers.timer_store import TimerStore

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

COUNTER, GAUGE = "counter", "gauge"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class LabelledValue(NamedTuple):
    labels: Mapping[str, str]
    value: float


class Family(NamedTuple):
    """``samples`` may be a generator: samples of many groups are computed piece by piece."""

    name: str
    kind: str
    help: str
    samples: Iterable[LabelledValue]


def render(families: Iterable[Family], labels: Mapping[str, str]) -> Iterator[str]:
    """Yields line by line, each with its end. ``labels`` are common to all samples and precede each sample's own."""
    common = _pairs(labels)
    for family in families:
        yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
        for sample in family.samples:
            pairs = ",".join(filter(None, (common, _pairs(sample.labels))))
            yield f"{family.name}{{{pairs}}} {sample.value!r}\n"


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


_STORAGE = {"storage_type": "local", "storage_medium": "disk"}
_CONSUME_MODES = {CONSUME_ACTIVELY: "pull", CONSUME_PASSIVELY: "push", CONSUME_POP: "pop"}


class _Progress(NamedTuple):
    """How far a group has come in a topic. The times are store times, 0 if nothing is left."""

    group: str
    topic: str
    lag_count: int
    inflight_count: int
    ready_count: int
    first_unconsumed_ms: int
    first_unpulled_ms: int


class StoreReads(NamedTuple):
    """What is read from the store for a page. ``kept_since_ms``: store time of the oldest message."""

    kept_since_ms: int | None
    progress: list[_Progress]


class BrokerFamilies:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable,
        offsets: ConsumerOffsets, clients: Clients, stats: BrokerStats, timers: TimerStore,
    ):  # fmt: skip
        self._config = config
        self._groups = groups
        self._clock_ms = store.clock_ms
        self._clients = clients
        self._offsets = offsets
        self._stats = stats
        self._store = store
        self._timers = timers
        self._topics = topics

    def labels(self) -> dict[str, str]:
        """The labels of every sample."""
        config = self._config
        return {"node_type": "broker", "cluster": config.broker_cluster_name, "node_id": config.broker_name}

    def read(self) -> Callable[[], StoreReads]:
        """A function for ``read_in_task``."""
        progress = one_by_one(lambda place: self._progress_in(*place), list(self._consumed()))
        return lambda: StoreReads(self._store.store_time(self._store.log.min_offset), progress())

    def families(self, store_size_bytes: int, found: StoreReads) -> Iterator[Family]:
        """``store_size_bytes`` is the size of all files of the store. Adding them up may take a while, so the caller
        does it in a thread."""
        yield _gauge("rocketmq_broker_permission", "Broker permission", self._config.broker_permission)
        yield _gauge("rocketmq_topic_number", "Topics", len(self._topics.all()))
        yield _gauge("rocketmq_consumer_group_number", "Subscription groups", len(self._groups.all()))
        yield from self._flows()
        yield from self._storage(store_size_bytes, found.kept_since_ms)
        yield from self._connections()
        yield from self._lags(found.progress)

    # --- the store ---------------------------------------------------------------------------------------------------

    def _storage(self, store_size_bytes: int, kept_since_ms: int | None) -> Iterator[Family]:
        store, timers, now_ms = self._store, self._timers, self._clock_ms()
        facts = {
            "rocketmq_storage_size": ("Size of the files of the store, in bytes", store_size_bytes),
            "rocketmq_storage_flush_behind_bytes": (
                "Bytes that are written and not synced", store.written_offset - store.flushed_offset
            ),
            "rocketmq_storage_dispatch_behind_bytes": (
                "Bytes that the index does not cover yet", store.dispatch_behind_bytes
            ),
            "rocketmq_storage_message_reserve_time": (
                "Age of the oldest message, in ms", 0 if kept_since_ms is None else now_ms - kept_since_ms
            ),
            "rocketmq_timer_enqueue_lag": (
                "Timer messages not taken in yet", max(store.max_offset(TIMER_TOPIC, 0) - timers.queue_offset, 0)
            ),
            "rocketmq_timer_dequeue_latency": (
                "How late timer messages are delivered, in ms; up to a second if in time", timers.late_ms(now_ms)
            ),
            "rocketmq_timer_dequeue_lag": ("Timer messages that wait for their time", timers.waiting_count),
        }  # fmt: skip
        for name, (help, value) in facts.items():
            yield Family(name, GAUGE, help, [LabelledValue(_STORAGE, value)])
        is_taking = not store.flags.refuses_writes
        yield _gauge("rmqserver_store_writeable", "1 if messages are taken, 0 if they are refused", is_taking)

    # --- messages in and out -----------------------------------------------------------------------------------------

    def _flows(self) -> Iterator[Family]:
        def puts(count: Callable[[Flow], int]) -> Iterator[LabelledValue]:
            for topic, flow in list(self._stats.puts.items()):
                yield LabelledValue({"topic": topic, "is_system": _text(self._topics.is_system(topic))}, count(flow))

        def gets(count: Callable[[Flow], int]) -> Iterator[LabelledValue]:
            for (topic, group), flow in list(self._stats.gets.items()):
                yield LabelledValue(self._of_group(group, topic), count(flow))

        in_help, out_help = "Messages stored", "Messages given to consumers"
        yield Family("rocketmq_messages_in_total", COUNTER, in_help, puts(lambda flow: flow.message_count))
        yield Family("rocketmq_messages_out_total", COUNTER, out_help, gets(lambda flow: flow.message_count))
        yield Family(
            "rocketmq_throughput_in_total", COUNTER, f"{in_help}, in bytes", puts(lambda flow: flow.size_bytes)
        )
        yield Family(
            "rocketmq_throughput_out_total", COUNTER, f"{out_help}, in bytes", gets(lambda flow: flow.size_bytes)
        )
        yield Family("rocketmq_send_to_dlq_messages_total", COUNTER, "Messages that became dead letters", self._dead())

    def _dead(self) -> Iterator[LabelledValue]:
        for topic, flow in list(self._stats.puts.items()):
            if topic.startswith(DLQ_PREFIX):
                group = topic.removeprefix(DLQ_PREFIX)
                labels = {"consumer_group": group, "is_system": _text(is_system_group(group))}
                yield LabelledValue(labels, flow.message_count)

    # --- clients -----------------------------------------------------------------------------------------------------

    def _connections(self) -> Iterator[Family]:
        clients = self._clients
        producers = Counter(_software(client) for group in clients.producers.values() for client in group.values())
        yield Family(
            "rocketmq_producer_connections",
            GAUGE,
            "Producer connections",
            [LabelledValue(_software_labels(software), count) for software, count in producers.items()],
        )
        yield Family("rocketmq_consumer_connections", GAUGE, "Consumer connections", self._consumer_connections())

    def _consumer_connections(self) -> Iterator[LabelledValue]:
        for group in list(self._clients.consumers.values()):
            labels = {
                "consumer_group": group.group,
                "consume_mode": _CONSUME_MODES[group.consume_type],
                "is_system": _text(is_system_group(group.group)),
            }
            for software, count in Counter(map(_software, group.members.values())).items():
                yield LabelledValue({**_software_labels(software), **labels}, count)

    # --- how far consumers are behind --------------------------------------------------------------------------------

    def _lags(self, progress: list[_Progress]) -> Iterator[Family]:
        now_ms = self._clock_ms()

        def age_ms(stored_ms: int) -> int:
            return max(0, now_ms - stored_ms) if stored_ms else 0

        kinds: dict[str, tuple[str, Callable[[_Progress], int]]] = {
            "rocketmq_consumer_lag_messages": ("Messages not consumed yet", lambda at: at.lag_count),
            "rocketmq_consumer_lag_latency": (
                "Age of the first message that is not consumed, in ms", lambda at: age_ms(at.first_unconsumed_ms)
            ),
            "rocketmq_consumer_inflight_messages": (
                "Messages that consumers have and did not commit", lambda at: at.inflight_count
            ),
            "rocketmq_consumer_queueing_latency": (
                "Age of the first message that no consumer has, in ms", lambda at: age_ms(at.first_unpulled_ms)
            ),
            "rocketmq_consumer_ready_messages": ("Messages that no consumer has", lambda at: at.ready_count),
        }  # fmt: skip
        for name, (help, value) in kinds.items():
            yield Family(name, GAUGE, help, self._lag_samples(progress, value))

    def _lag_samples(self, progress: Iterable[_Progress], value: Callable[[_Progress], int]) -> Iterator[LabelledValue]:
        for each in progress:
            yield LabelledValue(self._of_group(each.group, each.topic), value(each))

    def _consumed(self) -> Iterator[tuple[str, str]]:
        """Groups, each with a topic that it consumes."""
        by_group: dict[str, set[str]] = {}
        for group in self._groups.all():
            by_group[group] = set()
        for key in self._offsets.committed_table:  # all groups at once, or each would cost a walk
            topic, _, group = key.partition(SEPARATOR)
            by_group.setdefault(group, set()).add(topic)
        for group, topics in by_group.items():
            online = self._clients.consumers.get(group)
            if online is not None and online.subscriptions:
                popped = {topic for topic in topics if normal_topic(topic, group) in online.subscriptions}
                topics = popped | set(online.subscriptions)
            for topic in sorted(topics):
                if self._topics.get(topic) is not None and topic != retry_topic(group):
                    yield group, topic

    def _progress_in(self, group: str, topic: str) -> _Progress:
        config = self._topics.get(topic)
        offsets, store = self._offsets, self._store
        lag = inflight = ready = 0
        unconsumed_ms, unpulled_ms = [], []
        for queue_id in range(config.write_queue_nums if config is not None else 0):
            end = store.max_offset(topic, queue_id)
            committed = offsets.committed(group, topic, queue_id)
            start = end if committed is None or committed < 0 else max(committed, store.min_offset(topic, queue_id))
            pulled = max(start, offsets.pull_offset(group, topic, queue_id) or 0)
            lag += max(0, end - start)
            inflight += max(0, pulled - start)
            ready += max(0, end - pulled)
            if start < end:
                unconsumed_ms.append(store_time_ms(store, topic, queue_id, start))
            if pulled < end:
                unpulled_ms.append(store_time_ms(store, topic, queue_id, pulled))
        return _Progress(group, topic, lag, inflight, ready, _earliest(unconsumed_ms), _earliest(unpulled_ms))

    # --- labels ------------------------------------------------------------------------------------------------------

    def _of_group(self, group: str, topic: str) -> dict[str, str]:
        """Labels for a group and a topic. A pop retry topic is reported as its original topic."""
        plain = normal_topic(topic, group)
        is_retry = topic.startswith(RETRY_PREFIX)
        is_system = self._topics.is_system(plain) or is_system_group(group)
        return {
            "consumer_group": group,
            "topic": plain,
            "is_retry": _text(is_retry),
            "is_system": _text(is_system),
        }


def _gauge(name: str, help: str, value: int) -> Family:
    return Family(name, GAUGE, help, [LabelledValue({}, int(value))])


def _text(is_so: bool) -> str:
    return "true" if is_so else "false"


def _earliest(times_ms: list[int]) -> int:
    return min((time_ms for time_ms in times_ms if time_ms > 0), default=0)


def _software(client: Client) -> tuple[str, str]:
    return client.language.lower(), version_name(client.version).lower()


def _software_labels(software: tuple[str, str]) -> dict[str, str]:
    language, version = software
    return {"language": language, "version": version, "protocol_type": "remoting"}
