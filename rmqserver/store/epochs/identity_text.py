"""The text of ``brokerIdentity``, which tells a broker which member of its set it is (``BrokerMetadata``,
``TempBrokerMetadata``, 5.5.0)."""

from __future__ import annotations

from rmqproto.errors import ProtocolError

# ``brokerIdentity``, as text without a line end: cluster#broker#id. ``brokerIdentity-temp``, while the broker applies
# for it: cluster#broker#id#code; by the code the controller recognises a repeated request.
SEPARATOR = "#"

PART_COUNT, APPLIED_PART_COUNT = 3, 4


def identity_parts_untrusted(data: bytes, part_count: int) -> list[str] | None:
    """The parts of the text; None if it is empty. ProtocolError if it is not such a text."""
    text = data.decode("utf-8", "replace").strip()
    if not text:  # an Apache broker writes in place, and was stopped as it started
        return None
    parts = text.split(SEPARATOR)
    if len(parts) != part_count or not parts[2].isdecimal() or len(parts[2]) > 18:
        raise ProtocolError(f"is damaged: {text[:100]!r}")
    return parts
