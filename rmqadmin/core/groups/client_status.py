"""A group's clients by their own information (307), all of them or one in detail, as ``consumerStatus`` and
``consumer`` show it; and the producers of a broker."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rmqadmin.core.files import write_file
from rmqadmin.core.groups import running_info
from rmqadmin.core.groups.consumption import ClientAnswer, Subscription
from rmqadmin.core.groups.queue_owners import expressions_of, unequal_clients
from rmqadmin.core.results import TIME, ResultOf, Row, doc, some_failed
from rmqproto.bodies.groups import ProducerInfo
from rmqproto.bodies.statistics import CONSUME_TYPE, ConsumerRunningInfo
from rmqproto.codes import version_name

# --- a group ---------------------------------------------------------------------------------------------------------


class ClientStatusRow(Row, frozen=True):
    client_id: Annotated[str, doc("client id", key=True)]
    version: Annotated[str, doc("release of its client library", minor=True)]
    consume_type: Annotated[str | None, doc("CONSUME_PASSIVELY (push) or CONSUME_ACTIVELY (pull)", minor=True)]
    started_ms: Annotated[int | None, TIME, doc("when it was started, by its own clock")]
    queue_count: Annotated[int | None, doc("queues that it consumes")]
    cached_count: Annotated[int | None, doc("messages that it has pulled and not consumed yet")]
    subscriptions: Annotated[list[Subscription], doc("topic, expression type, expression", minor=True)]
    problems: Annotated[
        list[str],
        doc("other subscriptions than most, queues that it cannot lock, or in which it makes no progress", vital=True),
    ]
    error: Annotated[str | None, doc("why it did not answer", sparse=True)]
    jstack: Annotated[str | None, doc("with -s: the stacks of its threads", sparse=True, wide=True)]


class GroupStatusTotals(Row, frozen=True):
    same_subscription: Annotated[
        bool | None,
        doc("false if clients of the group have different subscriptions; unknown if some that may did not answer"),
    ]
    problem_count: Annotated[int, doc("problems of all clients together")]


class GroupStatus(ResultOf[ClientStatusRow], frozen=True):
    """A group's clients, one row each."""

    answers: list[ClientAnswer]
    now_ms: int
    with_stacks: bool = False

    def rows(self) -> Sequence[ClientStatusRow]:
        unequal = self._unequal()
        return [
            ClientStatusRow(
                client_id=answer.connection.client_id,
                version=version_name(answer.connection.version),
                consume_type=info.properties.get(CONSUME_TYPE) if (info := answer.info) else None,
                started_ms=running_info.started_ms(info) if info else None,
                queue_count=len(info.mq_table) + len(info.mq_pop_table) if info else None,
                cached_count=sum(state.cached_msg_count for state in info.mq_table.values()) if info else None,
                subscriptions=_subscriptions(info) if info else [],
                problems=[
                    *(["has other subscriptions than most"] if answer.connection.client_id in unequal else []),
                    *(_problems(info, self.now_ms) if info else []),
                ],
                error=answer.error,
                jstack=info.jstack if info else None,
            )
            for answer in self.answers
        ]

    def _unequal(self) -> list[str]:
        """The clients whose subscriptions differ from those of most. mqadmin compares none in the first two minutes."""
        infos = self._infos()
        return unequal_clients({name: expressions_of(info.subscription_set) for name, info in infos.items()})

    def lines_below(self, width: int | None) -> Iterator[str]:
        """With -s: the stacks of each client's threads."""
        for client_id, info in self._infos().items() if self.with_stacks else ():
            stacks = (info.jstack or "It does not tell their stacks.").rstrip("\n")
            yield f"Threads of {client_id}:\n{stacks}\n"

    def _infos(self) -> dict[str, ConsumerRunningInfo]:
        found = {answer.connection.client_id: answer.info for answer in self.answers}
        return {client_id: info for client_id, info in found.items() if info is not None}

    def summary(self) -> GroupStatusTotals:
        all_told = len(self._infos()) == len(self.answers)
        return GroupStatusTotals(
            same_subscription=False if self._unequal() else True if all_told else None,
            problem_count=sum(len(row.problems) for row in self.rows()),
        )

    def problem(self) -> str | None:
        return some_failed([answer.error for answer in self.answers], "client")

    def mqadmin_text(self) -> str:
        text, infos = f"{'#Index':10} {'#ClientId':40} {'#Version':20} #ConsumerRunningInfoFile\n", self._infos()
        told = [answer.connection for answer in self.answers if answer.info is not None]
        for index, one in enumerate(told, 1):
            path = info_path(self.now_ms, one.client_id)
            text += f"{index:<10} {one.client_id:40} {version_name(one.version):20} {path}\n"
        if not infos:
            return text
        if not running_info.have_same_subscription(infos, self.now_ms):
            return text + "\n\nWARN: Different subscription in the same group of consumer!!!"
        text += "\n\nSame subscription in the same group of consumer\n\nRebalance OK\n"
        problems = [
            problem.mqadmin_text(client_id)
            for client_id in sorted(infos)
            for problem in running_info.queue_problems(infos[client_id], self.now_ms)
        ]
        return text + "".join(f"{line}\n" for line in problems)


