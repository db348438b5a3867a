"""Requests for tests of sending and consuming, each in one call."""

from rmqproto.codes import RequestCode as R
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, PULL_SUSPEND, PullHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.wire.command import Command, encode_frame
from tests.support.wire import Wire

BORN_MS = 1_700_000_000_000
HELD_MS = 15_000
"""Longer than any test waits, so no held pull is answered because its time is over."""


def text(**properties: str) -> str:
    return props.render(properties)


def send_header(topic: str, queue_id: int = 0, **fields: object) -> SendHeaderV2:
    values = {"producer_group": "G", "default_topic": "TBW102", "default_topic_queue_nums": 4, **fields}
    return SendHeaderV2(topic=topic, queue_id=queue_id, born_timestamp=BORN_MS, **values)  # type: ignore[arg-type]


def send(wire: Wire, topic: str, queue_id: int = 0, body: bytes = b"body", **fields: object) -> Command:
    return wire.ask(R.SEND_MESSAGE_V2, send_header(topic, queue_id, **fields), body)


def pull_header(
    topic: str, queue_id: int = 0, queue_offset: int = 0, *, group: str = "CG", expression: str | None = "*",
    hold_ms: int = 0, **fields: object,
) -> PullHeader:  # fmt: skip
    """Without an ``expression`` the subscription of the group's heartbeats counts."""
    flag = (PULL_SUBSCRIPTION if expression is not None else 0) | (PULL_SUSPEND if hold_ms else 0)
    values: dict[str, object] = {"max_msg_nums": 32, "sys_flag": flag, **fields}
    return PullHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        suspend_timeout_millis=hold_ms,
        subscription=expression,
        **values,  # type: ignore[arg-type]
    )


def pull(wire: Wire, topic: str, queue_id: int = 0, queue_offset: int = 0, **fields: object) -> Command:
    return wire.ask(R.PULL_MESSAGE, pull_header(topic, queue_id, queue_offset, **fields))  # type: ignore[arg-type]


def start_pull(wire: Wire, topic: str, queue_id: int = 0, queue_offset: int = 0, **fields: object) -> None:
    """Sends a long poll, whose answer comes by ``wire.receive``."""
    fields.setdefault("hold_ms", HELD_MS)
    header = pull_header(topic, queue_id, queue_offset, **fields)  # type: ignore[arg-type]
    wire.send(encode_frame(Command(code=R.PULL_MESSAGE, opaque=1, ext=to_ext(header))))


def hold_pull(wire: Wire, topic: str, queue_id: int = 0, queue_offset: int = 0, **fields: object) -> None:
    """Like ``start_pull``, but the broker already holds the pull at return."""
    start_pull(wire, topic, queue_id, queue_offset, **fields)
    wire.send(encode_frame(Command(code=R.GET_MAX_OFFSET, opaque=2, ext={"topic": topic, "queueId": "0"})))
    assert wire.receive().opaque == 2, "the pull was answered at once"


def stored(wire: Wire, topic: str, queue_id: int = 0, queue_offset: int = 0) -> list[StoredMessage]:
    """The messages of a queue from an offset on."""
    answer = pull(wire, topic, queue_id, queue_offset)
    assert answer.code == 0, (answer.code, answer.remark)
    return decode_records_untrusted(answer.body)


def bodies(answer: Command) -> list[bytes]:
    return [message.body for message in decode_records_untrusted(answer.body)]
