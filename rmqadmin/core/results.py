"""What a command hands to the renderer: rows of one documented type, an optional summary, and Apache's own text where
we match it. Commands never print; ``rmqadmin/cli/output/`` turns a result into every format.

A row is a Struct whose fields are the contract of ``json``, ``jsonl`` and ``tsv``: snake case, units last, None for
unknown. The order of fields is the order of columns.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, IntEnum
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from rmqproto.errors import RocketMQError
from rmqproto.wording import counted

Notice = Callable[[str], None]
"""Takes a message for the user that is not part of the answer."""


class Importance(IntEnum):
    """Which columns a narrow terminal still shows: the smaller the value, the longer the column stays."""

    VITAL = 0
    USUAL = 1
    MINOR = 2
    REPEATED = 3  # minor, and the same in every row


class Shape(Enum):
    """What kind of text a cell is. It decides how the cell is shortened."""

    NUMBER = "number, age or yes and no: never shortened"
    NAME = "name or address: shortened in the middle"
    ID = "id of a message or client: shortened in the middle, and early"
    PROSE = "text, list or map: shortened at its end"
    CLAUSES = "sentence: shortened to the clauses that fit"
    TREND = "sparkline: shortened at its beginning"


_PROSE_FIELDS = frozenset({
    "apache", "body", "config", "detail", "error", "hint", "jstack", "meaning", "ours", "outcome", "problem", "remark",
    "value", "what",
})  # fmt: skip
_ID_ENDS = ("message_id", "client_id", "original_id")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all rows and summaries. Annotate every field with ``doc``."""

    def column_of(self, column: ResultColumn) -> ResultColumn:
        """The column for this row's value, as people see it, if the row itself says what the value is."""
        return column

    def shown(self, column: ResultColumn) -> Any:
        """What people see of a field whose value says less than the row knows; None for a field that only rows of
        another answer have."""
        return getattr(self, column.name, None)


class SendingRow(Row, frozen=True):
    """The base of rows about one message each that a command sends. Their ``status`` is None if it was not sent."""


SENT_UNTOLD = "the messages were sent; only the answer could not be shown"


def doc(
    description: str,
    *,
    key: bool = False,
    wide: bool = False,
    apart: bool = False,
    sparse: bool = False,
    vital: bool = False,
    minor: bool = False,
    first: bool = False,
) -> msgspec.Meta:
    """Describes a field. ``key``: it is (part of) the row's name, for ``--output name``. ``wide``: tables show it only
    with ``--output wide``. ``apart``: like ``wide``, but also shown if it tells rows of several servers apart.
    ``sparse``: tables leave it out if no row has it. A narrow terminal leaves out ``minor`` columns first, then the
    others from the right, and ``vital`` ones last. Keys, sparse columns and shown ``apart`` columns are vital. A column
    is ``first`` if others are left out before it is shortened."""
    is_vital = vital or key or sparse or apart
    of_column = {
        "is_key": key, "is_wide": wide or apart, "is_apart": apart, "is_sparse": sparse, "is_first": first,
        "importance": Importance.VITAL if is_vital else Importance.MINOR if minor else Importance.USUAL,
    }  # fmt: skip
    return msgspec.Meta(description=description, extra=of_column)


TIME = msgspec.Meta(extra={"is_time": True})
"""Marks ms since the epoch, in a field named ``*_ms``: a number in JSON and YAML, ISO 8601 text in columns."""

DUE = msgspec.Meta(extra={"is_time": True, "is_due": True})
"""``TIME`` of what is still to come, as of a timer."""


class ResultColumn(msgspec.Struct, frozen=True):
    """One field of a row type. ``title`` heads it in csv and tsv, ``heading`` is what people call it."""

    name: str
    title: str
    heading: str
    type_name: str
    description: str
    is_number: bool
    shape: Shape
    is_key: bool = False
    is_wide: bool = False
    is_apart: bool = False
    is_sparse: bool = False
    is_time: bool = False
    is_due: bool = False
    is_first: bool = False
    importance: Importance = Importance.USUAL


@cache
def columns(row_type: type[Row]) -> tuple[ResultColumn, ...]:
    return tuple(map(_column, msgspec.structs.fields(row_type)))


