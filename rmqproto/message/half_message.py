"""What half messages and op messages say: how often a producer was asked, and which half messages are dealt with
(``TransactionalMessageBridge``, 5.5.0)."""

from __future__ import annotations

from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage

OP_TAG = "d"
OP_SEPARATOR = ","

DIGITS_MAX = 18
"""The most digits of a number, so that it fits Java's long."""


def ended_in(op: StoredMessage) -> list[int]:
    """The half queue offsets of an op message."""
    return offsets_of(op.body) if op.properties.get(props.TAGS) == OP_TAG else []


def offsets_of(op_body: bytes) -> list[int]:
    """Those in the body of an op message; 4.x wrote one, without a comma. Parts that are not numbers are skipped."""
    parts = op_body.split(OP_SEPARATOR.encode())
    return [int(part) for part in parts if part.isdigit() and len(part) <= DIGITS_MAX]


def check_times(properties: dict[str, str]) -> int:
    """How often the producer was asked; 0 for a message that was never put back."""
    return number_or(properties.get(props.TRANSACTION_CHECK_TIMES, "0"), 0)


def number_or(text: str, otherwise: int) -> int:
    """The number in a text, or ``otherwise``: a producer may write anything, and Python refuses thousands of digits."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else otherwise
