"""The handle by which a producer recalls a timer message (``RecallMessageHandle``, 5.5.0): URL-safe base64 of ``v1
topic broker-name time-ms unique-key``, separated by single spaces."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import NamedTuple

from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage

_VERSION = "v1"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class RecallHandle(NamedTuple):
    """``deliver_ms`` is the text as it came; it may not be a number, and is then an impossible time."""

    topic: str
    broker_name: str
    deliver_ms: str
    unique_key: str

    def render(self) -> str:
        text = " ".join((_VERSION, *self)).encode()
        return (
            binascii.b2a_base64(text, newline=False).translate(_URL_SAFE).decode()
        )  # the function of the base64 module takes twice as long


def parse_untrusted(text: str) -> RecallHandle:
    """A handle from its text. ProtocolError, in Apache's words, if it is not valid."""
    try:
        parts = base64.b64decode(text.encode(), altchars=b"-_", validate=True).decode().split(" ")
    except (binascii.Error, UnicodeError, ValueError):
        parts = []
    if len(parts) != 5 or parts[0] != _VERSION:
        raise ProtocolError("recall handle is invalid")
    return RecallHandle(*parts[1:])


def is_recalled(waiting: StoredMessage, keys: Collection[str]) -> bool:
    """Whether one of these keys recalls the timer message. A recall names the unique key, or the topic and the unique
    key (``appendTopicForTimerDeleteKey``; Apache up to 5.3.3)."""
    if not keys:
        return False
    found = waiting.properties
    key = found.get(props.UNIQUE_KEY)
    return key in keys or f"{found.get(props.REAL_TOPIC)}+{key}" in keys
