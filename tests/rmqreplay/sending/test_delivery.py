"""What a task says that cannot deliver its messages. ``test_delivery_properties`` has those that can."""

from types import SimpleNamespace
from typing import Any

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqreplay.sending.delivery import Answer, Batch, BatchOutcome, DeliveryError, Outgoing, TaskDelivery
from rmqreplay.sending.permits import Entered, Granted


def test_giving_up_names_the_topic_and_the_last_answer() -> None:
    """ "gave up on  after 30 tries" was all that a write said, whose rows have no replay id."""
    sent: list[Batch] = []
    target: Any = SimpleNamespace(
        put=lambda batch, *_: sent.append(batch) or True,
        outcomes=lambda: [BatchOutcome(sent.pop(), Answer.BUSY, 2, "the queue is full")],
    )
    permits: Any = SimpleNamespace(
        enter=lambda: Entered(must_look=False), ask=lambda count, size_bytes: Granted(count, 1.0)
    )
    message = Outgoing("", MessageQueue("T", "broker-a", 0), 0, "T", b"body", "")
    with pytest.raises(DeliveryError, match=r"gave up on a message for T after 30 tries: the queue is full \(2\)"):
        TaskDelivery(target, permits, lambda: 0.0, lambda seconds: None).run([message])