def _column(field: Any) -> ResultColumn:
    base, description = field.type, ""
    said: dict[str, Any] = {}
    """What ``doc``, ``TIME`` and ``DUE`` say of the column."""
    if typing.get_origin(base) is typing.Annotated:
        base, *metas = typing.get_args(base)
        for meta in metas:
            description = meta.description or description
            said |= meta.extra or {}
    names = [_type_name(part) for part in (typing.get_args(base) if isinstance(base, UnionType) else (base,))]
    name, is_time = field.encode_name, "is_time" in said
    if is_time or names[0] in ("integer", "number", "boolean"):
        shape = Shape.NUMBER
    elif names[0] != "text" or name in _PROSE_FIELDS:
        shape = Shape.PROSE
    else:
        shape = Shape.ID if name.endswith(_ID_ENDS) else Shape.NAME
    return ResultColumn(
        name=name,
        title=name.removesuffix("_ms") if is_time else name,
        heading=heading(name),
        type_name=" or ".join(names) + (", ms since the epoch" if is_time else ""),
        description=description,
        is_number=not is_time and names[0] in ("integer", "number"),
        shape=shape,
        **said,
    )


def _type_name(part: Any) -> str:
    origin = typing.get_origin(part) or part
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return "object"
    names = {str: "text", int: "integer", float: "number", bool: "boolean", list: "list", dict: "object"}
    return "null" if part is type(None) else names[origin]


_UNITS = ("_ms", "_bytes", "_ratio", "_s", "_addr")
_COUNTS, _RATE = ("_count", "_nums", "_addrs"), "_tps"

_HEADINGS = {
    "unread_count": "unread",
    "again_count": "again",
    "broker_addr": "address",
    "broker_addrs": "addresses",
    "broker_id": "id",
    "broker_name": "broker",
    "broker_offset": "end",
    "broker_names": "brokers",
    "cached_count": "in hand",
    "client_addr": "address",
    "client_host": "from",
    "client_id": "client",
    "commit_log_disk_ratio": "log disk",
    "consume_broadcast_enable": "broadcast",
    "consume_enable": "enabled",
    "consume_from_min_enable": "from first",
    "consume_from_where": "begins at",
    "consume_message_orderly": "in order",
    "consume_queue_disk_ratio": "queue disk",
    "consume_timeout_minute": "timeout, minutes",
    "consume_tps": "consumed/s",
    "consume_type": "type",
    "consumer_offset": "committed",
    "committed_offset": "committed",
    "drain": "nothing left",
    "drain_ms": "nothing left after",
    "earliest_message_ms": "oldest",
    "fail_count": "failed",
    "in_day": "in 24h",
    "in_tps": "in/s",
    "in_yesterday": "in, yesterday",
    "inflight_count": "in flight",
    "lag_count": "lag",
    "lag_count_max": "largest lag",
    "last_consumed_ms": "consumed",
    "light_queue_count_max": "at most",
    "last_updated_ms": "newest",
    "max_offset": "end",
    "mean_rt_ms": "mean time",
    "message_model": "model",
    "message_tps": "messages/s",
    "mb_tps": "MB/s",
    "min_offset": "begin",
    "namesrv_addr": "name server",
    "new_lag_count": "new lag",
    "offset_message_id": "offset id",
    "old_lag_count": "old lag",
    "original_message_id": "original id",
    "out_day": "out 24h",
    "out_tps": "out/s",
    "out_yesterday": "out, yesterday",
    "overdue_ms": "overdue by",
    "p50_ms": "p50",
    "p90_ms": "p90",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "page_cache_wait_ms": "log held",
    "ours": "rmqserver",
    "put_tps": "in/s",
    "queue_id": "queue",
    "queue_offset": "offset",
    "reconsume_times": "retries",
    "retry_max_times": "retries",
    "rt_ms": "time",
    "same_subscription": "same subscription",
    "seconds": "duration",
    "success_count": "succeeded",
    "timer_behind_count": "timers due",
    "timer_behind_s": "timers behind",
    "timer_congested_count": "timers waiting",
    "unchanged_count": "left as they are",
    "wait_ack_count": "not acknowledged",
    "waiting_count": "waiting",
}


def heading(field: str) -> str:
    """What people call a field, in the head of a table and below it: ``lag`` for ``lag_count``, ``stored`` for
    ``stored_ms``, ``clients`` for ``client_count``, ``skipped`` for ``skipped_count``."""
    known = _HEADINGS.get(field)
    if known is not None:
        return known
    for count in _COUNTS:
        if field.endswith(count):
            noun = field.removesuffix(count).replace("_", " ")
            return noun if noun.endswith("ed") else noun + "s"
    if field.endswith(_RATE):
        return field.removesuffix(_RATE).replace("_", " ") + "/s"
    field = field.removeprefix("is_")
    for unit in _UNITS:
        field = field.removesuffix(unit)
    return field.replace("_", " ")


