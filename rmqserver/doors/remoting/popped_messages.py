"""The requests that follow a pop: acknowledgements and invisible times (``AckMessageProcessor``,
``ChangeInvisibleTimeProcessor``), whether a group pops and which queues its clients have
(``QueryAssignmentProcessor``), and lite topics (``LiteSubscriptionCtlProcessor``, ``LiteManagerProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.bodies.lite import LiteSubscriptionCtl
from rmqproto.bodies.popping import AssignmentRequest, BatchAcks, RequestMode, RequestModes
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.popping import AckHeader, ChangeInvisibleTimeAnswer, ChangeInvisibleTimeHeader
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.doors.remoting.handlers import done, refused_with, value_of, with_body
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.consuming.lite.infos import LiteInfos
    from rmqserver.broker.consuming.lite.subscriptions import LiteSubscriptions
    from rmqserver.broker.consuming.pop.acks import Acks
    from rmqserver.broker.consuming.pop.assignment import Assigning
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


class AckRequests:
    def __init__(self, acks: Acks):
        self._acks = acks

    def handlers(self) -> dict[int, Handler]:
        return {
            R.ACK_MESSAGE: self._ack,
            R.BATCH_ACK_MESSAGE: done(self._batch_ack),
            R.CHANGE_MESSAGE_INVISIBLETIME: refused_with(ChangeInvisibleTimeAnswer(), self._change),
        }

    def _ack(self, request: Request[AckHeader], connection: Connection) -> bytes:
        self._acks.ack(request.header, connection)
        return success(request)

    def _batch_ack(self, request: Request[Any], connection: Connection) -> None:
        body = loads_untrusted(request.body, BatchAcks) if request.body else BatchAcks()
        if not body.acks:
            raise Refused(ResponseCode.NO_MESSAGE, None)
        for ack in body.acks:
            self._acks.ack_batch(ack, body.broker_name, connection)

    def _change(self, request: Request[ChangeInvisibleTimeHeader], connection: Connection) -> bytes:
        return success(request, self._acks.change(request.header, connection), remark=UNSET_REMARK)


class AssignmentRequests:
    def __init__(self, assigning: Assigning):
        self._assigning = assigning

    def handlers(self) -> dict[int, Handler]:
        assigning = self._assigning
        return {
            R.SET_MESSAGE_REQUEST_MODE: done(
                lambda request, _: assigning.set_mode(loads_untrusted(request.body, RequestMode))
            ),
            R.GET_ALL_MESSAGE_REQUEST_MODE: value_of(
                lambda request, _: RequestModes(message_request_mode_map=assigning.modes)
            ),
            R.QUERY_ASSIGNMENT: self._query,
        }

    def _query(self, request: Request[Any], connection: Connection) -> None:
        asked = loads_untrusted(request.body, AssignmentRequest)
        request.body = b""
        self._assigning.query(asked, lambda found: send_answer(request, connection, with_body(request, found)))


class LiteRequests:
    def __init__(self, subscriptions: LiteSubscriptions, infos: LiteInfos):
        self._subscriptions = subscriptions
        self._infos = infos

    def handlers(self) -> dict[int, Handler]:
        infos = self._infos
        return {
            R.LITE_SUBSCRIPTION_CTL: done(self._subscribe),
            R.GET_BROKER_LITE_INFO: value_of(lambda request, _: infos.broker()),
            R.GET_PARENT_TOPIC_INFO: value_of(lambda request, _: infos.parent_topic(request.header.topic)),
            R.GET_LITE_TOPIC_INFO: value_of(
                lambda request, _: infos.lite_topic(request.header.parent_topic or "", request.header.lite_topic or "")
            ),
            R.GET_LITE_CLIENT_INFO: value_of(lambda request, _: infos.client(request.header)),
            R.GET_LITE_GROUP_INFO: value_of(lambda request, _: infos.group(request.header), UNSET_REMARK),
            R.TRIGGER_LITE_DISPATCH: done(lambda request, _: infos.dispatch(request.header), UNSET_REMARK),
        }

    def _subscribe(self, request: Request[Any], connection: Connection) -> None:
        if not request.body:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "Request body is null.")
        changes = loads_untrusted(request.body, LiteSubscriptionCtl).subscription_set
        if not changes:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "LiteSubscriptionCtlRequestBody is empty.")
        for change in changes:
            if change.client_id and change.group and change.topic:
                self._subscriptions.change(change, change.client_id, change.group, change.topic, connection)
