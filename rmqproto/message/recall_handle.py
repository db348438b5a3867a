"""The handle by which a producer recalls a timer message (``RecallMessageHandle``, 5.5.0): URL-safe base64 of ``v1
topic broker-name time-ms unique-key``, separated by single spaces."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from rmqproto.errors import ProtocolError

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
