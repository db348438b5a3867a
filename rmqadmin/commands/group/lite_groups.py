"""Lite topics of clients and groups: subscriptions, lag, and offering them again."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change
from rmqadmin.cli.options.command_options import A_BROKER_NAME, Group, ParentTopic
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core.changes import Changes, Step
from rmqadmin.core.mqadmin_text import time_or
from rmqadmin.core.results import TIME, R, Row, doc
from rmqadmin.core.servers.broker_answers import BrokerRows, ask_brokers
from rmqadmin.core.topics.routes import broker_addr_of
from rmqproto.bodies.lite import LiteClientInfo, LiteGroupInfo, LiteLag

_CLIENT_LINE = "{:<30} {:<20} {:<30} {:<30} \n"
_UNKNOWN = "N/A"


class LiteClientRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    lite_topic_count: Annotated[int | None, doc("lite topics that it has subscribed to; none if it is unknown")] = None
    last_access_ms: Annotated[int | None, TIME, doc("when it last spoke of its subscription")] = None
    last_consume_ms: Annotated[int | None, TIME, doc("when it last got messages")] = None
    light_queues: Annotated[list[str] | None, doc("the light queues of its lite topics, at most 1000", wide=True)] = (
        None
    )
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class LiteClientInfos(BrokerRows[LiteClientRow], frozen=True):
    """A client's lite topics, one row a broker."""

    title: str
    show_detail: bool

    def mqadmin_text(self) -> str:
        head = _CLIENT_LINE.format("#Broker", "#LiteTopicCount", "#LastAccessTime", "#LastConsumeTime")
        return f"Lite Client Info: {self.title}\n{head}{self.mqadmin_lines()}"

    def line(self, name: str, info: LiteClientInfo) -> str:
        count = info.lite_topic_count if info.lite_topic_count > 0 else _UNKNOWN
        times = (time_or(_UNKNOWN, info.last_access_time), time_or(_UNKNOWN, info.last_consume_time))
        line = _CLIENT_LINE.format(name, count, *times)
        if not self.show_detail or info.lite_topic_set is None:
            return line
        return f"{line}Lite Topics: [{', '.join(sorted(info.lite_topic_set))}]\n\n"

    def row(self, name: str, info: LiteClientInfo) -> LiteClientRow:
        return LiteClientRow(
            broker_name=name,
            lite_topic_count=info.lite_topic_count if info.lite_topic_count >= 0 else None,
            last_access_ms=_known(info.last_access_time),
            last_consume_ms=_known(info.last_consume_time),
            light_queues=info.lite_topic_set,
        )


def _known(time_ms: int) -> int | None:
    return time_ms if time_ms > 0 else None


def get_lite_client_info(
    call: Call,
    parent_topic: ParentTopic,
    group: Group,
    client_id: Annotated[str, Value.CLIENT, option("-c", "--clientId", "Id of the client.")],
    show_detail: Annotated[bool, option("-s", "--showDetail", "For --output mqadmin: name the light queues.")] = False,
) -> LiteClientInfos:
    """One row a broker of the parent topic. --output wide names the light queues.

    rmqadmin getLiteClientInfo -p SessionTopic -g SessionGroup -c 192.168.0.7@1
    rmqadmin getLiteClientInfo -p SessionTopic -g SessionGroup -c 192.168.0.7@1 --output wide
    """
    brokers = call.admin.topic_route(parent_topic).broker_datas
    found = ask_brokers(brokers, lambda addr: call.admin.lite_client_info(addr, parent_topic, group, client_id))
    return LiteClientInfos(found, f"[{parent_topic}] [{group}] [{client_id}]", show_detail)


TOP_COUNT_DEFAULT = 20
_OFFSETS_LINE = "{:<50} {:<16} {:<16} {:<16} {:<30}\n"
_LAG_LINE = "{:<6} {:<40} {:<12} {:<30}\n"


class LiteLagTotals(Row, frozen=True):
    lag_count: Annotated[int, doc("messages not consumed, in all lite topics together")]
    earliest_unconsumed_ms: Annotated[int | None, TIME, doc("when the oldest of them was stored; unknown if none")]


