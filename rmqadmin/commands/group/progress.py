"""How far groups have consumed: all of them, with clients and lag, and one queue by queue."""

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ShowAll, TrueFalse
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import (
    GroupClients,
    GroupOffsets,
    answering,
    ask_clients,
    brokers_of_group,
    lacking,
    read_clients,
    read_logical_offsets,
    read_offsets,
    require_offsets,
)
from rmqadmin.core.groups.lag import UnreadLags, UnreadQueueLag
from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, TOPIC_WIDTH, cut
from rmqadmin.core.results import TIME, ResultColumn, ResultOf, Row, doc, some_failed
from rmqadmin.core.servers.broker_answers import Answers, ask_each
from rmqadmin.core.topics.stored_queues import UnreadQueue, read_again, unread_text
from rmqadmin.core.units import at_least, count
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import CONSUME_ACTIVELY, CONSUME_PASSIVELY
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.codes import version_name
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX, is_system_group, retry_topic
from rmqproto.queue_mapping import MappingError

_TYPES = {CONSUME_PASSIVELY: "PUSH", CONSUME_ACTIVELY: "PULL"}


class GroupFindings(msgspec.Struct, frozen=True):
    """What was found about one group. ``is_group`` is false for the leftovers of POP, whose retry topics look like
    those of a group; mqadmin goes by ``has_retry_topic``. ``error``: why something is unknown. With ``is_part``, the
    error concerns only some of the group's brokers, and the rest is known."""

    group: str
    offsets: GroupOffsets
    clients: GroupClients
    is_group: bool
    has_retry_topic: bool
    error: str | None = None
    is_part: bool = False


_MIN = {"wide": True, "sparse": True}
"""Tables show these columns in place of unknown values."""


class GroupRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group", key=True)]
    client_count: Annotated[int | None, doc("clients that are online; unknown, as the lag, where error says why")]
    version: Annotated[str | None, doc("lowest version of its clients; unknown if none is online", minor=True)]
    type: Annotated[str | None, doc("PUSH or PULL", minor=True)]
    model: Annotated[str | None, doc("CLUSTERING or BROADCASTING", minor=True)]
    consume_tps: Annotated[float | None, doc("messages consumed a second")]
    lag_count: Annotated[
        int | None,
        doc("messages not consumed yet, retry topics included; unknown if the group has no offset", vital=True),
    ]
    error: Annotated[str | None, doc("why something about it is not known", sparse=True)]
    client_count_min: Annotated[int | None, doc("clients of the brokers that answer, where some do not", **_MIN)]
    lag_count_min: Annotated[int | None, doc("lag on the brokers that answer, where some do not", **_MIN)]

    def shown(self, column: ResultColumn) -> Any:
        if column.name == "client_count" and self.client_count_min is not None:
            return at_least(count(self.client_count_min))
        if column.name == "lag_count" and self.lag_count_min is not None:
            return at_least(count(self.lag_count_min))
        return super().shown(column)


class GroupsProgress(ResultOf[GroupRow], frozen=True):
    """Without -g: one row a group."""

    states: list[GroupFindings]

    def rows(self) -> Sequence[GroupRow]:
        return [_group_row(state) for state in sorted(self.states, key=lambda state: state.group) if state.is_group]

    def mqadmin_text(self) -> str:
        text = f"{'#Group':64}  {'#Count':6}  {'#Version':24} {'#Type':5}  {'#Model':14}  {'#TPS':7}  #Diff Total\n"
        for state in self.states:
            if not state.has_retry_topic:
                continue
            if state.is_part:
                # mqadmin gives up at the first broker that does not answer
                state = msgspec.structs.replace(state, offsets=_NOTHING, clients=_NOBODY, is_part=False)
            row, offsets = _group_row(state), state.offsets
            model = row.model if row.type == "PUSH" else ""
            text += (
                f"{cut(row.group, TOPIC_WIDTH):64}  {state.clients.count:<6}  {row.version or 'OFFLINE':24} "
                f"{row.type or '':5}  {model or '':14}  {int(offsets.consume_tps):<7}  {offsets.diff_count}\n"
            )
        return text

    def problem(self) -> str | None:
        """Groups about which nothing is known. Brokers that did not answer are reported for the whole command."""
        return some_failed([None if state.is_part else state.error for state in self.states], "group")


_NOTHING, _NOBODY = GroupOffsets({}, 0.0), GroupClients({}, {}, {}, None, None, None)


def _group_row(state: GroupFindings) -> GroupRow:
    version, is_known = state.clients.version, state.error is None
    return GroupRow(
        group=state.group,
        client_count=state.clients.count if is_known else None,
        version=None if version is None else version_name(version),
        type=_TYPES.get(state.clients.consume_type or ""),
        model=state.clients.message_model,
        consume_tps=round(state.offsets.consume_tps, 2) if is_known else None,
        lag_count=state.offsets.lag_count if is_known else None,
        error=state.error,
        client_count_min=state.clients.count if state.is_part else None,
        lag_count_min=state.offsets.lag_count if state.is_part else None,
    )


