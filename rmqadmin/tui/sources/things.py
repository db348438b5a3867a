"""What the tabs of a topic, a group and a broker and the smaller places show, as commands print it."""

from __future__ import annotations

from itertools import islice

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.audit_trail import AuditRow, audit_rows, read_commands_untrusted
from rmqadmin.core.groups.client_status import ProducerRow, producer_rows
from rmqadmin.core.groups.described_groups import GroupBrokerRow, group_broker_rows
from rmqadmin.core.messages.waiting import READ_MAX, DelayRow, HalfRow, delay_rows, half_rows, timers_text
from rmqadmin.core.servers.broker_answers import Answers
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.topics.described import RouteRow, TopicBrokerRow, groups_of, route_rows, topic_broker_rows
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.found import Found, ask_brokers, askable, asked, read_askable
from rmqadmin.tui.sources.groups import GroupFacts
from rmqproto.names import INNER_PRODUCER_GROUP
from rmqproto.wording import counted


def read_routes(admin: AdminClient, _: ClusterMemory, topic: str) -> Found[RouteRow]:
    """As `topicRoute`."""
    return Found({row.broker_name: row for row in route_rows(admin.topic_route(topic))})


def read_topic_settings(admin: AdminClient, _: ClusterMemory, topic: str) -> Found[TopicBrokerRow]:
    """As the brokers of `topic describe`."""
    return Found({row.broker_name: row for row in topic_broker_rows(admin, topic, admin.topic_route(topic))})


def read_producers(admin: AdminClient, memory: ClusterMemory, topic: str | None = None) -> Found[ProducerRow]:
    """As `producer`, of all brokers, or of those of a topic. A client that is connected to several has one row."""
    brokers = read_askable(admin, memory).brokers if topic is None else askable(admin.topic_route(topic).broker_datas)
    answers, lacks = ask_brokers(memory, brokers, lambda broker: admin.all_producers(broker.selected_addr() or ""))
    rows = [row for _, by_group in answers for row in producer_rows(by_group) if row.group != INNER_PRODUCER_GROUP]
    note = "connected to its brokers, which do not know the topics of a producer" if topic is not None else ""
    return Found({f"{row.group} {row.client_id}": row for row in rows}, lacks, note=note)


def read_groups_of_topic(admin: AdminClient, memory: ClusterMemory, topic: str) -> Found[GroupFacts]:
    """The groups that read a topic, as `topicSubscribers` names them. One without a configuration has no brokers."""
    brokers = askable(admin.topic_route(topic).broker_datas)
    names, unknown = groups_of(admin, topic, targets.selected_addrs(brokers))
    known = groups.read_groups(admin, memory)
    here = {broker.broker_name: broker for broker in brokers}
    rows = {name: known.rows.get(name) or groups.facts_of(memory, name, here) for name in names}
    return Found(rows, known.lacks, unknown)


def read_groups_of_broker(admin: AdminClient, memory: ClusterMemory, broker_name: str) -> Found[GroupFacts]:
    """The groups that a broker has a configuration of."""
    found = groups.read_groups(admin, memory)
    rows = {
        name: facts
        for name, facts in found.rows.items()
        if broker_name in (*facts.lacking, *(broker.broker_name for broker in facts.brokers))
    }
    return Found(rows, found.lacks)


def read_group_settings(admin: AdminClient, _: ClusterMemory, group: str) -> Found[GroupBrokerRow]:
    """As the brokers of `group describe`."""
    answers = Answers()
    rows = {row.broker_name: row for row in group_broker_rows(admin, group, answers)}
    return Found(rows, problems=[f"{addr}: {error}" for addr, error in answers.errors.items()])


def read_delays(admin: AdminClient, memory: ClusterMemory, replica: Replica | None = None) -> Found[DelayRow]:
    """The delay levels of one broker, or of all, and how their timers are."""

    def ask(broker: Replica) -> tuple[list[DelayRow], str]:
        one = msgspec.structs.replace(broker, info=admin.broker_runtime_info(broker.broker_addr))
        return delay_rows(admin, one, memory.now_ms(), memory.heads), timers_text(one.info)

    answers, lacks = ask_brokers(memory, asked(admin, memory, replica), ask)
    timers = [text if replica is not None else f"{broker.broker_name} {text}" for broker, (_, text) in answers if text]
    rows = {f"{row.broker_name} {row.level}": row for _, (found, _) in answers for row in found}
    return Found(rows, lacks, note=", ".join(timers))


def read_halves(admin: AdminClient, memory: ClusterMemory, replica: Replica | None = None) -> Found[HalfRow]:
    """The half messages of one broker, or of all, whose transaction has not ended."""
    answers, lacks = ask_brokers(
        memory,
        asked(admin, memory, replica),
        lambda broker: half_rows(admin, broker.broker_name, broker.broker_addr),
    )
    rows = sorted((row for _, (found, _) in answers for row in found), key=lambda row: row.oldest_ms)
    more = [
        f"{broker.broker_name}: more than {READ_MAX:,} half messages wait, the others are not counted"
        for broker, (_, is_all) in answers
        if not is_all
    ]
    return Found({f"{row.broker_name} {row.topic} {row.group}": row for row in rows}, lacks, more)


LOG_ROWS_MAX = 1_000


def read_log(_: AdminClient, __: ClusterMemory) -> Found[AuditRow]:
    """The log of the changes made on this machine, the newest first, as `audit`."""
    commands, wrong_count = read_commands_untrusted()
    rows = {
        f"{one.begin.id} {at}": row
        for one in islice(reversed(commands), LOG_ROWS_MAX)
        for at, row in enumerate(audit_rows(one))
    }
    wrong = [f"{counted(wrong_count, 'line')} of the log cannot be read"] if wrong_count else []
    note = f"the last {LOG_ROWS_MAX:,} commands" if len(commands) > LOG_ROWS_MAX else ""
    return Found(rows, problems=wrong, note=note)
