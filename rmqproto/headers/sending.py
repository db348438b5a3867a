"""Headers of sends and send-backs, of the producer's request to end a transaction, and of the broker's check of one
that has not ended."""

from __future__ import annotations

import msgspec

from rmqproto.headers.base import Header, LenientBool
from rmqproto.java.java_numbers import Int32, Int64
from rmqproto.message.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK


class SendHeader(Header, kw_only=True):
    """10 SEND_MESSAGE. ``batch``, not the request code, decides whether this is a batch. C++ clients of 1.x write "1"
    there. Apache reads that as false and stores the whole batch as the body of one message; here it is a batch.
    ``unit_mode`` is kept as text, which costs the hot path nothing: ``is_unit`` reads it as Java does."""

    producer_group: str = ""
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 = 0
    queue_id: Int32
    sys_flag: Int32 = 0
    born_timestamp: Int64
    flag: Int32 = 0
    properties: str = ""
    reconsume_times: Int32 = 0
    unit_mode: str = "false"
    max_reconsume_times: Int32 | None = None
    batch: LenientBool = False
    broker_name: str | None = msgspec.field(default=None, name="bname")

    @property
    def is_unit(self) -> bool:
        return self.unit_mode.lower() == "true"


class SendHeaderV2(SendHeader, kw_only=True):
    """310 SEND_MESSAGE_V2 and 320 SEND_BATCH_MESSAGE: the same fields, one letter each on the wire."""

    producer_group: str = msgspec.field(default="", name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(default="", name="c")
    default_topic_queue_nums: Int32 = msgspec.field(default=0, name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(default=0, name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(default=0, name="h")
    properties: str = msgspec.field(default="", name="i")
    reconsume_times: Int32 = msgspec.field(default=0, name="j")
    unit_mode: str = msgspec.field(default="false", name="k")
    max_reconsume_times: Int32 | None = msgspec.field(default=None, name="l")
    batch: LenientBool = msgspec.field(default=False, name="m")
    broker_name: str | None = msgspec.field(default=None, name="n")


class SendAnswer(Header, kw_only=True):
    """``message_id`` is the offset id (comma-joined for a batch), ``queue_offset`` the first message's."""

    message_id: str = msgspec.field(name="msgId")
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    msg_region: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: str | None = msgspec.field(default=None, name="TRACE_ON")
    recall_handle: str | None = None
    repeated: str | None = None
    """Our extension: "true" if the message was stored already, at this place."""


class RecallHeader(Header, kw_only=True):
    """370 RECALL_MESSAGE. ``recall_handle`` comes from the answer to the send."""

    producer_group: str | None = None
    topic: str
    recall_handle: str
    broker_name: str | None = msgspec.field(default=None, name="bname")


class RecallAnswer(Header, kw_only=True):
    """``message_id`` is the unique key of the recalled message; a refusal has none."""

    message_id: str | None = msgspec.field(default=None, name="msgId")
    msg_region: str = msgspec.field(name="MSG_REGION")


class SendBackHeader(Header, kw_only=True):
    """36 CONSUMER_SEND_MSG_BACK. ``offset`` is the commit log offset."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


# --- transactions ----------------------------------------------------------------------------------------------------


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
