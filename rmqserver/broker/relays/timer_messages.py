"""What a message of the timer topic says, and the properties of its copy (``TimerMessageStore.convert``, 5.5.0)."""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.message.special_messages import is_recalled

log = logging.getLogger(__name__)

NEVER_IN_WHEEL = 2**63 - 1
"""The enqueue time of a message that was due when it was read (``Long.MAX_VALUE``)."""

_USUAL_END = b"\x02TIMER_OUT_MS\x01"
_ENDS_AS_USUAL = re.compile(
    _USUAL_END + rb"([0-9]{1,18})\x02REAL_TOPIC\x01([^\x02]+)\x02REAL_QID\x01([0-9]{1,9})\x02\Z"
)
"""The properties that this broker adds, as it writes them. Apache's broker has them in any place."""


class TimerMessage(NamedTuple):
    """``topic`` and ``queue_id``: where its copy goes; ``out_ms``: the time of its slot; ``is_recall``: it only recalls
    another message."""

    stored: StoredMessage
    topic: str
    queue_id: int
    out_ms: int
    is_recall: bool
    is_plain: bool
    """Whether its properties are those of a message that was never rolled, and end with what this broker has added."""

    def properties_of_copy(self, enqueue_ms: int, now_ms: int, *, is_roll: bool = False) -> bytes:
        """The properties of its copy. Raises ProtocolError if its number of rolls cannot be read."""
        if self.is_plain and not is_roll:
            added = b"TIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%d\x02" % (enqueue_ms, now_ms)
            return self.stored.properties_raw + added
        properties = self.stored.properties
        properties[props.TIMER_ENQUEUE_MS] = str(enqueue_ms)
        if is_roll:
            properties[props.TIMER_ROLL_TIMES] = str(_number(properties.get(props.TIMER_ROLL_TIMES, "0")) + 1)
        properties[props.TIMER_DEQUEUE_MS] = str(now_ms)
        return props.joined(properties)

    def is_recalled(self, keys: set[str]) -> bool:
        """Whether one of these keys recalls it."""
        return is_recalled(self.stored, keys)


def timer_message(stored: StoredMessage) -> TimerMessage:
    """The timer message in a record. Raises ProtocolError if it does not say for which queue it is, and when."""
    raw = stored.properties_raw
    found = _ENDS_AS_USUAL.match(raw, max(raw.rfind(_USUAL_END), 0))
    is_first = not (b"TIMER_DEL_UNIQKEY" in raw or b"TIMER_ENQUEUE_MS" in raw or b"TIMER_DEQUEUE_MS" in raw)
    if found is not None and is_first:
        out, real_topic, real_id = found.groups()
        return TimerMessage(stored, real_topic.decode("utf-8", "replace"), int(real_id), int(out), False, True)
    properties = stored.properties
    topic, queue_id = props.real_queue_untrusted(properties)
    out_ms = _number(properties.get(props.TIMER_OUT_MS, ""))
    is_recall = props.TIMER_DELETE_UNIQUE_KEY in properties
    return TimerMessage(stored, topic, queue_id, out_ms, is_recall, False)


def decoded(record: bytes) -> TimerMessage | None:
    """The message of a record; None if the log no longer has it."""
    try:
        return timer_message(decode_record_untrusted(record))
    except ProtocolError as error:
        log.error("event=timer-message-gone reason=%r", str(error))
        return None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ProtocolError(f"a timer message with {text[:40]!r} for a number") from None
