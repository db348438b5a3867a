"""The codes of answers (``apache.rocketmq.v2.Code``), and how refusals of operations become them
(``ResponseBuilder``, 5.5.0)."""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqserver.broker.errors import as_refused
from rmqserver.doors.grpc.messages import CLASSES
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.broker.sending.pending import Outcome


log = logging.getLogger(__name__)


class Code(IntEnum):
    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    ILLEGAL_LITE_TOPIC = 40020
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    TOO_MANY_REQUESTS = 42900
    LITE_TOPIC_QUOTA_EXCEEDED = 42901
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 42902
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402


class GrpcStatus(IntEnum):
    """``grpc-status``, where the call itself fails."""

    INVALID_ARGUMENT = 3
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


_OF_RESPONSES: dict[int, Code] = {
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
    ResponseCode.LMQ_QUOTA_EXCEEDED: Code.LITE_TOPIC_QUOTA_EXCEEDED,
    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
}


class CallRefused(Exception):
    """Raised by a call: it is answered with this code and these words."""

    def __init__(self, code: Code, text: str):
        super().__init__(code, text)
        self.code = code
        self.text = text

    @property
    def status(self) -> Any:
        return status(self.code, self.text)


def refuse_if(is_wrong: object, code: Code, text: str) -> None:
    if is_wrong:
        raise CallRefused(code, text)


def refusal_of(refused: Refused) -> CallRefused:
    return CallRefused(_OF_RESPONSES.get(refused.code, Code.INTERNAL_SERVER_ERROR), refused.remark or "")


def refusal_for(error: Exception, call: str, peer: str) -> CallRefused:
    """How a call is refused that has raised this. A mistake of our own is logged."""
    refused = as_refused(error)
    if isinstance(error, CallRefused):
        return error
    if refused is not None:
        return refusal_of(refused)
    if isinstance(error, ProtocolError):
        return CallRefused(Code.INTERNAL_SERVER_ERROR, str(error))
    log.error("event=call-failed call=%s peer=%s", call, peer, exc_info=error)
    return CallRefused(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


def status_of(outcome: Outcome) -> Any:
    """The status of a message that was put, or was not."""
    return OK if outcome.code == ResponseCode.SUCCESS else refusal_of(Refused(outcome.code, outcome.remark)).status


def status(code: int, text: str) -> Any:
    return _STATUS(code=code, message=text)


_STATUS = CLASSES["Status"]
OK = status(Code.OK, "OK")
"""Nearly every answer's. It is copied into answers, and never changed."""
