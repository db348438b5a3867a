"""Online clients, for tools: lists of them, and questions that only a client can answer (its state, its offsets, a
message that it consumes now). Such a question goes to the client, and its answer is passed on
(``AdminBrokerProcessor``, ``Broker2Client``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rmqproto.bodies.groups import ClientConnection as ConnectionBody
from rmqproto.bodies.groups import ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTable
from rmqproto.bodies.statistics import ConsumerStatus
from rmqproto.codes import RequestCode, ResponseCode, version_name
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header
from rmqproto.headers.client_calls import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    RunningInfoHeader,
    TopicGroupHeader,
)
from rmqproto.headers.consuming import ConsumerGroupHeader, ProducerGroupHeader
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.broker.clients.clients import Client
from rmqserver.broker.consuming.reset_offset import refuse_older
from rmqserver.broker.parts import BrokerParts
from rmqserver.operation import UNSET_REMARK, PeerAnswer, Refused
from rmqserver.remoting.answer import Request, answer_frame, refusal, send_answer, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler

RELAY_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0

FIRST_RELAY_VERSION = 62
"""V3_1_8_SNAPSHOT: older clients know neither 307 nor 309."""


class ClientAdmin:
    def __init__(self, parts: BrokerParts):
        self._config = parts.config
        self._topics = parts.topics
        self._groups = parts.groups
        self._clients = parts.clients
        self._store = parts.store

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.consumer_status,
        }

    # --- lists of clients --------------------------------------------------------------------------------------------

    def consumer_connections(self, request: Request[ConsumerGroupHeader], connection: Connection) -> bytes:
        group = self._clients.consumers.get(request.header.consumer_group)
        if group is None:
            remark = f"the consumer group[{request.header.consumer_group}] not online"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        body = ConsumerConnection(
            connection_set=_connections(group.members.values()),
            consume_from_where=group.consume_from_where,
            consume_type=group.consume_type,
            message_model=group.message_model,
            subscription_table=group.subscriptions,
        )
        return success(request, body=dumps(body))

    def producer_connections(self, request: Request[ProducerGroupHeader], connection: Connection) -> bytes:
        members = self._clients.producers.get(request.header.producer_group)
        if members is None:
            remark = f"the producer group[{request.header.producer_group}] not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return success(request, body=dumps(ProducerConnection(connection_set=_connections(members.values()))))

    def all_producers(self, request: Request[Any], connection: Connection) -> bytes:
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
        return success(request, body=dumps(ProducerTable(data=table)))

    # --- questions to one client -------------------------------------------------------------------------------------

    def running_info(self, request: Request[RunningInfoHeader], connection: Connection) -> None:
        header = request.header
        self._relay(request, connection, header.consumer_group, header.client_id, header, b"")

    def consume_directly(self, request: Request[ConsumeDirectlyHeader], connection: Connection) -> None:
        """Passes the client the message that ``msg_id`` names, as it is stored."""
        asked = request.header
        topic = self._topics.get(asked.topic) if asked.topic else None
        group = self._groups.find(asked.consumer_group)
        record = self._store.get_record(parse_offset_id_untrusted(asked.msg_id or "").log_offset)
        header = ConsumeDirectlyHeader(
            consumer_group=asked.consumer_group,
            client_id=asked.client_id,
            msg_id=asked.msg_id,
            broker_name=self._config.broker_name,
            topic=asked.topic,
            topic_sys_flag=topic.topic_sys_flag if topic is not None else None,
            group_sys_flag=group.group_sys_flag if group is not None else None,
        )
        client_id = asked.client_id or "null"
        self._relay(request, connection, asked.consumer_group, client_id, header, record or b"")

    def _relay(
        self, request: Request[Any], connection: Connection, group: str, client_id: str, header: Header, body: bytes
    ) -> None:
        """Passes the request to the client, and the client's answer back, whatever it is."""
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
            if answer is not None:
                frame = _relayed(request, answer)
            elif client.peer.closed:
                remark = f"invoke consumer <{group}> <{client_id}> Exception: the connection was closed"
                frame = refusal(request, ResponseCode.SYSTEM_ERROR, remark)
            else:
                remark = f"consumer <{group}> <{client_id}> Timeout: no answer in {RELAY_TIMEOUT_S:.0f} s"
                frame = refusal(request, ResponseCode.CONSUME_MSG_TIMEOUT, remark)
            send_answer(request, connection, frame)

        client.peer.ask(request.code, header, body, on_answer, RELAY_TIMEOUT_S)

    # --- questions to all clients of a group -------------------------------------------------------------------------

    def consumer_status(self, request: Request[ConsumerStatusHeader], connection: Connection) -> None:
        """The offsets that each client reports. A client that does not answer is left out."""
        header = request.header
        group = self._clients.consumers.get(header.group)
        if group is None:
            remark = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        asked = [
            client
            for client in group.members.values()
            if not header.client_addr or client.client_id == header.client_addr
        ]
        for client in asked:
            refuse_older(client)
        _StatusRound(request, connection, asked).start(TopicGroupHeader(topic=header.topic, group=header.group))


class _StatusRound:
    """Asks several clients at once and answers when the last one has answered or is late."""

    def __init__(self, request: Request[Any], connection: Connection, clients: list[Client]):
        self._request = request
        self._connection = connection
        self._clients = clients
        self._waiting = len(clients)
        self._answer = ConsumerStatus()

    def start(self, header: TopicGroupHeader) -> None:
        if not self._clients:
            self._finish()
        for client in self._clients:
            client.peer.ask(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                header,
                b"",
                lambda answer, client_id=client.client_id: self._note(client_id, answer),  # type: ignore[misc]
                STATUS_TIMEOUT_S,
            )

    def _note(self, client_id: str, answer: PeerAnswer | None) -> None:
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            try:
                found = loads_untrusted(answer.body, ConsumerStatus)
            except ProtocolError:  # an answer that cannot be read counts as no answer
                pass
            else:
                self._answer.consumer_table[client_id] = found.message_queue_table
        self._waiting -= 1
        if not self._waiting:
            self._finish()

    def _finish(self) -> None:
        frame = success(self._request, body=dumps(self._answer), remark=UNSET_REMARK)
        send_answer(self._request, self._connection, frame)


def _relayed(request: Request[Any], answer: PeerAnswer) -> bytes:
    try:
        return answer_frame(request, answer.code, answer.remark, None, answer.body)
    except ValueError as error:  # a code that the asker's header codec cannot carry
        return refusal(request, ResponseCode.SYSTEM_ERROR, str(error))


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
