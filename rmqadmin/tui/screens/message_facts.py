"""What there is to say of one message, as lines and columns: its facts, properties and record, each time it was stored,
and what stands beside it in a list."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from textual.content import Content

from rmqadmin.core.messages.body_text import lines_by_kind
from rmqadmin.core.messages.lookup import FoundMessage, StoredCopy, failure_facts
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.terminal_text import padded, printable, shortened_in_middle
from rmqadmin.core.units import elapsed
from rmqadmin.tui.literal import literal
from rmqadmin.tui.widgets.detail import fact_lines
from rmqadmin.tui.widgets.frame import in_lines
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message import sys_flag as sys_flags
from rmqproto.message.record import host_text
from rmqproto.times import TIMESTAMP_MAX_MS, iso_local
from rmqproto.trace import TraceStep

_NAME_WIDTH, _LABEL_WIDTH = 20, 14
_FACT_WIDTH_MAX = 60
_TITLE = "every time it was stored"

DETAIL_SIZE_MAX_BYTES, DETAIL_LINES_MAX = 16 * 1024, 500
"""How much of a body stands beside a list. The message's own screen shows all of it."""

DETAIL_HEX_BYTES = 8
"""On each line of a body that is no text, so that the detail has room for them and their characters."""


def facts_of(message: FoundMessage, body_text: str, width: int) -> Content:
    """About the message: what it is, and below that its times. The tabs of properties and record show long names in
    full. ``body_text``: how large the body is."""
    stored, found = message.stored, message.properties
    origin = found.get(props.RETRY_TOPIC)
    what: dict[str, str | None] = {
        "topic": shortened_in_middle(stored.topic, _FACT_WIDTH_MAX),
        "origin topic": None if origin is None else shortened_in_middle(origin, _FACT_WIDTH_MAX),
        "keys": shortened_in_middle(found.get(props.KEYS, "-"), _FACT_WIDTH_MAX),
        "tag": found.get(props.TAGS, "-"),
        "retries": str(stored.reconsume_times),
    }
    when: dict[str, str | None] = {
        "stored": time_text(stored.store_timestamp_ms),
        "born": time_text(stored.born_timestamp_ms),
        "body": body_text,
    }
    return Content("\n").join(in_lines(_line_of(facts), width) for facts in (what, when))


def property_lines(message: FoundMessage) -> list[str]:
    return [_fact_line(name, value, _NAME_WIDTH) for name, value in message.properties.items()]


def _fact_line(label: str, value: str, width: int) -> str:
    return f"{padded(printable(label), width)} {printable(value)}"


def record_lines(message: FoundMessage) -> list[str]:
    stored = message.stored
    intact = "intact" if stored.is_intact else "not that of the body"
    fields = {
        "message id": message.message_id,
        "offset message id": stored.message_id,
        "broker": f"{message.broker_name} {message.broker_addr}",
        "queue": f"{stored.topic} {stored.queue_id}",
        "queue offset": stored.queue_offset,
        "log offset": stored.log_offset,
        "record size": f"{stored.size_bytes} bytes",
        "body as stored": f"{len(stored.body)} bytes, {compression_name(stored.sys_flag)}",
        "body CRC": f"{stored.body_crc:#010x}, {intact}",
        "system flag": f"{stored.sys_flag:#x} {flag_names(stored.sys_flag)}".rstrip(),
        "flag": stored.flag,
        "reconsume times": stored.reconsume_times,
        "born": f"{time_text(stored.born_timestamp_ms)} at {host_text(stored.born_host)}",
        "stored": f"{time_text(stored.store_timestamp_ms)} at {host_text(stored.store_host)}",
        "prepared transaction": stored.prepared_transaction_offset,
    }
    return [_fact_line(name, str(value), _NAME_WIDTH) for name, value in fields.items()]


def track_columns() -> list[Column]:
    return [
        Column(name="group", importance=VITAL),
        Column(
            name="state", words="what became of it", value=lambda track: track.state.lower().replace("_", " "),
            importance=VITAL,
        ),
        Column(name="reason", shape=Shape.PROSE),
    ]  # fmt: skip


