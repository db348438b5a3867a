"""``startMonitoring``: shows all online groups, the lag of each, and what is wrong with it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ShowAll
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups import running_info
from rmqadmin.core.groups.consumption import ask_clients, read_clients, read_offsets
from rmqadmin.core.results import ResultOf, Row, doc, some_failed
from rmqadmin.core.servers.broker_answers import ask_each
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX, is_system_group

_PREFIX = "[MONITOR] "
_ROUND = "========================================="


class MonitorRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group", key=True)]
    topic: Annotated[str | None, doc("topic name; none if the group has no offsets", key=True)]
    lag_count: Annotated[int, doc("messages not consumed yet", vital=True)]
    lag_count_max: Annotated[int, doc("those of the queue that has the most")]
    behind_ms: Annotated[int | None, doc("between the storing of the last consumed message and of the newest, in ms")]
    problems: Annotated[list[str], doc("different subscriptions; queues without progress", vital=True)]
    error: Annotated[str | None, doc("why something about it is not known", sparse=True)]


class TopicLag(msgspec.Struct, frozen=True):
    """A group's lag in one topic."""

    topic: str
    lag_count: int
    lag_count_max: int
    behind_ms: int


class Monitored(msgspec.Struct, frozen=True):
    """One group. ``clients_differ``: its clients have different subscriptions; ``client_problems`` is by client id."""

    group: str
    lags: list[TopicLag]
    clients_differ: bool = False
    client_problems: dict[str, list[str]] = {}
    error: str | None = None


class MonitorRound(ResultOf[MonitorRow], frozen=True):
    """Every group that is online, one row a topic."""

    groups: list[Monitored]

    def rows(self) -> Sequence[MonitorRow]:
        return [
            MonitorRow(
                group=one.group,
                topic=lag.topic if lag else None,
                lag_count=lag.lag_count if lag else 0,
                lag_count_max=lag.lag_count_max if lag else 0,
                behind_ms=lag.behind_ms if lag else None,
                problems=[
                    *(["clients subscribe to different things"] if one.clients_differ else []),
                    *[line for problems in one.client_problems.values() for line in problems],
                ],
                error=one.error,
            )
            for one in self.groups
            for lag in one.lags or (None,)
        ]

    def mqadmin_text(self) -> str:
        """The text that mqadmin writes to its log."""
        text = f"{_PREFIX}{_ROUND}beginRound\n"
        for one in self.groups:
            for lag in one.lags:
                text += (
                    f"{_PREFIX}reportUndoneMsgs: UndoneMsgs [consumerGroup={one.group}, topic={lag.topic}, "
                    f"undoneMsgsTotal={lag.lag_count}, undoneMsgsSingleMQ={lag.lag_count_max}, "
                    f"undoneMsgsDelayTimeMills={lag.behind_ms}]\n"
                )
            notify = f"{_PREFIX} [NOTIFY] reportConsumerRunningInfo: ConsumerGroup: {one.group}, "
            if one.clients_differ:
                text += f"{notify}Subscription different\n"
            for client_id, problems in one.client_problems.items():
                text += f"{notify}ClientId: {client_id}, {''.join(f'{line}{chr(10)}' for line in problems)}\n"
        return f"{text}{_PREFIX}{_ROUND}endRound\n"

    def problem(self) -> str | None:
        return some_failed([one.error for one in self.groups], "group")


def start_monitoring(call: Call, show_all: ShowAll = False) -> MonitorRound:
    """Runs one round; --watch 60 runs one a minute, as mqadmin does without end. mqadmin writes to a log file and
    nothing to the terminal; --output mqadmin prints what it writes there. Groups without a retry topic are left out.

      rmqadmin startMonitoring
      rmqadmin startMonitoring --watch 60
      rmqadmin -o jsonl startMonitoring
    """
    admin, now_ms = call.admin, call.now_ms()
    groups = sorted({name.removeprefix(RETRY_PREFIX) for name in admin.topic_list() if name.startswith(RETRY_PREFIX)})
    own = call.without_systems_own(groups, is_system_group, "groups", show_all=show_all)
    found = [_monitored(admin, group, now_ms) for group in own]
    return MonitorRound([one for one in found if one is not None])


def _monitored(admin: AdminClient, group: str, now_ms: int) -> Monitored | None:
    """What was found about a group; None if it has no members."""
    try:
        brokers = admin.topic_route(RETRY_PREFIX + group).broker_datas
        clients = read_clients(admin, brokers, group)
        if not clients.connections:
            return None
        lags = _lags(admin, brokers, read_offsets(admin, brokers, group).offsets)
    except RocketMQError as error:
        return Monitored(group, [], error=str(error))
    answers = ask_clients(admin, group, clients, brokers)
    infos = {answer.connection.client_id: answer.info for answer in answers if answer.info is not None}
    problems = {
        client: [problem.mqadmin_text(client) for problem in running_info.queue_problems(infos[client], now_ms)]
        for client in sorted(infos)
    }
    return Monitored(
        group,
        lags,
        bool(infos) and not running_info.have_same_subscription(infos, now_ms),
        {client: lines for client, lines in problems.items() if lines},
        next((answer.error for answer in answers if answer.error is not None), None),
    )


def _lags(
    admin: AdminClient, brokers: Sequence[BrokerData], offsets: Mapping[MessageQueue, ConsumeOffset]
) -> list[TopicLag]:
    addrs = {broker.broker_name: broker.selected_addr() for broker in brokers}
    by_topic: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in offsets:
        by_topic[queue.topic].append(queue)
    lags = []
    for topic in sorted(by_topic):
        queues = by_topic[topic]
        counts = [lag_of(offsets[queue]) for queue in queues]
        behind = ask_each(lambda queue: _behind_ms(admin, addrs.get(queue.broker_name), queue, offsets[queue]), queues)
        lags.append(TopicLag(topic, sum(counts), max(counts), max(0, *behind)))
    return lags


def _behind_ms(admin: AdminClient, addr: str | None, queue: MessageQueue, entry: ConsumeOffset) -> int:
    """How far the group is behind in one queue; 0 if it has consumed nothing yet, or if the newest message cannot be
    read."""
    if addr is None or entry.last_timestamp <= 0 or entry.broker_offset <= 0:
        return 0
    try:
        newest = admin.pull_message(addr, queue, entry.broker_offset - 1, max_count=1).messages
    except RocketMQError:
        return 0
    return newest[0].store_timestamp_ms - entry.last_timestamp if newest else 0
