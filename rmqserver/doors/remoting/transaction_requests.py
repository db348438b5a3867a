"""END_TRANSACTION (37): a producer says how its transaction ended (``EndTransactionProcessor``, 5.5.0). Also
RESUME_CHECK_HALF_MESSAGE (323), with which a tool has a message checked anew."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode
from rmqproto.headers.transactions import UNKNOWN, EndTransactionHeader, ResumeCheckHeader
from rmqserver.doors.remoting.held_answers import answer_read, put_off
from rmqserver.doors.remoting.sent_answers import telling
from rmqserver.remoting.answer import Request, success

if TYPE_CHECKING:
    from rmqserver.broker.reads import Reads
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.broker.transactions.end_transaction import EndTransactions
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler
    from rmqserver.store.message_store import MessageStore


class TransactionRequests:
    def __init__(self, ends: EndTransactions, store: MessageStore, reads: Reads, pending: PendingPuts):
        self._ends = ends
        self._store = store
        self._reads = reads
        self._pending = pending

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.END_TRANSACTION: self._end, RequestCode.RESUME_CHECK_HALF_MESSAGE: self._resume}

    def _end(self, request: Request[EndTransactionHeader], connection: Connection) -> None:
        """A producer that does not know how its transaction ended gets no answer, as from Apache's broker."""
        header, on_done = request.header, telling(request, connection)
        if header.commit_or_rollback == UNKNOWN:
            return
        if not self._ends.is_ready(header):
            put_off(self._store, request, connection, partial(self._end_later, request, connection))
            return

        def then(record: bytes | None) -> None:
            self._ends.end(header, record, on_done)

        answer_read(self._reads, request, connection, partial(self._ends.record, header.commit_log_offset), then)

    def _end_later(self, request: Request[EndTransactionHeader], connection: Connection) -> None:
        try:
            self._end(request, connection)
        finally:
            self._pending.end_round()

    def _resume(self, request: Request[ResumeCheckHeader], connection: Connection) -> None:
        def then(record: bytes | None) -> bytes:
            self._ends.resume(record)
            return success(request)

        answer_read(self._reads, request, connection, partial(self._ends.named, request.header.msg_id), then)
