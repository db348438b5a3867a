"""Whether a message goes to one member of a group or to every member (``MessageModel``, 5.5.0)."""

from __future__ import annotations

from enum import Enum

from rmqproto.errors import UsageError

BROADCAST_INSTANCE = "DEFAULT"
"""The instance name of a client in a broadcasting group, as in Apache's clients. It stays the same after a restart,
because the file with its offsets is named after its client id."""


class MessageModel(Enum):
    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"

    @classmethod
    def of(cls, value: MessageModel | str) -> MessageModel:
        """The member with that value. UsageError for any other text."""
        try:
            return cls(value)
        except ValueError:
            raise UsageError(f"message_model cannot be {value!r}", hint="Use CLUSTERING or BROADCASTING.") from None

    def instance_name(self, wanted: str | None) -> str | None:
        """The second half of the client id; None for a unique one."""
        return wanted or (BROADCAST_INSTANCE if self is MessageModel.BROADCASTING else None)
