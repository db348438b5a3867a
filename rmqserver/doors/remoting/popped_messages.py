"""The requests that follow a pop: acknowledgements and invisible times (``AckMessageProcessor``,
``ChangeInvisibleTimeProcessor``), whether a group pops and which queues its clients have
(``QueryAssignmentProcessor``), and lite topics (``LiteSubscriptionCtlProcessor``, ``LiteManagerProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.bodies.lite import LiteSubscriptionCtl
from rmqproto.bodies.popping import AssignmentRequest, Assignments, BatchAcks, RequestMode, RequestModes
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.lite import LiteClientHeader, LiteDispatchHeader, LiteGroupHeader, LiteTopicHeader
from rmqproto.headers.popping import AckHeader, ChangeInvisibleTimeHeader
from rmqproto.headers.tables import TopicHeader
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, refusal, send_answer, success

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
            R.BATCH_ACK_MESSAGE: self._batch_ack,
            R.CHANGE_MESSAGE_INVISIBLETIME: self._change,
        }

    def _ack(self, request: Request[AckHeader], connection: Connection) -> bytes:
        self._acks.ack(request.header, connection)
        return success(request)

    def _batch_ack(self, request: Request[Any], connection: Connection) -> bytes:
        body = loads_untrusted(request.body, BatchAcks) if request.body else BatchAcks()
        if not body.acks:
            return refusal(request, ResponseCode.NO_MESSAGE, None)
        for ack in body.acks:
            self._acks.ack_batch(ack, body.broker_name, connection)
        return success(request)

    def _change(self, request: Request[ChangeInvisibleTimeHeader], connection: Connection) -> bytes:
        return success(request, self._acks.change(request.header, connection), remark=UNSET_REMARK)


class AssignmentRequests:
    def __init__(self, assigning: Assigning):
        self._assigning = assigning

    def handlers(self) -> dict[int, Handler]:
        return {
            R.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            R.GET_ALL_MESSAGE_REQUEST_MODE: self._all_modes,
            R.QUERY_ASSIGNMENT: self._query,
        }

    def _set_mode(self, request: Request[Any], connection: Connection) -> bytes:
        self._assigning.set_mode(loads_untrusted(request.body, RequestMode))
        return success(request)

    def _all_modes(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=dumps(RequestModes(message_request_mode_map=self._assigning.modes)))

    def _query(self, request: Request[Any], connection: Connection) -> None:
        asked = loads_untrusted(request.body, AssignmentRequest)
        request.body = b""

        def then(assignments: Assignments) -> None:
            send_answer(request, connection, success(request, body=dumps(assignments)))

        self._assigning.query(asked, then)


class LiteRequests:
    def __init__(self, subscriptions: LiteSubscriptions, infos: LiteInfos):
        self._subscriptions = subscriptions
        self._infos = infos

    def handlers(self) -> dict[int, Handler]:
        return {
            R.LITE_SUBSCRIPTION_CTL: self._subscribe,
            R.GET_BROKER_LITE_INFO: lambda request, _: success(request, body=dumps(self._infos.broker())),
            R.GET_PARENT_TOPIC_INFO: self._parent_topic,
            R.GET_LITE_TOPIC_INFO: self._lite_topic,
            R.GET_LITE_CLIENT_INFO: self._client,
            R.GET_LITE_GROUP_INFO: self._group,
            R.TRIGGER_LITE_DISPATCH: self._dispatch,
        }

    def _subscribe(self, request: Request[Any], connection: Connection) -> bytes:
        if not request.body:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "Request body is null.")
        changes = loads_untrusted(request.body, LiteSubscriptionCtl).subscription_set
        if not changes:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "LiteSubscriptionCtlRequestBody is empty.")
        for change in changes:
            if change.client_id and change.group and change.topic:
                self._subscriptions.change(change, change.client_id, change.group, change.topic, connection)
        return success(request)

    def _parent_topic(self, request: Request[TopicHeader], connection: Connection) -> bytes:
        return success(request, body=dumps(self._infos.parent_topic(request.header.topic)))

    def _lite_topic(self, request: Request[LiteTopicHeader], connection: Connection) -> bytes:
        header = request.header
        return success(request, body=dumps(self._infos.lite_topic(header.parent_topic or "", header.lite_topic or "")))

    def _client(self, request: Request[LiteClientHeader], connection: Connection) -> bytes:
        return success(request, body=dumps(self._infos.client(request.header)))

    def _group(self, request: Request[LiteGroupHeader], connection: Connection) -> bytes:
        return success(request, body=dumps(self._infos.group(request.header)), remark=UNSET_REMARK)

    def _dispatch(self, request: Request[LiteDispatchHeader], connection: Connection) -> bytes:
        self._infos.dispatch(request.header)
        return success(request, remark=UNSET_REMARK)
