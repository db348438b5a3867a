"""Makes handlers of operations: most requests only call one, and are answered that it is done, or with its value.
Also how a request that waits goes on outside of its service's own handling."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rmqproto.codes import ResponseCode
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.errors import as_refused
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, refusal, send_answer, success
from rmqserver.store.disk.cached_reads import NotCached

if TYPE_CHECKING:
    from rmqproto.headers.base import Header
    from rmqproto.headers.consuming import QueueHeader
    from rmqserver.broker.reads import Reads
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)


T = TypeVar("T")


def answering(
    request: Request[Any], connection: Connection, go_on: Callable[[], None], *, refused_with: Header | None = None
) -> None:
    """Lets a held request go on, if its client is still there; an exception becomes its answer."""
    if connection.closed:
        return
    try:
        go_on()
    except Exception as error:
        refused = as_refused(error)
        if refused is None:
            log.exception("event=held-request-failed code=%d peer=%s", request.code, connection.address)
            frame = refusal(request, ResponseCode.SYSTEM_ERROR, str(error))
        else:
            frame = refusal(request, refused.code, refused.remark, refused.header or refused_with)
        send_answer(request, connection, frame)


def answer_read(
    reads: Reads, request: Request[Any], connection: Connection, fn: Callable[[], T], then: Callable[[T], bytes | None]
) -> None:
    """Sends the answer that ``then`` makes of what ``fn`` reads (see ``Reads.read``). If ``then`` returns None, it
    answers later itself, or not at all."""

    def send(found: T) -> None:
        answer = then(found)
        if answer is not None:
            send_answer(request, connection, answer)

    reads.read(fn, send, partial(answering, request, connection))


def with_queue(reads: Reads, opened: Callable[[QueueHeader], object], handler: Handler) -> Handler:
    """A handler for requests about a queue that need no read once it is open: ``handler`` raises NotCached if it is
    not, and is called again when ``opened`` has opened it."""

    def handle(request: Request[Any], connection: Connection) -> bytes | None:
        try:
            return handler(request, connection)
        except NotCached:
            open_it = partial(opened, request.header)
            answer_read(reads, request, connection, open_it, lambda _: handler(request, connection))
            return None

    return handle


def put_off(store: MessageStore, request: Request[Any], connection: Connection, go_on: Callable[[], None]) -> None:
    """Lets a request go on when the index has caught up after a start; no other request waits. Raises Refused if too
    many wait already."""

    if not store.when_indexed(partial(answering, request, connection, go_on)):
        text = "this broker still reads its log into the index, and many wait for that: ask again in a moment"
        raise Refused(ResponseCode.SYSTEM_BUSY, text)


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


def what_it_makes(reads: Reads, operation: Operation) -> Handler:
    """Answers with what the function makes that the operation returns, as JSON (see ``Reads.make``)."""

    def handle(request: Request[Any], connection: Connection) -> None:
        make = operation(request, connection)

        def send(body: bytes) -> None:
            send_answer(request, connection, success(request, body=body))

        reads.make(lambda: dumps(make()), send, partial(answering, request, connection))

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
