"""The text of ``brokerIdentity``, by which a broker knows which one of its set it is (``BrokerMetadata``,
``TempBrokerMetadata``, 5.5.0)."""

from __future__ import annotations

from rmqproto.errors import ProtocolError

# ``brokerIdentity``, as text without a line end: cluster#broker#id. ``brokerIdentity-temp``, while it is applied for:
# cluster#broker#id#code, by which the controller knows who asks again.
SEPARATOR = "#"

PART_COUNT, APPLIED_PART_COUNT = 3, 4


def identity_parts_untrusted(data: bytes, part_count: int) -> list[str] | None:
    """None if there is nothing in it. ProtocolError if it is not such a text."""
    text = data.decode("utf-8", "replace").strip()
    if not text:  # an Apache broker writes in place, and was stopped as it began
        return None
    parts = text.split(SEPARATOR)
    if len(parts) != part_count or not parts[2].isdecimal() or len(parts[2]) > 18:
        raise ProtocolError(f"is damaged: {text[:100]!r}")
    return parts