class _LiteGroup(BrokerRows[R], frozen=True):
    """What both answers have: the brokers' own, totals, and mqadmin's first and middle lines."""

    title: str
    now_ms: int

    def summary(self) -> LiteLagTotals:
        infos = self.bodies().values()
        times_ms = [info.earliest_unconsumed_timestamp for info in infos if info.earliest_unconsumed_timestamp > 0]
        return LiteLagTotals(
            lag_count=sum(max(info.total_lag_count, 0) for info in infos),
            earliest_unconsumed_ms=min(times_ms, default=None),
        )

    def mqadmin_head(self) -> str:
        return f"Lite Group Info: {self.title}\n"

    def mqadmin_totals(self) -> str:
        """mqadmin's totals. If no message waits, mqadmin shows the current time as the earliest."""
        total = self.summary()
        first_ms = min(total.earliest_unconsumed_ms or self.now_ms, self.now_ms)
        ago_s = (self.now_ms - first_ms) // 1000
        return f"Total Lag Count: {total.lag_count}\nMin Unconsumed Timestamp: {first_ms} ({ago_s} s ago)\n\n"


class LiteOffsetRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_offset: Annotated[int | None, doc("queue offset that the next message will get")] = None
    consumer_offset: Annotated[int | None, doc("queue offset of the first message not consumed")] = None
    lag_count: Annotated[int | None, doc("messages not consumed", vital=True)] = None
    last_consumed_ms: Annotated[int | None, TIME, doc("when the last consumed message was stored")] = None
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class LiteOffsets(_LiteGroup[LiteOffsetRow], frozen=True):
    """With -l: the group's offsets in one lite topic, one row a broker."""

    def mqadmin_text(self) -> str:
        heads = ("#Broker Name", "#BrokerOffset", "#ConsumeOffset", "#LagCount", "#LastUpdate")
        return self.mqadmin_head() + _OFFSETS_LINE.format(*heads) + self.mqadmin_lines() + self.mqadmin_totals()

    def row(self, name: str, info: LiteGroupInfo) -> LiteOffsetRow:
        offsets = info.lite_topic_offset_wrapper
        if offsets is None:
            return LiteOffsetRow(broker_name=name)
        return LiteOffsetRow(
            broker_name=name,
            broker_offset=offsets.broker_offset,
            consumer_offset=offsets.consumer_offset,
            lag_count=offsets.broker_offset - offsets.consumer_offset,
            last_consumed_ms=offsets.last_timestamp or None,
        )

    def line(self, name: str, info: LiteGroupInfo) -> str:
        row = self.row(name, info)
        cells = (row.broker_offset, row.consumer_offset, row.lag_count)
        texts = ("-" if cell is None else cell for cell in cells)
        return _OFFSETS_LINE.format(name, *texts, time_or("-", row.last_consumed_ms))


class LiteLagRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    lite_topic: Annotated[str, doc("name of the lite topic", key=True)]
    lag_count: Annotated[int, doc("messages not consumed", vital=True)]
    earliest_unconsumed_ms: Annotated[int | None, TIME, doc("when the oldest of them was stored")]


class LiteLags(_LiteGroup[LiteLagRow], frozen=True):
    """Without -l: the lite topics where the group is furthest behind, in messages or in time."""

    def rows(self) -> Sequence[LiteLagRow]:
        lags = {
            (name, lag.lite_topic): lag
            for name, info in self.bodies().items()
            for lag in (*(info.lag_count_top_k or ()), *(info.lag_timestamp_top_k or ()))
        }
        rows = [
            LiteLagRow(
                broker_name=broker_name,
                lite_topic=lite_topic,
                lag_count=lag.lag_count,
                earliest_unconsumed_ms=lag.earliest_unconsumed_timestamp
                if lag.earliest_unconsumed_timestamp > 0
                else None,
            )
            for (broker_name, lite_topic), lag in lags.items()
        ]
        return sorted(rows, key=lambda row: -row.lag_count)

    def line(self, name: str, info: LiteGroupInfo) -> str:
        return ""  # the lines below are not of one broker each

    def mqadmin_text(self) -> str:
        infos = self.bodies().values()
        by_count = [lag for info in infos for lag in info.lag_count_top_k or ()]
        by_time = [lag for info in infos for lag in info.lag_timestamp_top_k or ()]
        by_count.sort(key=lambda lag: -lag.lag_count)
        by_time.sort(key=lambda lag: lag.earliest_unconsumed_timestamp)
        totals = self.mqadmin_head() + self.mqadmin_lines() + self.mqadmin_totals()
        return (
            f"{totals}------TopK by lag count-----\n{_lag_lines(by_count)}"
            f"\n------TopK by lag time------\n{_lag_lines(by_time)}"
        )