def _configured(call: Call, broker_addr: str) -> set[str] | None:
    """The groups that a broker has a configuration for. If it does not answer: None, and a notice."""
    try:
        return set(call.answers.ask(broker_addr, call.admin.all_groups).subscription_group_table)
    except RocketMQError as error:
        call.notice(f"{error}; groups that only this broker knows are missing")
        return None


def all_groups(call: Call, *, show_all: bool, text: str = "") -> list[GroupFindings]:
    """Every group that has a retry topic, then those that only have a configuration; only those
    with ``text`` in their names."""
    admin = call.admin
    topics = sorted(admin.topic_list())
    with_retry = [topic[len(RETRY_PREFIX) :] for topic in topics if topic.startswith(RETRY_PREFIX)]
    brokers = targets.all_brokers(admin.cluster_info())
    tables = ask_each(lambda addr: _configured(call, addr), targets.selected_addrs(brokers))
    configured = {group for table in tables if table is not None for group in table}
    others = sorted(group for group in configured - set(with_retry) if not is_system_group(group))
    call.remember("group", [*with_retry, *others])
    groups = [group for group in (with_retry if call.as_mqadmin else [*with_retry, *others]) if text in group]

    unread = None if call.as_mqadmin else UnreadLags(admin, len(groups))

    def ask(group: str) -> GroupFindings:
        is_group, has_retry_topic = group in configured or None in tables, group in with_retry
        answers = Answers(call.answers)
        try:
            route = targets.find_route(admin, retry_topic(group)) if has_retry_topic else None
            where = route.broker_datas if route else brokers
            offsets = read_offsets(admin, where, group, answers=answers)
            clients = read_clients(admin, where, group, answers)
            if unread is not None:
                found = unread.read(group, answering(where, answers))
                offsets.offsets.update({one.queue: one.entry for one in found})
        except RocketMQError as error:
            return GroupFindings(group, _NOTHING, _NOBODY, is_group, has_retry_topic, str(error))
        silent = "; ".join(f"{name}: {error}" for name, error in lacking(where, answers).items())
        return GroupFindings(group, offsets, clients, is_group, has_retry_topic, silent or None, bool(silent))

    if not groups:
        call.notice_if_no_broker()
    wanted = call.without_systems_own(groups, is_system_group, "groups", show_all=show_all)
    with call.counting("groups") as told:
        found = ask_each(ask, wanted, told)
    if unread is not None and unread.problem is not None:
        call.notice(unread.problem)
    return found


def group_ls(
    call: Call,
    text: Annotated[str | None, argument("Only groups with this in their names.", metavar="[TEXT]")] = None,
    show_all: ShowAll = False,
) -> GroupsProgress:
    """Groups that nobody reads with are there, too, with what they have not consumed.

    rmqadmin group ls
    rmqadmin group ls Order --output name
    """
    return GroupsProgress(all_groups(call, show_all=show_all, text="" if text is None else text.strip()))


class ProgressRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    broker_offset: Annotated[int, doc("queue offset that the next message will get", minor=True)]
    consumer_offset: Annotated[int, doc("queue offset that the group has committed", minor=True)]
    lag_count: Annotated[int, doc("messages between the two", vital=True)]
    unread: Annotated[
        bool | None, doc("true: consumers do not read it, the topic has fewer read queues", sparse=True, vital=True)
    ]
    inflight_count: Annotated[int, doc("messages pulled and not committed", minor=True)]
    client_id: Annotated[str | None, doc("client that owns the queue; with -s true", sparse=True)]
    last_consumed_ms: Annotated[int | None, TIME, doc("when the last consumed message was stored")]


class ProgressTotals(Row, frozen=True):
    consume_tps: Annotated[float, doc("messages consumed a second")]
    lag_count: Annotated[int | None, doc("lag of all queues, retry topics included")]
    unread_count: Annotated[int | None, doc("what of it is in queues that consumers do not read", sparse=True)]
    inflight_count: Annotated[int, doc("messages pulled and not committed")]


