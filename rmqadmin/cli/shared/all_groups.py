"""Every group, with its clients and its lag, as commands list them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import GroupClients, GroupOffsets, answering, lacking, read_clients, read_offsets
from rmqadmin.core.groups.unread_lag import UnreadLags
from rmqadmin.core.mqadmin_text import TOPIC_WIDTH, cut
from rmqadmin.core.results import Result, ResultColumn, Row, doc, some_failed
from rmqadmin.core.servers.broker_answers import Answers
from rmqadmin.core.units import at_least, count
from rmqproto.bodies.groups import CONSUME_ACTIVELY, CONSUME_PASSIVELY
from rmqproto.codes import version_name
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX, is_system_group, retry_topic

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


class GroupsProgress(Result, frozen=True):
    """Without -g: one row a group."""

    row_type: ClassVar[type[Row]] = GroupRow
    states: list[GroupFindings]

    def rows(self) -> Sequence[GroupRow]:
        return [_group_row(state) for state in sorted(self.states, key=lambda state: state.group) if state.is_group]

    def mqadmin_text(self) -> str:
        text = f"{'#Group':64}  {'#Count':6}  {'#Version':24} {'#Type':5}  {'#Model':14}  {'#TPS':7}  #Diff Total\n"
        for state in self.states:
            if not state.has_retry_topic:
                continue
            if state.is_part:
                state = _nothing_known(state)  # mqadmin gives up at the first broker that does not answer
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


def _nothing_known(state: GroupFindings) -> GroupFindings:
    return msgspec.structs.replace(state, offsets=_NOTHING, clients=_NOBODY, is_part=False)


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
    tables = targets.ask_each(lambda addr: _configured(call, addr), targets.selected_addrs(brokers))
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
        found = targets.ask_each(ask, wanted, told)
    if unread is not None and unread.problem is not None:
        call.notice(unread.problem)
    return found
