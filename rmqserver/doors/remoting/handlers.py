"""Makes handlers of operations: most requests only call one, and are answered that it is done, or with its value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rmqproto.wire.fastjson import dumps
from rmqserver.doors.remoting.held_answers import answer_read
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success

if TYPE_CHECKING:
    from rmqproto.headers.base import Header
    from rmqserver.broker.reads import Reads
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

Operation = Callable[[Request[Any], "Connection"], Any]
"""Takes the request and its peer."""


def done(act: Operation, remark: str | None = None) -> Handler:
    """Answers that the operation has succeeded."""

    def handle(request: Request[Any], connection: Connection) -> bytes:
        act(request, connection)
        return success(request, remark=remark)

    return handle


def value_of(operation: Operation, remark: str | None = None) -> Handler:
    """Answers with the operation's value as JSON; None: without a body."""

    def handle(request: Request[Any], connection: Connection) -> bytes:
        return with_body(request, operation(request, connection), remark)

    return handle


def with_body(request: Request[Any], found: object, remark: str | None = None) -> bytes:
    return success(request, body=b"" if found is None else dumps(found), remark=remark)


def what_it_reads(
    reads: Reads, operation: Operation, answer: Callable[[Request[Any], Any], bytes] = with_body
) -> Handler:
    """Answers with what the function reads that the operation returns (see ``Reads.read``)."""

    def handle(request: Request[Any], connection: Connection) -> None:
        read = operation(request, connection)
        answer_read(reads, request, connection, read, lambda found: answer(request, found))

    return handle


def refused_with(header: Header, handler: Handler) -> Handler:
    """As ``handler``, whose refusals have that header."""

    def handle(request: Request[Any], connection: Connection) -> bytes | None:
        try:
            return handler(request, connection)
        except Refused as refused:
            refused.header = refused.header or header
            raise

    return handle