def _problems(info: ConsumerRunningInfo, now_ms: int) -> list[str]:
    return [str(problem) for problem in running_info.queue_problems(info, now_ms)]


def _subscriptions(info: ConsumerRunningInfo) -> list[Subscription]:
    return [
        Subscription(wanted.topic, wanted.expression_type, wanted.sub_string)
        for wanted in running_info.subscriptions(info)
    ]


def info_path(now_ms: int, client_id: str) -> Path:
    """Where mqadmin puts a client's answer: under the current directory."""
    return Path(str(now_ms)) / client_id


# --- one client ------------------------------------------------------------------------------------------------------


class ConsumedQueueRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    committed_offset: Annotated[int | None, doc("queue offset that it stands at; none with POP", minor=True)]
    cached_count: Annotated[int | None, doc("messages that it has pulled and not consumed yet", vital=True)]
    wait_ack_count: Annotated[int | None, doc("with POP: messages that it has not acknowledged yet", sparse=True)]
    locked: Annotated[bool | None, doc("whether it holds the queue's lock (ordered consumption)", minor=True)]
    dropped: Annotated[bool, doc("whether the queue has gone to another client", minor=True)]
    last_pull_ms: Annotated[int | None, TIME, doc("when it last asked for messages", minor=True)]
    last_consume_ms: Annotated[int | None, TIME, doc("when it last consumed one")]


class ClientFacts(Row, frozen=True):
    client_id: Annotated[str, doc("client id")]
    subscriptions: Annotated[list[Subscription], doc("topic, expression type, expression")]
    problems: Annotated[list[str], doc("queues that it cannot lock, or in which it makes no progress")]
    rates: Annotated[dict[str, Any], doc("by topic: times in ms, and messages a second")]
    properties: Annotated[dict[str, str], doc("its settings, as text")]
    user_info: Annotated[dict[str, str], doc("entries that the application added")]
    jstack: Annotated[str | None, doc("with -s: the stacks of its threads")]


class ClientStatus(ResultOf[ConsumedQueueRow], frozen=True):
    """With -i: one client, one row a queue."""

    client_id: str
    info: ConsumerRunningInfo
    now_ms: int

    def rows(self) -> Sequence[ConsumedQueueRow]:
        pulled = [
            ConsumedQueueRow(
                topic=queue.topic,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                committed_offset=state.commit_offset,
                cached_count=state.cached_msg_count,
                wait_ack_count=None,
                locked=state.locked,
                dropped=state.droped,
                last_pull_ms=state.last_pull_timestamp or None,
                last_consume_ms=state.last_consume_timestamp or None,
            )
            for queue, state in sorted(self.info.mq_table.items())
        ]
        return pulled + [
            ConsumedQueueRow(
                topic=queue.topic,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                committed_offset=None,
                cached_count=None,
                wait_ack_count=state.get("waitAckCount"),
                locked=None,
                dropped=bool(state.get("droped")),
                last_pull_ms=state.get("lastPopTimestamp") or None,
                last_consume_ms=None,
            )
            for queue, state in sorted(self.info.mq_pop_table.items())
        ]

    def summary(self) -> ClientFacts:
        return ClientFacts(
            client_id=self.client_id,
            subscriptions=_subscriptions(self.info),
            problems=_problems(self.info, self.now_ms),
            rates={topic: msgspec.structs.asdict(rate) for topic, rate in sorted(self.info.status_table.items())},
            properties=self.info.properties,
            user_info=self.info.user_consumer_info,
            jstack=self.info.jstack,
        )

    def mqadmin_text(self) -> str:
        return running_info.running_info_text(self.info)


def write_files(result: GroupStatus) -> None:
    """Writes each client's answer to a file under the current directory, as mqadmin does."""
    for answer in result.answers:
        if answer.info is not None:
            path = info_path(result.now_ms, answer.connection.client_id)
            if ".." in path.parts or path.is_absolute():
                continue  # a client may choose any id
            write_file(path, running_info.running_info_text(answer.info).encode())


class ProducerRow(Row, frozen=True):
    group: Annotated[str, doc("producer group", key=True)]
    client_id: Annotated[str | None, doc("client id; none if the group has no client any more", key=True)]
    client_addr: Annotated[str | None, doc("where it connects from")]
    language: Annotated[str | None, doc("what it is written in")]
    version: Annotated[str | None, doc("release of its client library")]
    last_heard_ms: Annotated[int | None, TIME, doc("when its last heartbeat came")]


def producer_rows(by_group: Mapping[str, Sequence[ProducerInfo]]) -> list[ProducerRow]:
    """One row a client, and one for a group without any."""
    nobody = ProducerInfo(client_id="")
    return [
        ProducerRow(
            group=group,
            client_id=client.client_id or None,
            client_addr=client.remote_ip.removeprefix("/") or None,
            language=client.language,
            version=version_name(client.version) if client.client_id else None,
            last_heard_ms=client.last_update_timestamp or None,
        )
        for group in sorted(by_group)
        for client in sorted(by_group[group], key=lambda client: client.client_id) or [nobody]
    ]
