"""Records of the trace topic: reports of producers and consumers on what they did with a message (``TraceDataEncoder``,
5.5.0), and these reports step by step.

A body holds records, each ended by 0x02. Their fields are separated by 0x01: the type, and then those of one of the
classes below, in their order. Older clients leave the last fields out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rmqproto.errors import ProtocolError

_RECORD_END, _FIELD_END = "\x02", "\x01"

PUBLISHED, DELIVERED, CONSUMED, TRANSACTION_ENDED, RECALLED = (
    "Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall",
)  # fmt: skip

CONTEXT_CODES = ("success", "timed out", "exception", "returned null", "failed")
"""The listener's outcome, by the context code of a SubAfter record."""

CONSUMED_WELL, TIMED_OUT, RAISED, _RETURNED_NULL, FAILED = range(len(CONTEXT_CODES))

NORMAL_MESSAGE, HALF_MESSAGE, COMMITTED_MESSAGE, DELAYED_MESSAGE, ORDERED_MESSAGE = range(5)
"""The ordinals of ``MessageType``."""


class Published(msgspec.Struct, frozen=True):
    """A Pub record."""

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    body_size_bytes: int
    cost_ms: int
    message_type: int
    offset_message_id: str
    is_success: bool


class Delivered(msgspec.Struct, frozen=True):
    """A SubBefore record."""

    time_ms: int
    region: str
    group: str
    request_id: str
    message_id: str
    retry_times: int
    keys: str


class Consumed(msgspec.Struct, frozen=True):
    """A SubAfter record."""

    request_id: str
    message_id: str
    cost_ms: int
    is_success: bool
    keys: str
    context_code: int
    time_ms: int
    group: str


class TransactionEnded(msgspec.Struct, frozen=True):
    """An EndTransaction record. ``state``: COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    message_type: int
    transaction_id: str
    state: str
    is_from_check: bool


class Recalled(msgspec.Struct, frozen=True):
    """A Recall record."""

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    is_success: bool


AnyRecord = Published | Delivered | Consumed | TransactionEnded | Recalled

_KINDS: dict[type[msgspec.Struct], str] = {
    Published: PUBLISHED, Delivered: DELIVERED, Consumed: CONSUMED, TransactionEnded: TRANSACTION_ENDED,
    Recalled: RECALLED,
}  # fmt: skip


def encode_trace(record: AnyRecord) -> str:
    """One record as text, with its end mark."""
    fields = [_KINDS[type(record)], *(_text(field) for field in msgspec.structs.astuple(record))]
    return _FIELD_END.join(fields) + _RECORD_END


def _text(field: object) -> str:
    return str(field).lower() if isinstance(field, bool) else str(field)


class TraceRecord(msgspec.Struct, frozen=True):
    """What one client did with one message. Fields that its type or its client does not have are None."""

    kind: str
    message_id: str
    time_ms: int | None = None
    group: str | None = None
    request_id: str | None = None
    cost_ms: int | None = None
    success: bool | None = None
    retry_times: int | None = None
    context_code: int | None = None
    state: str | None = None
    topic: str | None = None


_PLACES = {
    kind: {
        name: at
        for at, name in enumerate((field.removeprefix("is_") for field in record.__struct_fields__), 1)
        if name in TraceRecord.__struct_fields__
    }
    for record, kind in _KINDS.items()
}
"""Where the fields of a TraceRecord are, by type."""


def parse_trace_untrusted(body: bytes) -> list[TraceRecord]:
    """The records of a trace message, in order. Records of an unknown type are ignored. ProtocolError for a body that
    is not UTF-8, and for text in place of a number."""
    try:
        text = body.decode()
        parts = [record.split(_FIELD_END) for record in text.split(_RECORD_END)]
        return [msgspec.convert(_named(fields), TraceRecord, strict=False) for fields in parts if fields[0] in _PLACES]
    except (UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ProtocolError(f"trace: {error}") from None


def _named(fields: list[str]) -> dict[str, str]:
    """The fields by name, as far as present. ValidationError of ``convert`` if the message id is missing."""
    places = _PLACES[fields[0]]
    found = {name: fields[at] for name, at in places.items() if at < len(fields) and fields[at]}
    return {"kind": fields[0], **found}


# --- what clients did, step by step ----------------------------------------------------------------------------------


_KIND_WORDS = {
    PUBLISHED: "sent", DELIVERED: "delivered", CONSUMED: "consumed",
    TRANSACTION_ENDED: "transaction", RECALLED: "recalled",
}  # fmt: skip
"""People's names for the types of records."""


class FoundTrace(msgspec.Struct, frozen=True):
    """One record, and the address (``ip:port``) of the client that wrote it."""

    record: TraceRecord
    host: str


class TraceStep(msgspec.Struct, frozen=True):
    """One action of a client. ``host`` is the client's address; ``outcome`` is text. ``topic`` is None for a
    consumer's."""

    kind: str
    time_ms: int | None
    group: str | None
    outcome: str
    cost_ms: int | None
    host: str
    message_id: str = ""
    topic: str | None = None
    retries: int = 0
    is_success: bool = False

    @property
    def is_sent(self) -> bool:
        return self.kind == _KIND_WORDS[PUBLISHED]

    @property
    def is_of_consumer(self) -> bool:
        return self.kind in (_KIND_WORDS[DELIVERED], _KIND_WORDS[CONSUMED])


def trace_steps(found: Sequence[FoundTrace]) -> list[TraceStep]:
    """The steps in order of time. A consumer writes one record before it calls its listener and one after; together
    they are one step."""
    records = [one.record for one in found]
    begun = {record.request_id: record for record in records if record.kind == DELIVERED}
    ended = {record.request_id for record in records if record.kind == CONSUMED}
    steps = [
        _step(one.record, begun.get(one.record.request_id), one.host)
        for one in found
        if not (one.record.kind == DELIVERED and one.record.request_id in ended)
    ]
    return sorted(steps, key=lambda step: step.time_ms or 0)


def _step(record: TraceRecord, begun: TraceRecord | None, host: str) -> TraceStep:
    """One step. ``begun`` is the record that the consumer wrote before it called its listener. For older consumers,
    only that record has the time and the group."""
    before = begun or record
    return TraceStep(
        _KIND_WORDS[record.kind],
        before.time_ms or record.time_ms,
        before.group or record.group,
        _outcome(record, before),
        record.cost_ms,
        host,
        record.message_id,
        record.topic,
        before.retry_times or 0,
        bool(record.success),
    )


def _outcome(record: TraceRecord, before: TraceRecord) -> str:
    if record.kind == DELIVERED:
        words = "no outcome yet"
    elif record.state is not None:
        words = record.state.lower().replace("_", " ")
    elif record.success is None:
        words = "unknown"
    elif record.success or record.context_code is None:
        words = "success" if record.success else "failed"
    else:
        code = record.context_code
        words = CONTEXT_CODES[code] if 0 <= code < len(CONTEXT_CODES) else f"failed ({code})"
    return f"{words}, retry {before.retry_times}" if before.retry_times else words
