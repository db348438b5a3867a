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
from rmqproto.headers.client_calls import ConsumeDirectlyHeader, ConsumerStatusHeader, RunningInfoHeader
from rmqproto.headers.consuming import ConsumerGroupHeader, HeartbeatAnswer
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.doors.remoting.handlers import answer_read, done, value_of, with_body
from rmqserver.operation import UNSET_REMARK, PeerAnswer
from rmqserver.remoting.answer import Request, answer_frame, refusal, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.clients.client_admin import ClientAdmin
    from rmqserver.broker.clients.membership import Membership, QueueLocks
    from rmqserver.broker.consuming.filters import Filters
    from rmqserver.broker.reads import Reads
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


class ClientRequests:
    def __init__(self, membership: Membership, filters: Filters, locks: QueueLocks, admin: ClientAdmin, reads: Reads):
        self._membership = membership
        self._filters = filters
        self._locks = locks
        self._admin = admin
        self._reads = reads

    def handlers(self) -> dict[int, Handler]:
        return {
            R.HEART_BEAT: self._heartbeat,
            R.UNREGISTER_CLIENT: done(lambda request, peer: self._membership.unregister(request.header, peer)),
            R.GET_CONSUMER_LIST_BY_GROUP: value_of(self._members),
            R.CHECK_CLIENT_CONFIG: done(self._check_client),
            R.LOCK_BATCH_MQ: value_of(self._lock),
            R.UNLOCK_BATCH_MQ: done(self._unlock),
            R.GET_CONSUMER_CONNECTION_LIST: value_of(
                lambda request, _: self._admin.consumer_connections(request.header.consumer_group)
            ),
            R.GET_PRODUCER_CONNECTION_LIST: value_of(
                lambda request, _: self._admin.producer_connections(request.header.producer_group)
            ),
            R.GET_ALL_PRODUCER_INFO: value_of(lambda request, _: self._admin.all_producers()),
            R.GET_CONSUMER_RUNNING_INFO: self._running_info,
            R.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self._consumer_status,
        }

    # --- a client of its own account ---------------------------------------------------------------------------------

    def _heartbeat(self, request: Request[Any], connection: Connection) -> None:
        heartbeat = loads_untrusted(request.body, Heartbeat)
        wants_subscriptions, tell_members = self._membership.heartbeat(
            heartbeat, connection, request.language, request.version, len(request.body)
        )
        # The answer goes first: a client that heard of its own arrival earlier would take it for another client's.
        send_answer(request, connection, success(request, HeartbeatAnswer(is_sub_change=wants_subscriptions)))
        tell_members()

    def _members(self, request: Request[ConsumerGroupHeader], connection: Connection) -> ConsumerIds:
        return ConsumerIds(consumer_id_list=self._membership.members(request.header.consumer_group))

    def _check_client(self, request: Request[Any], connection: Connection) -> None:
        if request.body:
            self._filters.check_subscription(loads_untrusted(request.body, CheckClientRequest).subscription_data)

    def _lock(self, request: Request[Any], connection: Connection) -> LockAnswer:
        wanted = loads_untrusted(request.body, LockRequest)
        locked = self._locks.lock(wanted.consumer_group, wanted.client_id, wanted.mq_set)
        return LockAnswer(lock_ok_mq_set=locked)

    def _unlock(self, request: Request[Any], connection: Connection) -> None:
        wanted = loads_untrusted(request.body, LockRequest)
        self._locks.unlock(wanted.consumer_group, wanted.client_id, wanted.mq_set)

    # --- tools about clients -----------------------------------------------------------------------------------------

    def _running_info(self, request: Request[RunningInfoHeader], connection: Connection) -> None:
        self._admin.running_info(request.header, _relayed(request, connection))

    def _consume_directly(self, request: Request[ConsumeDirectlyHeader], connection: Connection) -> None:
        def then(record: bytes | None) -> None:
            self._admin.consume_directly(request.header, record, _relayed(request, connection))

        answer_read(self._reads, request, connection, partial(self._admin.record, request.header), then)

    def _consumer_status(self, request: Request[ConsumerStatusHeader], connection: Connection) -> None:
        def then(status: ConsumerStatus) -> None:
            send_answer(request, connection, with_body(request, status, UNSET_REMARK))

        self._admin.consumer_status(request.header, then)


def _relayed(request: Request[Any], connection: Connection) -> Callable[[PeerAnswer], None]:
    """Passes a client's answer back, whatever it is."""

    def on_answer(answer: PeerAnswer) -> None:
        try:
            frame = answer_frame(request, answer.code, answer.remark, None, answer.body)
        except ValueError as error:  # a code that the asker's header codec cannot carry
            frame = refusal(request, ResponseCode.SYSTEM_ERROR, str(error))
        send_answer(request, connection, frame)

    return on_answer
