"""What brokers say of their work: statistics, and the offsets of all groups."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER, LONG, Replicas, ShowAll, TrueFalse
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, TOPIC_WIDTH, cut
from rmqadmin.core.names import is_made_by_brokers
from rmqadmin.core.results import TIME, ResultOf, Row, doc
from rmqadmin.core.servers.broker_state import StatusRow, status_rows
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset, ConsumeStatsList, lag_of
from rmqproto.hosts import split_address
from rmqproto.names import is_system_group
from rmqproto.times import mqadmin_time


class BrokerStatus(ResultOf[StatusRow], frozen=True):
    """What brokers say about their state, key by key."""

    info_by_addr: dict[str, dict[str, str]]
    with_addr: bool

    def rows(self) -> Sequence[StatusRow]:
        return [row for addr, info in self.info_by_addr.items() for row in status_rows(addr, info)]

    def mqadmin_text(self) -> str:
        return "".join(
            f"{f'{addr:24} ' if self.with_addr else ''}{name:32}: {info[name]}\n"
            for addr, info in self.info_by_addr.items()
            for name in sorted(info)
        )


def broker_status(call: Call, where: Replicas) -> BrokerStatus:
    """With -c, shows every master and slave of the cluster.

    rmqadmin brokerStatus -b 127.0.0.1:10911
    rmqadmin brokerStatus -c DefaultCluster --output wide
    rmqadmin -o json brokerStatus -b 127.0.0.1:10911
    """
    addrs = where.addrs(call.admin)
    return BrokerStatus(
        call.answers.of(call.admin.broker_runtime_info, addrs), with_addr=where.cluster_name is not None
    )


TIMEOUT_MS = 50_000
"""mqadmin's time-out: a broker looks up one message for every queue of every group."""


class GroupQueueRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    group: Annotated[str, doc("consumer group", key=True)]
    broker_name: Annotated[str, doc("broker name", wide=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    broker_offset: Annotated[int, doc("queue offset that the next message will get", minor=True)]
    consumer_offset: Annotated[int, doc("queue offset that the group has committed", minor=True)]
    lag_count: Annotated[int, doc("messages between the two", vital=True)]
    last_consumed_ms: Annotated[int | None, TIME, doc("when the last consumed message was stored")]


class BrokerLag(Row, frozen=True):
    lag_count: Annotated[int, doc("lag of all groups, of queues that are not shown too")]


class _Stand(msgspec.Struct, frozen=True):
    """A group's offsets in one queue."""

    group: str
    queue: MessageQueue
    offsets: ConsumeOffset

    @property
    def lag_count(self) -> int:
        return lag_of(self.offsets)

    @property
    def diff_count(self) -> int:
        """mqadmin's lag, which is negative if the group is past the queue's end."""
        return self.offsets.broker_offset - self.offsets.consumer_offset

    @property
    def is_systems(self) -> bool:
        """Whether the row belongs to the system. A retry topic with a lag does not: its group's lag must be seen."""
        return is_system_group(self.group) or (is_made_by_brokers(self.queue.topic) and self.lag_count <= 0)


class BrokerConsumeStats(ResultOf[GroupQueueRow], frozen=True):
    """Where groups stand on one broker, one row a group and queue."""

    found: list[_Stand]
    lag_count: int
    total_diff: int

    def rows(self) -> Sequence[GroupQueueRow]:
        return [
            GroupQueueRow(
                topic=stand.queue.topic,
                group=stand.group,
                broker_name=stand.queue.broker_name,
                queue_id=stand.queue.queue_id,
                broker_offset=stand.offsets.broker_offset,
                consumer_offset=stand.offsets.consumer_offset,
                lag_count=stand.lag_count,
                last_consumed_ms=stand.offsets.last_timestamp or None,
            )
            for stand in self.found
        ]

    def summary(self) -> BrokerLag:
        return BrokerLag(lag_count=self.lag_count)

    def mqadmin_text(self) -> str:
        """mqadmin's text, without the queues of which a group has consumed nothing yet."""
        heads = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
        text = _line(*heads)
        for row, stand in zip(self.rows(), self.found, strict=True):
            if row.last_consumed_ms is not None:
                text += _line(
                    cut(row.topic, TOPIC_WIDTH), row.group, cut(row.broker_name, BROKER_NAME_WIDTH), row.queue_id,
                    row.broker_offset, row.consumer_offset, stand.diff_count,
                    mqadmin_time(row.last_consumed_ms, milliseconds=False),
                )  # fmt: skip
        return f"{text}\nDiff Total: {self.total_diff}\n"


def _stands(stats_list: ConsumeStatsList) -> list[_Stand]:
    """The groups and topics in the broker's order."""
    return [
        _Stand(group, queue, stats.offset_table[queue])
        for by_group in stats_list.consume_stats_list
        for group, of_topics in by_group.items()
        for stats in of_topics
        for queue in sorted(stats.offset_table)
    ]


def _line(*cells: object) -> str:
    return "{:64}  {:64}  {:32}  {:4}  {:20}  {:20}  {:20}  {}\n".format(*map(str, cells))


def broker_consume_stats(
    call: Call,
    broker_addr: Annotated[str, A_BROKER, Value.BROKER_ADDR, option("-b", "--brokerAddr", "The broker's address.")],
    timeout_ms: Annotated[
        int | None,
        option("-t", "--timeoutMillis", f"Longest wait. [default: --timeout, or {TIMEOUT_MS}]", metavar="MS", min=1),
    ] = None,
    level: Annotated[int, LONG, option("-l", "--level", "Only queues with this much lag.", metavar="COUNT")] = 0,
    order: Annotated[TrueFalse, option("-o", "--order", "Ordered topics only.")] = TrueFalse.FALSE,
    show_all: ShowAll = False,
) -> BrokerConsumeStats:
    """One row a group and queue. mqadmin leaves out queues that a group has not consumed from.

    rmqadmin brokerConsumeStats -b 127.0.0.1:10911
    rmqadmin brokerConsumeStats -b 127.0.0.1:10911 -l 1 --watch
    """
    split_address(broker_addr)
    ordered = order is TrueFalse.TRUE
    said = call.settings.setting("timeout_s")
    timeout_s = said.value if said.level != "default" and timeout_ms is None else (timeout_ms or TIMEOUT_MS) / 1000
    stats = call.admin.broker_consume_stats(broker_addr, ordered=ordered, timeout_s=timeout_s)
    stands = _stands(stats)
    found = [stand for stand in stands if stand.diff_count >= level]
    own = call.without_systems_own(found, lambda stand: stand.is_systems, "rows", show_all=show_all)
    return BrokerConsumeStats(own, sum(stand.lag_count for stand in stands), stats.total_diff)
