"""The requests of and about online clients: heartbeats, members, locks of queues, and questions that only a client can
answer (``ClientManageProcessor``, ``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.groups import CheckClientRequest, ConsumerIds, Heartbeat, LockAnswer, LockRequest
from rmqproto.bodies.statistics import ConsumerStatus
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.consuming import ConsumeDirectlyHeader, ConsumerStatusHeader, HeartbeatAnswer, RunningInfoHeader
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.doors.remoting.handlers import answer_read, done, value_of, with_body
from rmqserver.operation import UNSET_REMARK, PeerAnswer
from rmqserver.remoting.answer import Request, answer_frame, refusal, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.assembly import BrokerAssembly
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


def client_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    return {
        R.HEART_BEAT: partial(_heartbeat, parts),
        R.UNREGISTER_CLIENT: done(lambda request, peer: parts.membership.unregister(request.header, peer)),
        R.GET_CONSUMER_LIST_BY_GROUP: value_of(
            lambda request, _: ConsumerIds(consumer_id_list=parts.membership.members(request.header.consumer_group))
        ),
        R.CHECK_CLIENT_CONFIG: done(partial(_check_client, parts)),
        R.LOCK_BATCH_MQ: value_of(partial(_lock, parts)),
        R.UNLOCK_BATCH_MQ: done(partial(_unlock, parts)),
        R.GET_CONSUMER_CONNECTION_LIST: value_of(
            lambda request, _: parts.client_admin.consumer_connections(request.header.consumer_group)
        ),
        R.GET_PRODUCER_CONNECTION_LIST: value_of(
            lambda request, _: parts.client_admin.producer_connections(request.header.producer_group)
        ),
        R.GET_ALL_PRODUCER_INFO: value_of(lambda request, _: parts.client_admin.all_producers()),
        R.GET_CONSUMER_RUNNING_INFO: partial(_running_info, parts),
        R.CONSUME_MESSAGE_DIRECTLY: partial(_consume_directly, parts),
        R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: partial(_consumer_status, parts),
    }


def _heartbeat(parts: BrokerAssembly, request: Request[Any], connection: Connection) -> None:
    heartbeat = loads_untrusted(request.body, Heartbeat)
    wants_subscriptions, tell_members = parts.membership.heartbeat(
        heartbeat, connection, request.language, request.version, len(request.body)
    )
    # The answer goes first: a client that heard of its own arrival earlier would take it for another client's.
    send_answer(request, connection, success(request, HeartbeatAnswer(is_sub_change=wants_subscriptions)))
    tell_members()


def _check_client(parts: BrokerAssembly, request: Request[Any], connection: Connection) -> None:
    if request.body:
        parts.filters.check_subscription(loads_untrusted(request.body, CheckClientRequest).subscription_data)


def _lock(parts: BrokerAssembly, request: Request[Any], connection: Connection) -> LockAnswer:
    wanted = loads_untrusted(request.body, LockRequest)
    locked = parts.locks.lock(wanted.consumer_group, wanted.client_id, wanted.mq_set)
    return LockAnswer(lock_ok_mq_set=locked)


def _unlock(parts: BrokerAssembly, request: Request[Any], connection: Connection) -> None:
    wanted = loads_untrusted(request.body, LockRequest)
    parts.locks.unlock(wanted.consumer_group, wanted.client_id, wanted.mq_set)


def _running_info(parts: BrokerAssembly, request: Request[RunningInfoHeader], connection: Connection) -> None:
    parts.client_admin.running_info(request.header, _relayed(request, connection))


def _consume_directly(parts: BrokerAssembly, request: Request[ConsumeDirectlyHeader], connection: Connection) -> None:
    def then(record: bytes | None) -> None:
        parts.client_admin.consume_directly(request.header, record, _relayed(request, connection))

    answer_read(parts.reads, request, connection, partial(parts.client_admin.record, request.header), then)


def _consumer_status(parts: BrokerAssembly, request: Request[ConsumerStatusHeader], connection: Connection) -> None:
    def then(status: ConsumerStatus) -> None:
        send_answer(request, connection, with_body(request, status, UNSET_REMARK))

    parts.client_admin.consumer_status(request.header, then)


def _relayed(request: Request[Any], connection: Connection) -> Callable[[PeerAnswer], None]:
    """Passes a client's answer back, whatever it is."""

    def on_answer(answer: PeerAnswer) -> None:
        try:
            frame = answer_frame(request, answer.code, answer.remark, None, answer.body)
        except ValueError as error:  # a code that the asker's header codec cannot carry
            frame = refusal(request, ResponseCode.SYSTEM_ERROR, str(error))
        send_answer(request, connection, frame)

    return on_answer