class GroupProgress(ResultOf[ProgressRow], frozen=True):
    """With -g: one row a queue."""

    found: GroupOffsets
    owners: dict[MessageQueue, str]
    shows_clients: bool
    unread: Sequence[UnreadQueueLag] = ()
    """Queues of ``found`` that consumers do not read."""

    def rows(self) -> Sequence[ProgressRow]:
        unread = {one.queue for one in self.unread}
        return [
            ProgressRow(
                topic=queue.topic,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                broker_offset=entry.broker_offset,
                consumer_offset=entry.consumer_offset,
                lag_count=lag_of(entry),
                unread=queue in unread or None,
                inflight_count=entry.pull_offset - entry.consumer_offset,
                client_id=self.owners.get(queue),
                last_consumed_ms=entry.last_timestamp or None,
            )
            for queue, entry in self.found.offsets.items()
        ]

    def summary(self) -> ProgressTotals:
        return ProgressTotals(
            consume_tps=round(self.found.consume_tps, 2),
            lag_count=self.found.lag_count,
            unread_count=sum(lag_of(one.entry) for one in self.unread) or None,
            inflight_count=self.found.inflight_count,
        )

    def remark(self) -> str | None:
        if not self.unread:
            return None
        queues = [
            UnreadQueue(one.queue, one.broker_addr, one.entry.consumer_offset, one.entry.broker_offset)
            for one in self.unread
        ]
        by_topic = groupby(queues, lambda one: one.queue.topic)
        again = "; ".join(read_again(topic, list(of_topic)) for topic, of_topic in by_topic)
        return f"{unread_text(queues)}; to let them be read: {again}"

    def mqadmin_text(self) -> str:
        client_head = f"{'#Client IP':20} " if self.shows_clients else ""
        text = (
            f"{'#Topic':64}  {'#Broker Name':32}  {'#QID':4}  {'#Broker Offset':20}  {'#Consumer Offset':20}  "
            f"{client_head}{'#Diff':20} {'#Inflight':20}#LastTime\n"
        )
        text += "".join(self._mqadmin_line(queue, entry) for queue, entry in self.found.offsets.items())
        return text + (
            f"\nConsume TPS: {self.found.consume_tps:.2f}\nConsume Diff Total: {self.found.diff_count}\n"
            f"Consume Inflight Total: {self.found.inflight_count}\n"
        )

    def _mqadmin_line(self, queue: MessageQueue, entry: ConsumeOffset) -> str:
        from rmqproto.times import mqadmin_time

        diff_count = entry.broker_offset - entry.consumer_offset
        inflight_count = entry.pull_offset - entry.consumer_offset
        client = f"{self.owners.get(queue, 'N/A').partition('@')[0]:20} " if self.shows_clients else ""
        last = mqadmin_time(entry.last_timestamp, milliseconds=False) if entry.last_timestamp else "N/A"
        return (
            f"{cut(queue.topic, TOPIC_WIDTH):64}  {cut(queue.broker_name, BROKER_NAME_WIDTH):32}  {queue.queue_id:<4}  "
            f"{entry.broker_offset:<20}  {entry.consumer_offset:<20}  {client}"
            f"{diff_count:<20} {inflight_count:<20} {last}\n"
        )


def consumer_progress(
    call: Call,
    group_name: Annotated[str | None, Value.GROUP, option("-g", "--groupName", "One group, queue by queue.")] = None,
    topic_name: Annotated[str | None, Value.TOPIC, option("-t", "--topicName", "With -g: this topic only.")] = None,
    show_client_ip: Annotated[
        TrueFalse | None, option("-s", "--showClientIP", "With -g: show each queue's owner.")
    ] = None,
    cluster: Annotated[
        str | None, Value.TOPIC, option("-c", "--cluster", "With -t: look up this topic's route (LMQ parent).")
    ] = None,
    show_all: ShowAll = False,
) -> GroupsProgress | GroupProgress:
    """Lag counts messages on brokers that the group has not committed. For a static topic, -g shows the logical queues.

    rmqadmin consumerProgress
    rmqadmin consumerProgress -g OrderGroup --watch
    rmqadmin consumerProgress -g OrderGroup --watch 5 --until 'lag_count == 0'
    """
    if group_name is None:
        if topic_name is not None or show_client_ip is not None:
            call.notice("all groups are shown: -t and -s need -g")
        return GroupsProgress(all_groups(call, show_all=show_all))
    admin = call.admin
    topic = topic_name or None
    if topic and cluster:
        brokers = admin.topic_route(cluster).broker_datas
    else:
        brokers = brokers_of_group(admin, group_name, topic)
    try:
        found = read_logical_offsets(admin, brokers, group_name, topic, call.answers)
    except MappingError as error:
        call.notice(f"no logical queues are shown: {error}")
        found = read_offsets(admin, brokers, group_name, topic, call.answers)
    require_offsets(admin, brokers, group_name, found, call.answers)
    lags = UnreadLags(admin)
    unread = [] if call.as_mqadmin else lags.read(group_name, answering(brokers, call.answers), topic)
    if lags.problem is not None:
        call.notice(lags.problem)
    found.offsets.update({one.queue: one.entry for one in unread})
    shows_clients = show_client_ip is TrueFalse.TRUE
    return GroupProgress(found, _owners(call, brokers, group_name) if shows_clients else {}, shows_clients, unread)


def _owners(call: Call, brokers: Sequence[BrokerData], group: str) -> dict[MessageQueue, str]:
    """The owner of each queue, according to the clients (307). A silent client's queues are unknown."""
    owners: dict[MessageQueue, str] = {}
    for answer in ask_clients(call.admin, group, read_clients(call.admin, brokers, group, call.answers), brokers):
        client_id = answer.connection.client_id
        if answer.info is None:
            call.notice(f"{client_id} does not say which queues it owns: {answer.error}")
        else:
            owners |= dict.fromkeys(answer.info.mq_table, client_id)
    return owners
