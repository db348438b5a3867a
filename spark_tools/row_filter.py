"""Spark's filters applied to single records. Spark checks every row again. Records dropped here are not copied from the
log, and are not sent to the JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rmqproto.message import properties as props
from spark_tools.located import Located, Mask, is_one_of

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
