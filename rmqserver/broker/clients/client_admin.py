"""Online clients, for tools: lists of them, and questions that only a client can answer (its state, its offsets, a
message that it consumes now). Such a question goes to the client, and its answer is passed on
(``AdminBrokerProcessor``, ``Broker2Client``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from rmqproto.bodies.groups import ClientConnection as ConnectionBody
from rmqproto.bodies.groups import ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTable
from rmqproto.bodies.statistics import ConsumerStatus
from rmqproto.codes import RequestCode, ResponseCode, version_name
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header
from rmqproto.headers.consuming import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    RunningInfoHeader,
    TopicGroupHeader,
)
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.broker.clients.clients import Client, Clients, refuse_older
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import PeerAnswer, Refused
from rmqserver.store.message_store import MessageStore

RELAY_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0

FIRST_RELAY_VERSION = 62
"""V3_1_8_SNAPSHOT: older clients know neither 307 nor 309."""


OnRelayed = Callable[[PeerAnswer], None]


class _Unanswered(NamedTuple):
    """What the asker is told when the client has not answered."""

    code: int
    remark: str
    body: bytes = b""


class ClientAdmin:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable, clients: Clients
    ):
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._store = store

    # --- lists of clients --------------------------------------------------------------------------------------------

    def consumer_connections(self, name: str) -> ConsumerConnection:
        group = self._clients.consumers.get(name)
        if group is None:
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        return ConsumerConnection(
            connection_set=_connections(group.members.values()),
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_table=group.subscriptions,
        )

    def producer_connections(self, group: str) -> ProducerConnection:
        members = self._clients.producers.get(group)
        if members is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
        return ProducerConnection(connection_set=_connections(members.values()))

    def all_producers(self) -> ProducerTable:
        table = {
            group: [
                ProducerInfo(
                    client_id=client.client_id,
                    language=client.language,
                    last_update_timestamp=client.last_update_ms,
                    remote_ip=f"/{client.peer.address}",
                    version=client.version,
                )
                for client in members.values()
            ]
            for group, members in self._clients.producers.items()
        }
        return ProducerTable(data=table)

    # --- questions to one client -------------------------------------------------------------------------------------

    def running_info(self, header: RunningInfoHeader, on_relayed: OnRelayed) -> None:
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        self._relay(code, header.consumer_group, header.client_id, header, b"", on_relayed)

    def record(self, asked: ConsumeDirectlyHeader) -> bytes | None:
        """The message that ``msg_id`` names, as it is stored. It may wait for the device."""
        return self._store.get_record(parse_offset_id_untrusted(asked.msg_id or "").log_offset)

    def consume_directly(self, asked: ConsumeDirectlyHeader, record: bytes | None, on_relayed: OnRelayed) -> None:
        """Passes the client the ``record`` that the header names."""
        topic = self._topics.get(asked.topic) if asked.topic else None
        group = self._groups.find(asked.consumer_group)
        header = ConsumeDirectlyHeader(
            consumer_group=asked.consumer_group,
            client_id=asked.client_id,
            msg_id=asked.msg_id,
            broker_name=self._config.broker_name,
            topic=asked.topic,
            topic_sys_flag=topic.topic_sys_flag if topic is not None else None,
            group_sys_flag=group.group_sys_flag if group is not None else None,
        )
        code, client_id = RequestCode.CONSUME_MESSAGE_DIRECTLY, asked.client_id or "null"
        self._relay(code, asked.consumer_group, client_id, header, record or b"", on_relayed)

    def _relay(self, code: int, group: str, client_id: str, header: Header, body: bytes, on_relayed: OnRelayed) -> None:
        """Asks the client. ``on_relayed`` gets its answer, or why there is none. Raises Refused if it cannot be
        asked."""
        client = self._clients.consumer(group, client_id)
        if client is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        if client.version < FIRST_RELAY_VERSION:
            remark = (
                f"The Consumer <{client_id}> Version <{version_name(client.version)}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

        def on_answer(answer: PeerAnswer | None) -> None:
            if answer is None and client.peer.closed:
                remark = f"invoke consumer <{group}> <{client_id}> Exception: the connection was closed"
                answer = _Unanswered(ResponseCode.SYSTEM_ERROR, remark)
            elif answer is None:
                remark = f"consumer <{group}> <{client_id}> Timeout: no answer in {RELAY_TIMEOUT_S:.0f} s"
                answer = _Unanswered(ResponseCode.CONSUME_MSG_TIMEOUT, remark)
            on_relayed(answer)

        client.peer.ask(code, header, body, on_answer, RELAY_TIMEOUT_S)

    # --- questions to all clients of a group -------------------------------------------------------------------------

    def consumer_status(self, header: ConsumerStatusHeader, on_status: Callable[[ConsumerStatus], None]) -> None:
        """Asks the group's clients at once. ``on_status`` gets the offsets that each one reports, when the last has
        answered or is late; one that does not answer is left out."""
        group = self._clients.consumers.get(header.group)
        if group is None:
            remark = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        waited_for = [
            client
            for client in group.members.values()
            if not header.client_addr or client.client_id == header.client_addr
        ]
        for client in waited_for:
            refuse_older(client)
        status = ConsumerStatus()

        def note(client: Client, answer: PeerAnswer | None) -> None:
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                try:
                    found = loads_untrusted(answer.body, ConsumerStatus)
                except ProtocolError:  # an answer that cannot be read counts as no answer
                    pass
                else:
                    status.consumer_table[client.client_id] = found.message_queue_table
            waited_for.remove(client)
            if not waited_for:
                on_status(status)

        if not waited_for:
            on_status(status)
        question = TopicGroupHeader(topic=header.topic, group=header.group)
        for client in list(waited_for):
            client.peer.ask(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, question, b"", partial(note, client), STATUS_TIMEOUT_S
            )


def _connections(clients: Iterable[Client]) -> list[ConnectionBody]:
    return [
        ConnectionBody(
            client_addr=client.peer.address,
            client_id=client.client_id,
            language=client.language,
            version=client.version,
        )
        for client in clients
    ]
