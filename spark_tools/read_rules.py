"""Which records a reader keeps, and how it handles damage. Records dropped here are not copied from the log, and are
not sent to the JVM. Spark checks its own filters again on every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from rmqproto.errors import StorageError
from rmqproto.filters.message_filter import AcceptsRawProperties
from rmqproto.filters.subscription import parse_tags
from rmqproto.message import properties as props
from rmqreplay.source.queue_ranges import DataLossError
from rmqserver.store.fate import BATCH_QUEUED, FATE_MASK, QUEUED, fates
from spark_tools.arrow_records import BatchMaker
from spark_tools.located import Located, Mask, is_one_of

_FATES = np.frombuffer(fates(""), np.uint8)
"""Fates by the low bits of sysFlag; the topic does not matter here."""

NUMBERS = frozenset({
    "queueId", "queueOffset", "logOffset", "storeSize", "sysFlag", "flag", "reconsumeTimes", "bornTimestamp",
    "storeTimestamp",
})  # fmt: skip
TEXTS = frozenset({"topic", "tags"})

_COMPARE: dict[str, Any] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowFilter:
    """``column`` is one of NUMBERS or TEXTS; ``operator`` is ``in`` or, for numbers, a comparison with one value. Times
    are microseconds since the epoch."""

    column: str
    operator: str
    values: tuple[Any, ...]

    def mask(self, located: Located) -> Mask:
        """The rows for which the filter can hold. Damaged rows are kept, because a filter cannot tell whether they
        matter."""
        keep = self._holds(located)
        keep[list(located.reasons)] = True
        return keep

    def _holds(self, located: Located) -> Mask:
        if self.column == "topic":
            return is_one_of(located.topics(), self.values)
        if self.column == "tags":
            return is_one_of(located.property_columns().value(props.TAGS), self.values)
        numbers = located.ints("size" if self.column == "storeSize" else self.column)
        if self.column.endswith("Timestamp"):
            numbers = numbers * 1000
        if self.operator == "in":
            return np.isin(numbers, self.values)
        holds: Mask = _COMPARE[self.operator](numbers, self.values[0])
        return holds


@dataclass(slots=True)
class ReadRules:
    """Which records a reader keeps, and how it handles damage: ``on_corrupt`` is fail, skip or column."""

    maker: BatchMaker
    tags: str = "*"
    transaction_state: str = "committed"
    on_corrupt: str = "fail"
    row_filters: Sequence[RowFilter] = ()
    accepts: AcceptsRawProperties | None = None
    """Called with the properties of each record that passed all other filters."""
    skipped: list[str] = field(default_factory=list)
    """Skipped places, for the report."""
    fail_on_data_loss: bool = True
    gone: dict[str, None] = field(default_factory=dict)
    """Files that retention took after the read was planned, for the report; each once."""

    def file_is_gone(self, path: str) -> None:
        """Notes a file that was there when the read was planned. DataLossError unless that is allowed."""
        if self.fail_on_data_loss:
            raise DataLossError(
                f"{path} is gone: retention took it after the read was planned",
                hint="failOnDataLoss=false reads what is left",
            )
        self.gone[path] = None

    def batch(self, located: Located) -> pa.RecordBatch | None:
        """The kept rows; None if there are none. No filter drops a damaged row, because it cannot tell whether the row
        matters."""
        if self.transaction_state == "committed":
            found = _FATES[located.heads["sysFlag"] & FATE_MASK]
            located = located.select(_or_damaged((found & (QUEUED | BATCH_QUEUED)) != 0, located))
        for each in self.row_filters:
            located = located.select(each.mask(located))
        wanted = parse_tags(self.tags).tags
        if wanted is not None and len(located):
            has_tag = is_one_of(located.property_columns().value(props.TAGS), wanted)
            located = located.select(_or_damaged(has_tag, located))
        if self.accepts is not None:
            located = located.select(_accepted(located, self.accepts))
        self.maker.check(located)
        if located.reasons and self.on_corrupt != "column":
            located = self._without_bad(located)
        return self.maker.batch(located) if len(located) else None

    def _without_bad(self, located: Located) -> Located:
        places = located.ints("logOffset")
        row, why = next(iter(located.reasons.items()))
        if self.on_corrupt == "fail":
            raise StorageError(
                f"the record at log offset {places[row]} is damaged: {why}",
                hint="onCorrupt=skip skips such records",
            )
        self.skipped += [f"{places[row]}: {why}" for row, why in located.reasons.items()]
        mask = np.ones(len(located), np.bool_)
        mask[list(located.reasons)] = False
        return located.select(mask)


def _or_damaged(mask: Mask, located: Located) -> Mask:
    mask[list(located.reasons)] = True
    return mask


def _accepted(located: Located, accepts: AcceptsRawProperties) -> Mask:
    """The rows that ``accepts`` accepts, and the damaged ones."""
    raw = located.properties.binary(located.data).to_pylist()
    return _or_damaged(np.fromiter(map(accepts, raw), np.bool_, len(raw)), located)
