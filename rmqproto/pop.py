"""POP on the wire: the handles that acknowledge popped messages, the infos in answers, and the names of POP retry
topics (``ExtraInfoUtil``, ``KeyBuilder``, 5.5.0)."""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.names import RETRY_PREFIX

ORDER_REVIVE_QUEUE_ID = 999
"""Used in place of a revive queue in handles of messages that are popped in order."""

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""The kind of topic that a message was popped from."""

_SEPARATOR_V1, _SEPARATOR_V2 = "_", "+"
_HANDLE_PARTS = 8
_N = r"([0-9]{1,18})"
_USUAL_HANDLE = re.compile(f"{_N} {_N} {_N} {_N} ([012]) ([^ ]*) {_N} {_N}(?: [0-9]+)?")
_BITS = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]
_BITS_MAX_CHARS = 1 << 17
"""The limit for a set's text, with numbers up to 786,431: a pop returns 32 messages, but skips those not wanted."""
_BITS_KEPT_MAX_CHARS = 16
"""The limit for remembered texts, with numbers up to 95: consumers mostly acknowledge all messages of a pop."""


def pop_retry_topic(group: str, topic: str, *, is_v2: bool = False) -> str:
    """The topic through which messages come again that the group popped from ``topic`` and did not acknowledge."""
    return f"{RETRY_PREFIX}{group}{_SEPARATOR_V2 if is_v2 else _SEPARATOR_V1}{topic}"


def normal_topic(topic: str, group: str) -> str:
    """The topic behind a POP retry topic of the group; any other topic itself."""
    for separator in (_SEPARATOR_V2, _SEPARATOR_V1):
        if topic.startswith(prefix := f"{RETRY_PREFIX}{group}{separator}"):
            return topic.removeprefix(prefix)
    return topic


def retry_kind(topic: str) -> str:
    """NORMAL, RETRY_V1 or RETRY_V2."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if _SEPARATOR_V2 in topic else RETRY_V1


def real_topic(topic: str, group: str, kind: str) -> str:
    """The topic that a message of the kind was popped from. ProtocolError for another kind."""
    if kind not in (NORMAL, RETRY_V1, RETRY_V2):
        raise ProtocolError(f"retry {kind!r} is none of 0, 1 and 2")
    return topic if kind == NORMAL else pop_retry_topic(group, topic, is_v2=kind == RETRY_V2)


class Handle(NamedTuple):
    """``extraInfo``, and the property POP_CK. ``start_offset`` is that of the check point; offsets are queue offsets,
    times ms. ``kind`` is NORMAL, RETRY_V1 or RETRY_V2."""

    start_offset: int
    pop_time_ms: int
    invisible_time_ms: int
    revive_queue_id: int
    kind: str
    broker_name: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        start, pop_ms, invisible_ms, revive, kind, broker_name, queue, offset = self
        return f"{start} {pop_ms} {invisible_ms} {revive} {kind} {broker_name} {queue} {offset}"

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue_id == ORDER_REVIVE_QUEUE_ID


def parse_handle_untrusted(text: str) -> Handle:
    """A handle from its text. ProtocolError if it is not valid. Apache's proxies add the place in the log, as a ninth
    part that no broker needs."""
    usual = _USUAL_HANDLE.fullmatch(text)
    if usual is not None:
        start, pop_ms, invisible_ms, revive, kind, broker_name, queue, offset = usual.groups()
        return Handle(
            int(start), int(pop_ms), int(invisible_ms), int(revive), kind, broker_name, int(queue), int(offset)
        )
    parts = text.split(" ")
    if len(parts) < _HANDLE_PARTS:
        raise ProtocolError(f"extraInfo has {len(parts)} parts, and needs {_HANDLE_PARTS}")
    start, pop_ms, invisible_ms, revive, kind, broker_name, queue, offset = parts[:_HANDLE_PARTS]
    numbers = [_number(part) for part in (start, pop_ms, invisible_ms, revive, queue, offset)]
    if kind not in (NORMAL, RETRY_V1, RETRY_V2):
        raise ProtocolError(f"extraInfo: retry {kind!r} is none of 0, 1 and 2")
    return Handle(numbers[0], numbers[1], numbers[2], numbers[3], kind, broker_name, numbers[4], numbers[5])


def _number(text: str) -> int:
    if len(text) < len(str(LONG_MAX)) and text.isdecimal() and text.isascii():
        return int(text)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > len(str(LONG_MAX)) or abs(int(text)) > LONG_MAX:
        raise ProtocolError(f"extraInfo: {text[:32]!r} is not a 64-bit number")
    return int(text)


# --- infos: items ``kind queue value`` with ; between -----------------------------------------------------------------

Source = tuple[str, int]
"""Kind of topic and queue id."""


def start_offset_info(starts: Mapping[Source, int]) -> str:
    """``startOffsetInfo``: the offset from which each queue was read."""
    return ";".join([f"{kind} {queue_id} {offset}" for (kind, queue_id), offset in starts.items()])


def msg_offset_info(offsets: Mapping[Source, Sequence[int]]) -> str:
    """``msgOffsetInfo``: the offsets of each queue's messages in the answer."""
    return ";".join([f"{kind} {queue} {_joined(each)}" for (kind, queue), each in offsets.items()])


def _joined(offsets: Sequence[int]) -> str:
    return msgspec.json.encode(offsets)[1:-1].decode()  # half the time of a str call for each


def order_count_info(counts: Iterable[tuple[Source, Mapping[int, int], int]]) -> str:
    """``orderCountInfo``: how often each queue's messages were popped before, by offset if it is not 0. The least count
    of each queue is for older clients."""
    items = []
    for (kind, queue_id), by_offset, least in counts:
        items += [f"{kind} qo{queue_id}%{offset} {count}" for offset, count in by_offset.items()]
        items.append(f"{kind} {queue_id} {least}")
    return ";".join(items)


def parse_start_offset_info_untrusted(text: str) -> dict[Source, int]:
    """The start offset of each queue. ProtocolError for an invalid text."""
    return {source: _number(value) for source, value in _items(text)}


def _items(text: str) -> list[tuple[Source, str]]:
    found = []
    for item in text.split(";") if text else ():
        parts = item.split(" ")
        if len(parts) != 3:
            raise ProtocolError(f"an offset info is kind, queue and value, not {item[:64]!r}")
        found.append(((parts[0], _number(parts[1])), parts[2]))
    return found


# --- bit sets of batch acknowledgements: base64 of little-endian bytes ------------------------------------------------


def bits_of(diffs: Iterable[int]) -> str:
    """The text of a set of numbers from 0 on (``java.util.BitSet``)."""
    number = 0
    for diff in diffs:
        number |= 1 << diff
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()


def diffs_of_untrusted(bits: str) -> Sequence[int]:
    """The numbers of such a set, ascending. ProtocolError if it is not base64, or is too long."""
    if len(bits) > _BITS_KEPT_MAX_CHARS:
        return _diffs_of_untrusted(bits)
    return _kept_diffs_of_untrusted(bits)


def _diffs_of_untrusted(bits: str) -> Sequence[int]:
    if len(bits) > _BITS_MAX_CHARS:
        raise ProtocolError(f"the bits of a batch acknowledgement have more than {_BITS_MAX_CHARS} characters")
    try:
        data = base64.b64decode(bits, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("the bits of a batch acknowledgement are no base64") from None
    return tuple(8 * at + bit for at, byte in enumerate(data) for bit in _BITS[byte])


_kept_diffs_of_untrusted = functools.lru_cache(maxsize=1024)(_diffs_of_untrusted)