DOCUMENT_VERSION = 1
"""The ``_version`` of every document. A change that could break a script raises it and goes into the manual."""


def first_if_all(errors: Sequence[RocketMQError | None]) -> RocketMQError | None:
    """For ``Result.cause``: the first error, if there is one for every part."""
    return errors[0] if errors and None not in errors else None


def some_failed(errors: Sequence[object | None], noun: str) -> str | None:
    """For ``Result.problem``: how many of how many failed, and the first error; None if none failed. ``errors`` has
    None for successes."""
    failed = [error for error in errors if error is not None]
    if not failed:
        return None
    which = f"the {noun}" if len(errors) == 1 else f"{len(failed)} of {counted(len(errors), noun)}"
    return f"{which}: {failed[0]}"


R = TypeVar("R", bound=Row)


def row_of(kind: type[R], source: object, /, **fields: Any) -> R:
    """A row with these fields. Any other is the source's attribute of the same name."""
    return kind(**{name: fields[name] if name in fields else getattr(source, name) for name in kind.__struct_fields__})


def line_of(row: Row, command: str) -> bytes:
    """A row as a line of ``jsonl``, with its line feed."""
    fields = {"_command": command, "_version": DOCUMENT_VERSION, **msgspec.structs.asdict(row)}
    return msgspec.json.encode(fields) + b"\n"


class Result(msgspec.Struct, frozen=True):
    """One answer of one command. The first line of a subclass's docstring says when the command gives it."""

    row_type: ClassVar[type[Row]]

    def rows(self) -> Sequence[Row]:
        raise NotImplementedError

    def batches(self) -> Iterator[Sequence[Row]]:
        """The rows as they arrive, for formats that need not wait for all of them. May be called once."""
        yield self.rows()

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        """Text for people where a table would not do: whole lines, part by part. ``width`` is that of the terminal,
        None for no limit and no cuts; ``now_ms`` is what ages are relative to, None to show points in time. Returns
        None for a table."""
        return None

    def lines_below(self, width: int | None) -> Iterator[str]:
        """Text for people below the table and its summary, in place of fields that only ``wide`` shows: whole lines.
        ``width`` is as for ``cards``."""
        yield from ()

    def raw(self) -> Iterator[bytes] | None:
        """Bytes that are the answer in every format, part by part. None if the rows are the answer."""
        return None

    def is_endless(self) -> bool:
        """Whether rows come until the user interrupts."""
        return False

    def is_live(self) -> bool:
        """Whether rows arrive over time and are read as they arrive: they do not go through a pager."""
        return self.is_endless()

    def summary(self) -> Row | None:
        """Values that belong to no single row: totals, rates."""
        return None

    def mqadmin_text(self) -> str | None:
        """What mqadmin 5.5.0 prints for the same answer, byte for byte. None if it has no such answer."""
        return None

    def remark(self) -> str | None:
        """A remark for the user, outside the answer, once all rows are shown."""
        return None

    @property
    def tells_changes(self) -> bool:
        """Whether each row says if something was changed (``done``)."""
        return "done" in self.row_type.__struct_fields__

    def stopped_by(self, error: BaseException) -> str | None:
        """A remark if ``error``, such as Ctrl-C or a closed pipe, came before all rows were shown."""
        if self.tells_changes and any(row.done for row in self.rows()):  # type: ignore[attr-defined]
            return "the change was made; only its answer could not be shown"
        is_sent = issubclass(self.row_type, SendingRow) and any(row.status is not None for row in self.rows())  # type: ignore[attr-defined]
        return SENT_UNTOLD if is_sent else None

    def problem(self) -> str | None:
        """What went wrong with one part, if the other parts are worth showing. The program then ends with status 1."""
        return None

    def cause(self) -> RocketMQError | None:
        """The first part's error, if no part succeeded. The program then ends with this error, its status and its hint
        instead of ``problem`` and status 1."""
        return None

    def exit_status(self) -> int | None:
        """The program's exit status, if it says more than whether all was done, as for a check."""
        return None

    def damage(self) -> str | None:
        """The damage found in the files that were checked. The program then ends with status 7."""
        return None


class ResultOf(Result, Generic[R], frozen=True):
    """A result whose rows are of the named type: ``class Topics(ResultOf[TopicName], frozen=True)``."""

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        named = typing.get_args(cls.__dict__.get("__orig_bases__", (None,))[0])
        if named and isinstance(named[0], type):
            cls.row_type = named[0]


class FoundRows(ResultOf[R], frozen=True):
    """A result that holds its rows."""

    found: Sequence[R]

    def rows(self) -> Sequence[R]:
        return self.found
