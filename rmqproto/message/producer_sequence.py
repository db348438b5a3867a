"""The number by which a broker recognises a producer's message that is sent again. It is our extension, a property that
other brokers store and ignore. A producer counts the messages of each queue from 0, and starts again at 0 with a higher
epoch."""

from __future__ import annotations

import re
from typing import NamedTuple

from rmqproto.errors import ProtocolError
from rmqproto.message.properties import PRODUCER_SEQ

REPEATS_KNOWN = 256
"""The count of a producer's newest messages in a queue whose places the broker remembers, and so the most that may be
under way at a time."""

STORED_SOMEWHERE = "was stored, but it is not known where"
"""In the refusal of a message that was stored before the newest ones."""

# Id, epoch and sequence, separated by colons: "9f0c51d2:0:17".
_FORM = re.compile(r"([0-9A-Za-z_-]{1,64}):([0-9]{1,9}):([0-9]{1,18})", re.ASCII)


class ProducerSequence(NamedTuple):
    """``sequence`` counts the messages of one producer and one queue in one epoch, from 0."""

    producer_id: str
    epoch: int
    sequence: int

    def render(self) -> str:
        return f"{self.producer_id}:{self.epoch}:{self.sequence}"


def parse_untrusted(text: str) -> ProducerSequence:
    """A number from its text. ProtocolError if the text is not one."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ProtocolError(f"{PRODUCER_SEQ} is id:epoch:sequence, as in 9f0c51d2:0:17, and not {text[:80]!r}")
    return ProducerSequence(found[1], int(found[2]), int(found[3]))
