"""The rows of the table: the requests, over how many connections, and how many at once. Unique keys, keys and queues
differ between requests (``load.c`` counts them up), so that no broker can take a short cut."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from rmqproto.codes import RequestCode
from rmqproto.headers.base import Header, to_ext
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, PULL_SUSPEND, PullHeader, QueueHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message import properties
from rmqproto.message.record import BatchItem, encode_batch
from rmqproto.wire.command import Command, encode_frame

COUNTED_DIGITS = "1000000000"
"""``load.c`` replaces each of these by the request's number."""

PRODUCER_GROUP = "PID_compare"
UNIQUE_KEY = f"7F0000010A2B18B4AAC200{COUNTED_DIGITS}"

SMALL, LARGE = "compare_128", "compare_1k"


@dataclass(frozen=True)
class Row:
    """``connections`` x ``window`` requests are outstanding at once; each carries ``messages``. ``second`` is a request
    that is made from each good answer and follows it (``load.c``)."""

    name: str
    connections: int
    window: int
    frame: bytes
    messages: int = 1
    second: bytes = b""
    ratio_at_least: float | None = None
    """The bar for ours / Apache's rate."""

    @property
    def stores(self) -> bool:
        return not self.name.startswith(("pull", "max offset"))


def request(code: int, header: Header, body: bytes = b"", *, ext: Mapping[str, str] = {}) -> bytes:
    """A request. ``ext``: fields that replace the header's."""
    return encode_frame(Command(code=code, opaque=int(COUNTED_DIGITS), ext={**to_ext(header), **ext}, body=body))


def send_header(
    topic: str, *, queue_id: int = 0, batch: bool = False, sys_flag: int = 0, more: Mapping[str, str] = {}
) -> SendHeaderV2:  # fmt: skip
    keys = {"UNIQ_KEY": UNIQUE_KEY, "WAIT": "true", "TAGS": "TagA", "KEYS": f"order-{COUNTED_DIGITS}", **more}
    return SendHeaderV2(
        producer_group=PRODUCER_GROUP,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=int(time.time() * 1000),
        properties="" if batch else properties.render(keys),
        batch=batch,
    )


def send(
    topic: str, body: bytes, *, queue_id: int = 0, batch: bool = False, sys_flag: int = 0, more: Mapping[str, str] = {},
    ext: Mapping[str, str] = {},
) -> bytes:  # fmt: skip
    """A send. ``more``: properties beyond the usual ones; ``ext``: fields that replace the header's."""
    code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
    header = send_header(topic, queue_id=queue_id, batch=batch, sys_flag=sys_flag, more=more)
    return request(code, header, body, ext=ext)


def batch_of(count: int, size_bytes: int) -> bytes:
    def item(number: int) -> BatchItem:
        own = {"UNIQ_KEY": f"7F0000010A2B18B4AAC2{number:02}{COUNTED_DIGITS}", "TAGS": "TagA"}
        return BatchItem(0, b"x" * size_bytes, properties.render(own).encode())

    return encode_batch([item(number) for number in range(count)])


def pull(
    topic: str, queue_id: int = 0, queue_offset: int = 0, *, hold_ms: int = 0, wants: tuple[str, str] = ("TAG", "*")
) -> bytes:  # fmt: skip
    """A pull of 32 messages. With ``hold_ms``, it waits for one at the end of the queue. ``wants``: type and text of
    the filter, which is in the request as from a lite pull consumer."""
    header = PullHeader(
        consumer_group="CID_compare",
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        max_msg_nums=32,
        sys_flag=PULL_SUBSCRIPTION | (PULL_SUSPEND if hold_ms else 0),
        suspend_timeout_millis=hold_ms,
        subscription=wants[1],
        expression_type=wants[0],
    )
    return request(RequestCode.PULL_MESSAGE, header)


def row(name: str) -> Row:
    """The row of that name. KeyError if there is none."""
    return {each.name: each for each in rows()}[name]


def rows() -> list[Row]:
    small, large = send(SMALL, b"x" * 128), send(LARGE, b"x" * 1024)
    return [
        Row("send 1 x 1, 128 B", 1, 1, small),
        Row("send 8 x 1, 128 B", 8, 1, small),
        Row("send 64 x 1, 128 B", 64, 1, small),
        Row("send 64 x 1, 1 KiB", 64, 1, large),
        Row("send 4 x 64, 128 B", 4, 64, small),
        Row("send 4 x 64, 1 KiB", 4, 64, large),
        Row("batch of 32, 8 x 1, 128 B", 8, 1, send(SMALL, batch_of(32, 128), batch=True), 32),
        Row("pull 32, 8 x 1, 128 B", 8, 1, pull(SMALL), 32),
        Row("pull 32, 8 x 1, 1 KiB", 8, 1, pull(LARGE), 32),
        Row("max offset, 64 x 1", 64, 1, request(RequestCode.GET_MAX_OFFSET, QueueHeader(topic=SMALL, queue_id=0))),
    ]