def trace_columns() -> list[Column]:
    return [
        Column(name="time", value=lambda step: None if step.time_ms is None else time_text(step.time_ms)),
        Column(name="kind", words="what", importance=VITAL),
        Column(name="group", is_name=True, importance=VITAL),
        Column(name="outcome", mark=_outcome_mark, shape=Shape.PROSE, importance=VITAL),
        Column(name="cost_ms", words="took", is_number=True),
        Column(name="host", words="client", importance=MINOR),
    ]


def history_lines(message: FoundMessage, copies: Sequence[StoredCopy] | None) -> list[str]:
    """The failure according to the message, then two lines for each copy: what it is and when it was stored, and where.
    ``copies`` is None if not asked yet."""
    lines = [_fact_line(*fact, _LABEL_WIDTH) for fact in failure_facts(message)]
    lines += ["", f"{_TITLE}: asking …" if copies is None else _TITLE]
    before_ms: int | None = None
    for copy in copies or ():
        later = "" if before_ms is None else f", {elapsed(copy.stored_ms - before_ms)} later"
        place = f"{copy.topic} {copy.broker_name} queue {copy.queue_id} @ {copy.queue_offset}"
        what = f"{iso_local(copy.stored_ms)}{later}"
        lines += [_fact_line(copy.what, what, _LABEL_WIDTH), _fact_line("", place, _LABEL_WIDTH)]
        before_ms = copy.stored_ms
    return lines


def detail_lines(message: FoundMessage) -> list[Content]:
    """Why a message failed, if it says so, and the beginning of its body. Called in a thread."""
    try:
        body = message.stored.beginning_of_body(DETAIL_SIZE_MAX_BYTES)
        lines = list(islice(lines_by_kind(body, DETAIL_HEX_BYTES), DETAIL_LINES_MAX + 1))
    except ProtocolError as error:
        body, lines = b"", [f"({error})"]
    if len(lines) > DETAIL_LINES_MAX or len(body) == DETAIL_SIZE_MAX_BYTES:
        lines = [*lines[:DETAIL_LINES_MAX], "… enter shows all of it"]
    failure = fact_lines(failure_facts(message))
    return [*([Content(""), *failure] if failure else []), Content(""), *map(Content, lines)]


def _outcome_mark(step: TraceStep) -> Mark | None:
    return None if step.outcome.startswith("success") or step.kind not in ("sent", "consumed") else Mark.WARN


def compression_name(sys_flag: int) -> str:
    """How a body is compressed, according to its system flag."""
    if not sys_flag & sys_flags.COMPRESSED:
        return "not compressed"
    names = {sys_flags.COMPRESSION_LZ4: "LZ4", sys_flags.COMPRESSION_ZSTD: "Zstandard"}
    return f"compressed with {names.get(sys_flag & sys_flags.COMPRESSION_TYPE_MASK, 'zlib')}"


def flag_names(sys_flag: int) -> str:
    """The bits of a record's system flag in words."""
    bits = {
        sys_flags.COMPRESSED: "compressed",
        sys_flags.MULTI_TAGS: "several tags",
        sys_flags.BORN_HOST_V6: "born host IPv6",
        sys_flags.STORE_HOST_V6: "store host IPv6",
        sys_flags.INNER_BATCH: "batch",
    }
    transaction = {
        sys_flags.TRANSACTION_PREPARED: ["prepared transaction"],
        sys_flags.TRANSACTION_COMMIT: ["committed transaction"],
        sys_flags.TRANSACTION_ROLLBACK: ["rolled back transaction"],
    }.get(sys_flag & sys_flags.TRANSACTION_MASK, [])
    return ", ".join([name for bit, name in bits.items() if sys_flag & bit] + transaction)


def _line_of(facts: dict[str, str | None]) -> Content:
    known = [(name, value) for name, value in facts.items() if value is not None]
    parts = [Content.assemble((f"{name} ", "$text-muted"), literal(value, "bold")) for name, value in known]
    return Content("   ").join(parts)


def time_text(timestamp_ms: int) -> str:
    """A time in ISO 8601, local time. A number out of range stays a number."""
    return iso_local(timestamp_ms) if 0 < timestamp_ms <= TIMESTAMP_MAX_MS else str(timestamp_ms)