def _lag_lines(lags: list[LiteLag]) -> str:
    lines = [
        _LAG_LINE.format(number, lag.lite_topic, lag.lag_count, time_or("-", lag.earliest_unconsumed_timestamp))
        for number, lag in enumerate(lags, 1)
    ]
    return _LAG_LINE.format("NO", "Lite Topic", "Lag Count", "UnconsumedTimestamp") + "".join(lines)


def get_lite_group_info(
    call: Call,
    parent_topic: ParentTopic,
    group: Group,
    lite_topic: Annotated[
        str | None, Value.NAME, option("-l", "--liteTopic", "The offsets in this lite topic.")
    ] = None,
    top_k: Annotated[int, option("-k", "--topK", "How many lite topics of each broker.", min=1)] = TOP_COUNT_DEFAULT,
) -> LiteOffsets | LiteLags:
    """Without -l, shows the lite topics where the group is furthest behind; there are none if it is not behind.

    rmqadmin getLiteGroupInfo -p SessionTopic -g SessionGroup
    rmqadmin getLiteGroupInfo -p SessionTopic -g SessionGroup -l session-1
    rmqadmin getLiteGroupInfo -p SessionTopic -g SessionGroup --watch 5 --until 'lag_count == 0'
    """
    lite = lite_topic.strip() if lite_topic is not None else None
    brokers = call.admin.topic_route(parent_topic).broker_datas
    found = ask_brokers(brokers, lambda addr: call.admin.lite_group_info(addr, group, lite, top_count=top_k))
    title = f"[{group}] [{parent_topic}]"
    return LiteOffsets(found, title, call.now_ms()) if lite else LiteLags(found, title, call.now_ms())


_DISPATCH_LINE = "{:<30} {:<12}\n"


def trigger_lite_dispatch(
    call: Call,
    parent_topic: ParentTopic,
    group: Group,
    client_id: Annotated[
        str | None, Value.CLIENT, option("-c", "--clientId", "Offer them to this client only.")
    ] = None,
    broker_name: Annotated[
        str | None, A_BROKER_NAME, Value.BROKER_NAME, option("-b", "--brokerName", "Ask this broker only.")
    ] = None,
) -> Changes:
    """Helps a group that waits although it is behind. Consumes nothing and moves no offset.

    rmqadmin triggerLiteDispatch -p SessionTopic -g SessionGroup
    rmqadmin triggerLiteDispatch -p SessionTopic -g SessionGroup -c 192.168.0.7@1 -b broker-a
    """
    route = call.admin.topic_route(parent_topic)
    names = [broker.broker_name for broker in route.broker_datas if broker.selected_addr()]
    if broker_name is not None:
        broker_addr_of(route, broker_name)  # an unknown name is an error that lists the brokers
        names = [broker_name]
    addrs = {broker_addr_of(route, name): name for name in names}
    act = call.admin.trigger_lite_dispatch

    def text(done: list[str]) -> str:
        lines = (_DISPATCH_LINE.format(addrs[addr], "dispatched" if addr in done else "error") for addr in addrs)
        return f"Group And Topic Info: [{group}] [{parent_topic}]\n\n" + "".join(lines)

    return change(call, [Step(addr, "dispatch", [], partial(act, addr, group, client_id)) for addr in addrs], text)
