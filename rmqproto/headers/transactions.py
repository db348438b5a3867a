"""Headers of transactions: the producer's request to end one, and the broker's check of one that has not ended."""

from __future__ import annotations

import msgspec

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64
from rmqproto.message.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK

COMMIT = TRANSACTION_COMMIT
ROLLBACK = TRANSACTION_ROLLBACK
UNKNOWN = 0
"""The values of ``commit_or_rollback``."""


class EndTransactionHeader(Header, kw_only=True):
    """37 END_TRANSACTION. ``tran_state_table_offset`` is the queue offset of the half message, ``commit_log_offset``
    its log offset, ``msg_id`` and ``transaction_id`` its unique key. Clients send it oneway."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class CheckTransactionHeader(Header, kw_only=True):
    """39 CHECK_TRANSACTION_STATE, oneway from a broker to a producer; the body is the message as a record, with its
    real topic and queue. The offsets are those of the newest copy of the half message, for use in the producer's 37."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class ResumeCheckHeader(Header, kw_only=True):
    """323 RESUME_CHECK_HALF_MESSAGE. ``msg_id`` is an offset message id."""

    topic: str | None = None
    msg_id: str
