"""The type of messages that a topic is for: its attribute ``message.type`` (``TopicMessageType``)."""

from __future__ import annotations

from enum import StrEnum

MESSAGE_TYPE = "message.type"


class TopicMessageType(StrEnum):
    """In the order in which Apache's brokers list them in a refusal."""

    UNSPECIFIED = "UNSPECIFIED"
    MIXED = "MIXED"
    TRANSACTION = "TRANSACTION"
    PRIORITY = "PRIORITY"
    FIFO = "FIFO"
    DELAY = "DELAY"
    LITE = "LITE"
    NORMAL = "NORMAL"
