"""The request and answer of one pull (``PullAPIWrapper`` and ``PullSysFlag``, 5.5.0)."""

from __future__ import annotations

from enum import Enum

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import (
    PULL_BATCH_COUNT,
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullAnswer,
    PullHeader,
)
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.queue_mapping import is_mock_broker
from rmqproto.wire.command import Command


class PullStatus(Enum):
    """The outcome of a pull. ``NO_NEW`` and ``NO_MATCHED``: continue at ``next_begin_offset``. ``OFFSET_ILLEGAL``: the
    offset asked for is not in the queue, or was reset; continue at ``next_begin_offset``."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


PULL_ANSWER_CODES = frozenset(int(status.value) for status in PullStatus)


class PullResult(msgspec.Struct, frozen=True):
    """All offsets are queue offsets; ``messages`` is empty unless ``status`` is FOUND. It may hold messages whose tag
    only has the same hash as a wanted one."""

    status: PullStatus
    messages: list[StoredMessage]
    next_begin_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int


def pull_header(
    group: str,
    queue: MessageQueue,
    queue_offset: int,
    *,
    max_count: int = PULL_BATCH_COUNT,
    expression: str | None = None,
    expression_type: str = "TAG",
    subscription_version: int = 0,
    committed_offset: int | None = None,
    suspend_ms: int = 0,
) -> PullHeader:
    """Header of 11. ``expression`` travels with the request; with None the broker uses the one of the group's
    heartbeats.

    ``committed_offset`` is stored for the group on the way, except for a logical queue: Apache's broker (5.5.0) would
    store it as the offset of its own queue. ``suspend_ms`` lets the broker hold a request while it has no messages;
    with 0 it answers at once.
    """
    sys_flag = PULL_SUBSCRIPTION if expression is not None else 0
    sys_flag |= PULL_SUSPEND if suspend_ms else 0
    commits = committed_offset is not None and not is_mock_broker(queue.broker_name)
    sys_flag |= PULL_COMMIT_OFFSET if commits else 0
    return PullHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=queue_offset,
        max_msg_nums=max_count,
        sys_flag=sys_flag,
        commit_offset=committed_offset or 0,
        suspend_timeout_millis=suspend_ms,
        subscription=expression,
        sub_version=subscription_version,
        expression_type=expression_type,
    )


def pull_result_untrusted(answer: Command, queue: MessageQueue) -> PullResult:
    """The result in an answer to a pull of ``queue``, whose code is one of PULL_ANSWER_CODES. Messages of a logical
    queue have their offsets in that queue. ProtocolError if offsets or messages are damaged."""
    return pull_result(answer.code, from_ext(answer.ext, PullAnswer), answer.body, queue)


def pull_result(code: int, offsets: PullAnswer, body: bytes, queue: MessageQueue) -> PullResult:
    """As ``pull_result_untrusted``, for an answer in parts."""
    status = PullStatus(code)
    messages = decode_records_untrusted(body) if status is PullStatus.FOUND else []
    if offsets.offset_delta is not None:
        messages = [
            msgspec.structs.replace(
                each, queue_id=queue.queue_id, queue_offset=each.queue_offset + offsets.offset_delta
            )
            for each in messages
        ]
    return PullResult(
        status,
        messages,
        offsets.next_begin_offset,
        offsets.min_offset,
        offsets.max_offset,
        offsets.suggest_which_broker_id,
    )
