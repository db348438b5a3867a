"""``statsAll``: how fast every topic is written and read, and how far its groups are behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import typer

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import read_offsets
from rmqadmin.core.mqadmin_text import TOPIC_WIDTH, cut, hash_order
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.broker_counts import GROUP_GET, TOPIC_PUT, day_count, read_stats
from rmqadmin.options.command_options import ShowAll, TopicOnly
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import RocketMQError
from rmqproto.java.java_hash import java_hash
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class StatsRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    group: Annotated[str | None, doc("consumer group; none if nobody consumes", key=True)]
    lag_count: Annotated[int | None, doc("messages that the group has to consume", vital=True)]
    in_tps: Annotated[float, doc("messages stored a second, over the last minute")]
    out_tps: Annotated[float | None, doc("messages handed to the group a second, over the last minute")]
    in_day: Annotated[int, doc("messages stored in the last 24 hours, or since the broker counts", minor=True)]
    out_day: Annotated[int | None, doc("messages handed to the group in that time", minor=True)]
    error: Annotated[str | None, doc("why some of it is not known", sparse=True)]


class AllStats(Result, frozen=True):
    """Rates and lag, one row a topic and group."""

    row_type: ClassVar[type[Row]] = StatsRow
    found: list[StatsRow]

    def rows(self) -> Sequence[StatsRow]:
        return self.found

    def mqadmin_text(self) -> str:
        heads = ("#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
        text = _line("#Topic", "#Consumer Group", "#Accumulation", *heads)
        for row in self.found:
            topic, rate = cut(row.topic, TOPIC_WIDTH), f"{row.in_tps:.2f}"
            if row.group is None:
                text += _line(row.topic, "", 0, rate, "", row.in_day, "NO_CONSUMER")
            else:
                lag, out_rate = max(0, row.lag_count or 0), f"{row.out_tps or 0:.2f}"
                text += _line(topic, cut(row.group, TOPIC_WIDTH), lag, rate, out_rate, row.in_day, row.out_day or 0)
        return text

    def problem(self) -> str | None:
        failed = [row for row in self.found if row.error is not None]
        return f"{len(failed)} of {counted(len(self.found), 'row')}: {failed[0].error}" if failed else None


def _line(topic: str, group: str, *cells: object) -> str:
    lag, in_tps, out_tps, in_day, out_day = cells
    return f"{topic:64}  {group:64} {lag!s:>12} {in_tps!s:>11} {out_tps!s:>11} {in_day!s:>14} {out_day!s:>14}\n"


def stats_all(
    call: Call,
    active_topic: Annotated[
        bool, typer.Option("-a", "--activeTopic", help="Only topics with messages in the last 24 hours.")
    ] = False,
    topic: TopicOnly = None,
    show_all: ShowAll = False,
) -> AllStats:
    """Retry topics and dead-letter queues are left out, on a terminal system topics as well. mqadmin leaves a topic out
    if a broker fails; here its row says why.

    Examples:
      rmqadmin statsAll
      rmqadmin statsAll -t OrderTopic --watch 5
      rmqadmin statsAll -a
    """
    wanted = topic.strip() if topic is not None else None
    topics = [
        name
        for name in hash_order(call.admin.topic_list(), java_hash)
        if not name.startswith((RETRY_PREFIX, DLQ_PREFIX)) and wanted in (None, name)
    ]
    if wanted is None:
        topics = call.own_topics(topics if call.as_mqadmin else sorted(topics), show_all=show_all)
    elif not topics:
        call.admin.topic_route(wanted)  # says that there is none
    with call.counting("topics") as told:
        parts = targets.ask_each(lambda name: _topic_rows(call.admin, name), topics, told)
    rows = [row for part in parts for row in part]
    return AllStats([row for row in rows if not active_topic or row.in_day > 0 or (row.out_day or 0) > 0])


class _Counts(msgspec.Struct, frozen=True):
    """One statistic of all brokers together."""

    tps: float
    day_count: int


def _topic_rows(admin: AdminClient, topic: str) -> list[StatsRow]:
    try:
        route = targets.find_route(admin, topic)
        brokers = route.broker_datas if route is not None else []
        put = _counts(admin, brokers, TOPIC_PUT, topic)
        first = targets.selected_addrs(brokers)[:1]
        groups = admin.groups_of_topic(first[0], topic) if first else []
        return [_group_row(admin, brokers, topic, group, put) for group in hash_order(groups, java_hash)] or [
            _row(topic, put)
        ]
    except RocketMQError as error:
        return [_row(topic, _Counts(0.0, 0), error=str(error))]


def _group_row(admin: AdminClient, brokers: Sequence[BrokerData], topic: str, group: str, put: _Counts) -> StatsRow:
    try:
        got = _counts(admin, brokers, GROUP_GET, f"{topic}@{group}")
        lag_count = read_offsets(admin, brokers, group, topic).lag_count
    except RocketMQError as error:
        return _row(topic, put, group=group, error=str(error))
    return _row(topic, put, group=group, lag_count=lag_count, got=got)


def _row(
    topic: str,
    put: _Counts,
    *,
    group: str | None = None,
    lag_count: int | None = None,
    got: _Counts | None = None,
    error: str | None = None,
) -> StatsRow:
    return StatsRow(
        topic=topic,
        group=group,
        lag_count=lag_count,
        in_tps=put.tps,
        out_tps=got.tps if got else None,
        in_day=put.day_count,
        out_day=got.day_count if got else None,
        error=error,
    )


def _counts(admin: AdminClient, brokers: Sequence[BrokerData], stats_name: str, stats_key: str) -> _Counts:
    found = [
        stats
        for broker in brokers
        if 0 in broker.broker_addrs and (stats := read_stats(admin, broker.broker_addrs[0], stats_name, stats_key))
    ]
    return _Counts(round(sum(stats.stats_minute.tps for stats in found), 2), sum(day_count(stats) for stats in found))
