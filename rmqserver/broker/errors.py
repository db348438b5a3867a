"""The refusals of the broker's tables, independent of the protocol; only ``as_refused`` turns them into answers."""

from __future__ import annotations

from rmqproto.codes import ResponseCode
from rmqproto.errors import RocketMQError, StorageError
from rmqserver.auth.auth_table import AuthRefused
from rmqserver.operation import Refused


class TableFull(RocketMQError):
    """A table of topics, groups, offsets or permissions has no room for one more entry."""


class TooManyClients(RocketMQError):
    """There is no room for one more client, or for what it subscribes to."""


class NameTooLong(RocketMQError):
    """A client id or a group is longer than the broker keeps."""


_CODES: dict[type[RocketMQError], ResponseCode] = {
    TableFull: ResponseCode.SYSTEM_ERROR,
    TooManyClients: ResponseCode.SYSTEM_BUSY,
    NameTooLong: ResponseCode.INVALID_PARAMETER,
    AuthRefused: ResponseCode.NO_PERMISSION,
    StorageError: ResponseCode.SYSTEM_ERROR,
}


def as_refused(error: Exception) -> Refused | None:
    """The answer to one of the broker's own refusals; None for any other error."""
    if isinstance(error, Refused):
        return error
    code = _CODES.get(type(error)) if isinstance(error, RocketMQError) else None
    return Refused(code, str(error)) if code is not None else None
