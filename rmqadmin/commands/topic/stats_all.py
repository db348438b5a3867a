"""``statsAll``: shows how fast every topic is written and read, and the lag of its groups."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ShowAll, TopicOnly
from rmqadmin.cli.options.common_options import option
from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import read_offsets
from rmqadmin.core.mqadmin_text import TOPIC_WIDTH, cut
from rmqadmin.core.results import FoundRows, Row, doc, some_failed
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.exports import GROUP_GET, TOPIC_PUT, day_count, read_stats
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import RocketMQError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX


class StatsRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    group: Annotated[str | None, doc("consumer group; none if nobody consumes", key=True)] = None
    lag_count: Annotated[
        int | None, doc("messages that the group has to consume; unknown if it has no offset", vital=True)
    ] = None
    in_tps: Annotated[float | None, doc("messages stored a second, over the last minute")] = None
    out_tps: Annotated[float | None, doc("messages handed to the group a second, over the last minute")] = None
    in_day: Annotated[
        int | None, doc("messages stored in the last 24 hours, or since the broker counts", minor=True)
    ] = None
    out_day: Annotated[int | None, doc("messages handed to the group in that time", minor=True)] = None
    error: Annotated[str | None, doc("why some of it is not known, and null", sparse=True)] = None


class AllStats(FoundRows[StatsRow], frozen=True):
    """Rates and lag, one row a topic and group."""

    def mqadmin_text(self) -> str:
        heads = ("#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
        text = _line("#Topic", "#Consumer Group", "#Accumulation", *heads)
        for row in self.found:
            topic, rate = cut(row.topic, TOPIC_WIDTH), f"{row.in_tps or 0:.2f}"
            in_day = row.in_day or 0
            if row.group is None:
                text += _line(row.topic, "", 0, rate, "", in_day, "NO_CONSUMER")
            else:
                lag, out_rate = max(0, row.lag_count or 0), f"{row.out_tps or 0:.2f}"
                text += _line(topic, cut(row.group, TOPIC_WIDTH), lag, rate, out_rate, in_day, row.out_day or 0)
        return text

    def problem(self) -> str | None:
        return some_failed([row.error for row in self.found], "row")


def _line(topic: str, group: str, *cells: object) -> str:
    lag, in_tps, out_tps, in_day, out_day = cells
    return f"{topic:64}  {group:64} {lag!s:>12} {in_tps!s:>11} {out_tps!s:>11} {in_day!s:>14} {out_day!s:>14}\n"


def stats_all(
    call: Call,
    active_topic: Annotated[
        bool, option("-a", "--activeTopic", "Only topics with messages in the last 24 hours.")
    ] = False,
    topic: TopicOnly = None,
    show_all: ShowAll = False,
) -> AllStats:
    """Leaves out retry topics and dead-letter queues, and on a terminal system topics too. If a broker fails, the
    topic's row says why; mqadmin leaves the topic out.

      rmqadmin statsAll
      rmqadmin statsAll -t OrderTopic --watch 5
      rmqadmin statsAll -a
    """
    topics = [
        name
        for name in sorted(call.admin.topic_list())
        if not name.startswith((RETRY_PREFIX, DLQ_PREFIX)) and topic in (None, name)
    ]
    if topic is None:
        topics = call.own_topics(topics, show_all=show_all)
    elif not topics:
        call.admin.topic_route(topic)  # raises the error for a missing topic
    with call.counting("topics") as told:
        parts = ask_each(lambda name: _topic_rows(call, name), topics, told)
    rows = [row for part in parts for row in part]
    return AllStats([row for row in rows if not active_topic or row.error or row.in_day or row.out_day])


def _topic_rows(call: Call, topic: str) -> list[StatsRow]:
    try:
        route = targets.find_route(call.admin, topic)
    except RocketMQError as failure:
        return [StatsRow(topic=topic, error=str(failure))]
    brokers = route.broker_datas if route is not None else []
    in_tps, in_day, error = _counts(call, brokers, TOPIC_PUT, topic)
    row = StatsRow(topic=topic, in_tps=in_tps, in_day=in_day, error=error)
    try:
        groups = _groups(call, brokers, topic)
    except RocketMQError as failure:
        return [msgspec.structs.replace(row, error=error or str(failure))]
    return [_group_row(call, brokers, row, group) for group in sorted(groups)] or [row]


def _groups(call: Call, brokers: Sequence[BrokerData], topic: str) -> list[str]:
    """The topic's groups, from the first broker that answers."""
    failure: RocketMQError | None = None
    for addr in targets.selected_addrs(brokers):
        try:
            return call.answers.ask(addr, lambda addr: call.admin.groups_of_topic(addr, topic))
        except RocketMQError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return []


def _group_row(call: Call, brokers: Sequence[BrokerData], row: StatsRow, group: str) -> StatsRow:
    """The topic's row, with what the group has got and left."""
    out_tps, out_day, error = _counts(call, brokers, GROUP_GET, f"{row.topic}@{group}")
    lag_count = None
    if error is None:
        try:
            lag_count = read_offsets(call.admin, brokers, group, row.topic).lag_count
        except RocketMQError as failure:
            error = str(failure)
    return msgspec.structs.replace(
        row, group=group, lag_count=lag_count, out_tps=out_tps, out_day=out_day, error=error or row.error
    )


def _counts(
    call: Call, brokers: Sequence[BrokerData], stats_name: str, stats_key: str
) -> tuple[float | None, int | None, str | None]:
    """The rate of the last minute and the count of a day, summed over all brokers. If one does not answer: None, and
    the error."""
    found = []
    for master_addr in [broker.master_addr for broker in brokers if broker.master_addr]:
        try:
            stats = call.answers.ask(master_addr, lambda addr: read_stats(call.admin, addr, stats_name, stats_key))
        except RocketMQError as error:
            return None, None, str(error)
        if stats is not None:
            found.append(stats)
    return round(sum(stats.stats_minute.tps for stats in found), 2), sum(map(day_count, found)), None
