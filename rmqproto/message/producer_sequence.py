"""The number by which a producer's message is known when it is sent again: our extension, a property that other brokers
store and do not look at. A producer counts the messages of each queue from 0, and begins anew with a higher epoch."""

from __future__ import annotations

import re
from typing import NamedTuple

from rmqproto.errors import ProtocolError
from rmqproto.message.properties import PRODUCER_SEQ

REPEATS_KNOWN = 256
"""Of each queue's newest messages of a producer the broker knows where they are: so many may be under way at a time."""

# id, epoch and sequence, with colons between them: "9f0c51d2:0:17".
_FORM = re.compile(r"([0-9A-Za-z_-]{1,64}):([0-9]{1,9}):([0-9]{1,18})", re.ASCII)


class ProducerSequence(NamedTuple):
    """``sequence`` counts the messages of one producer and one queue in one epoch, from 0."""

    producer_id: str
    epoch: int
    sequence: int

    def render(self) -> str:
        return f"{self.producer_id}:{self.epoch}:{self.sequence}"


def parse_untrusted(text: str) -> ProducerSequence:
    """ProtocolError if it is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ProtocolError(f"{PRODUCER_SEQ} is id:epoch:sequence, as in 9f0c51d2:0:17, and not {text[:80]!r}")
    return ProducerSequence(found[1], int(found[2]), int(found[3]))
