"""Online members of groups: who they are, and what they report about themselves (307)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups import running_info
from rmqadmin.core.groups.consumption import ask_client
from rmqadmin.core.units import count, moment, rate
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.sources.found import Found, lacks_text
from rmqadmin.tui.sources.groups import CLIENTS_YOUNG_MS, GroupFacts, read_clients_of, read_groups, read_offsets_of
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection
from rmqproto.bodies.statistics import STARTED_MS, ConsumeRates, ConsumerRunningInfo, ProcessQueueInfo, lag_of
from rmqproto.errors import NotFoundError, RocketMQError


class ClientFact(msgspec.Struct, frozen=True):
    """One fact. ``kind`` is problem, subscription, queue, topic, property or the user's own."""

    kind: str
    name: str
    text: str


class OnlineClient(msgspec.Struct, frozen=True):
    """A client that is online, as a member of a group."""

    facts: GroupFacts
    connection: ClientConnection


class ClientNumbers(msgspec.Struct, frozen=True):
    """What a client says that it has and manages. ``error`` says why nothing is known."""

    queue_count: int | None = None
    consume_tps: float | None = None
    fail_tps: float | None = None
    error: str | None = None


def read_online(admin: AdminClient, memory: ClusterMemory) -> Found[OnlineClient]:
    """The members of all groups (203)."""
    found = read_groups(admin, memory)
    rows: dict[str, OnlineClient] = {}
    lacks = dict(found.lacks)
    for group, facts in found.rows.items():
        if facts.brokers:
            clients, silent = read_clients_of(admin, memory, facts, age_max_ms=CLIENTS_YOUNG_MS)
            rows |= {f"{group} {name}": OnlineClient(facts, one) for name, one in clients.connections.items()}
            lacks |= silent
    return Found(rows, lacks)


def read_client_numbers(
    admin: AdminClient, memory: ClusterMemory, rows: Mapping[str, OnlineClient]
) -> dict[str, ClientNumbers]:
    def read(one: OnlineClient) -> ClientNumbers:
        try:
            info = _ask(admin, memory, one.facts, one.connection.client_id)
        except RocketMQError as error:
            return ClientNumbers(error=str(error))
        rates = info.status_table.values()
        return ClientNumbers(
            len(info.mq_table) + len(info.mq_pop_table),
            sum(rate.consume_ok_tps for rate in rates),
            sum(rate.consume_failed_tps for rate in rates),
        )

    return {key: read(one) for key, one in rows.items()}


def read_client(
    admin: AdminClient, memory: ClusterMemory, facts: GroupFacts, client_id: str, now_ms: int
) -> Found[ClientFact]:
    """Reads a member, its queues with the largest lag first. Errors as for ``_ask``."""
    info = _ask(admin, memory, facts, client_id)
    try:
        offsets, _ = read_offsets_of(admin, memory, facts)
        lags = {queue: lag_of(entry) for queue, entry in offsets.offsets.items()}
    except RocketMQError:
        lags = {}
    return Found({f"{row.kind}/{row.name or row.text}": row for row in facts_of(info, lags, now_ms)})


def read_stack(admin: AdminClient, memory: ClusterMemory, facts: GroupFacts, client_id: str) -> str | None:
    """Reads the stacks of a member's threads; None if it reports none. Errors as for ``_ask``."""
    return _ask(admin, memory, facts, client_id, jstack=True).jstack


def _ask(
    admin: AdminClient, memory: ClusterMemory, facts: GroupFacts, client_id: str, *, jstack: bool = False
) -> ConsumerRunningInfo:
    """NotFoundError if the client is no longer online. RefusedError if it does not answer its broker."""
    clients, lacks = read_clients_of(admin, memory, facts)
    if client_id not in clients.connections:
        if lacks:
            raise NotFoundError(f"no broker that answers knows {client_id}: {', '.join(lacks_text(lacks))}")
        raise NotFoundError(f"{client_id} is no longer online in {facts.group}")
    return ask_client(admin, facts.group, client_id, clients, facts.brokers, jstack=jstack)


def facts_of(info: ConsumerRunningInfo, lags: Mapping[MessageQueue, int], now_ms: int) -> list[ClientFact]:
    """The facts, problems first. ``lags``: how many messages wait in queues, where known."""
    problems = running_info.queue_problems(info, now_ms)
    queues = sorted(info.mq_table.items(), key=lambda item: (-lags.get(item[0], 0), item[0]))
    return [
        *(ClientFact("problem", "", str(problem)) for problem in problems),
        *(ClientFact("subscription", one.topic, one.sub_string) for one in running_info.subscriptions(info)),
        *(
            ClientFact("queue", f"{one.topic} {one.broker_name} {one.queue_id}", _queue(state, lags.get(one)))
            for one, state in queues
        ),
        *(
            ClientFact("pop queue", f"{one.topic} {one.broker_name} {one.queue_id}", _pop_queue(state, lags.get(one)))
            for one, state in sorted(info.mq_pop_table.items(), key=lambda item: (-lags.get(item[0], 0), item[0]))
        ),
        *(ClientFact("topic", topic, _rates(status)) for topic, status in sorted(info.status_table.items())),
        *(ClientFact("property", name, _property(name, value)) for name, value in sorted(info.properties.items())),
        *(ClientFact("user", name, value) for name, value in sorted(info.user_consumer_info.items())),
    ]


def _queue(state: ProcessQueueInfo, lag_count: int | None) -> str:
    words = [
        f"lag {count(lag_count)}",
        f"commits {count(state.commit_offset)}",
        f"{count(state.cached_msg_count)} in hand ({state.cached_msg_size_in_mib} MiB)",
        f"pulled {moment(state.last_pull_timestamp)}",
        f"consumed {moment(state.last_consume_timestamp)}",
    ]
    return ", ".join(words + (["locked"] if state.locked else []) + (["dropped"] if state.droped else []))


def _pop_queue(state: Mapping[str, Any], lag_count: int | None) -> str:
    """Apache's ``PopProcessQueueInfo`` in words, as the client wrote it. Any field may be missing."""
    waiting, popped_ms = (
        value if isinstance(value := state.get(name), int) else None for name in ("waitAckCount", "lastPopTimestamp")
    )
    words = [f"lag {count(lag_count)}", f"{count(waiting)} not acknowledged", f"popped {moment(popped_ms)}"]
    return ", ".join(words + (["dropped"] if state.get("droped") else []))


def _rates(status: ConsumeRates) -> str:
    return (
        f"pulls {rate(status.pull_tps)}/s in {status.pull_rt:.0f} ms, "
        f"consumes {rate(status.consume_ok_tps)}/s in {status.consume_rt:.0f} ms, "
        f"fails {rate(status.consume_failed_tps)}/s, {count(status.consume_failed_msgs)} failed in the last hour"
    )


def _property(name: str, value: str) -> str:
    is_start = name == STARTED_MS and value.isdecimal()
    return f"{value} ({moment(int(value))})" if is_start else value
