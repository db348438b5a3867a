"""Light queues: additional consume queues in which a message has a unit (``LmqDispatch``, ``MultiDispatchUtils``,
5.5.0). They have the number 0 and no topic of their own. The message names its light queues (INNER_MULTI_DISPATCH), the
store adds the offsets there (INNER_MULTI_QUEUE_OFFSET), so recovery finds the same units in the log."""

from __future__ import annotations

from rmqproto.message.properties import MULTI_DISPATCH, MULTI_QUEUE_OFFSET, find_bytes
from rmqproto.names import (
    LIGHT_QUEUE_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)

NAME_SIZE_MAX_BYTES = 255
"""The longest name of a directory."""

_NAMES, _OFFSETS = f"{MULTI_DISPATCH}\x01".encode(), f"{MULTI_QUEUE_OFFSET}\x01".encode()

_OFFSET_DIGITS_MAX = 19
"""The digits of a Java long."""

_NOT_DISPATCHED = frozenset({SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC})
"""A message in one of these topics is dispatched when it comes to its real topic."""


def is_dispatched(topic: str) -> bool:
    """Whether messages of a topic may name light queues."""
    return topic not in _NOT_DISPATCHED and not topic.startswith((RETRY_PREFIX, SYSTEM_TOPIC_PREFIX))


def is_light(name: str) -> bool:
    """Whether a light queue can have the name."""
    return (
        name.startswith(LIGHT_QUEUE_PREFIX)
        and "/" not in name
        and "\0" not in name
        and len(name.encode()) <= NAME_SIZE_MAX_BYTES
    )


def light_names(topic: str, named: str | None) -> list[str]:
    """The light queues that a message's INNER_MULTI_DISPATCH names, each once."""
    if not named or not is_dispatched(topic):
        return []
    return [name for name in dict.fromkeys(named.split(",")) if is_light(name)]


def light_units_untrusted(topic: str, properties: bytes) -> list[tuple[str, int]]:
    """Names and queue offsets of a stored message's light queues. Empty for a message that was not dispatched, or whose
    two lists do not match."""
    offsets = find_bytes(properties, _OFFSETS)
    if not offsets or not is_dispatched(topic):
        return []
    names = find_bytes(properties, _NAMES).decode("utf-8", "replace").split(",")
    texts = offsets.split(b",")
    if len(names) != len(texts):
        return []
    return [
        (name, int(text))
        for name, text in zip(names, texts, strict=True)
        if text.isdigit() and len(text) <= _OFFSET_DIGITS_MAX and is_light(name)
    ]


OFFSETS_MARK = _OFFSETS
"""Every message that was dispatched has it in its properties."""
