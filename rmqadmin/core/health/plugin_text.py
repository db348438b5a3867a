"""What checks report to a monitoring system, in the form of Nagios plug-ins: one line with the state, a ``|``, and
performance data (``label=value[unit];warning;critical;min``), then a line for each thing with a problem. The state is
also the exit status."""

import re
from collections.abc import Collection, Iterator, Sequence
from enum import Enum, IntEnum
from typing import Annotated

import msgspec

from rmqadmin.core.health.finding import Grade
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.terminal_text import printable
from rmqproto.errors import UsageError
from rmqproto.times import parse_duration

_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([kMG]?)")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGT])iB")
_MULTIPLES = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_SIZE_POWERS = "KMGT"
_DURATION_LENGTH_MAX = 40


class Quantity(Enum):
    """What a threshold measures; the value is an example of how it is written."""

    COUNT = "10k"
    TIME_MS = "5m"
    PERCENT = "80%"
    BYTES = "256MiB"


Thresholds = dict[Quantity, float]
"""Thresholds, each in the unit that its quantity's name gives."""


def parse_thresholds(text: str, option: str, known: Collection[Quantity]) -> Thresholds:
    """Parses thresholds. UsageError for an invalid threshold, a quantity that is not ``known``, or one given twice."""
    found: Thresholds = {}
    for part in text.split(","):
        quantity, value = _parsed(part.strip(), known)
        if quantity is None or quantity not in known:
            examples = " or ".join(each.value for each in Quantity if each in known)
            raise UsageError(
                f"{option}: {part.strip()!r} is not a threshold here", hint=f"Write for example {examples}."
            )
        if quantity in found:
            raise UsageError(f"{option}: {text!r} has two thresholds of one kind")
        found[quantity] = value
    return found


def _parsed(text: str, known: Collection[Quantity]) -> tuple[Quantity | None, float]:
    """A quantity and its value. A bare number is a percentage if only percentages are known."""
    if not text.isascii():
        return None, 0.0
    if number := _NUMBER.fullmatch(text):
        value = float(number[1]) * _MULTIPLES[number[2]]
        if set(known) == {Quantity.PERCENT} and not number[2]:
            return Quantity.PERCENT, value
        return Quantity.COUNT, value
    if percent := _PERCENT.fullmatch(text):
        return Quantity.PERCENT, float(percent[1])
    if size := _SIZE.fullmatch(text):
        return Quantity.BYTES, float(size[1]) * 1024 ** (_SIZE_POWERS.index(size[2]) + 1)
    length_ms = parse_duration(text) if len(text) <= _DURATION_LENGTH_MAX and text[:1].isdecimal() else None
    return (None, 0.0) if length_ms is None else (Quantity.TIME_MS, float(length_ms))


class PluginState(IntEnum):
    """Exit statuses of checks. Unknown is worse than a warning, because it may hide anything."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


STATE_BY_GRADE = {Grade.ERROR: PluginState.CRITICAL, Grade.WARNING: PluginState.WARNING}
"""The state of a thing with such a finding. Findings of other grades do not count."""

_BY_BADNESS = (PluginState.OK, PluginState.WARNING, PluginState.UNKNOWN, PluginState.CRITICAL)


def worst(states: Sequence[PluginState]) -> PluginState:
    return max(states, key=_BY_BADNESS.index, default=PluginState.OK)


def state_of(value: float | None, warning: float | None, critical: float | None) -> PluginState:
    """The state of a value. An unknown value exceeds no threshold."""
    if value is not None and critical is not None and value > critical:
        return PluginState.CRITICAL
    if value is not None and warning is not None and value > warning:
        return PluginState.WARNING
    return PluginState.OK


class Measure(msgspec.Struct, frozen=True):
    """One value of performance data, with its thresholds in the same unit: ``s``, ``B``, ``%`` or none."""

    label: str
    value: float
    unit: str = ""
    warning: float | None = None
    critical: float | None = None

    def __str__(self) -> str:
        limits = ";".join("" if limit is None else _number(limit) for limit in (self.warning, self.critical))
        plain = "".join("_" if letter in "'=|" or not letter.isprintable() else letter for letter in self.label)
        label = plain if plain.isidentifier() else f"'{plain}'"
        return f"{label}={_number(self.value)}{self.unit};{limits};0"

    @property
    def state(self) -> PluginState:
        return state_of(self.value, self.warning, self.critical)


def _number(value: float) -> str:
    """A number, never in powers of ten, which readers of plug-in output do not understand."""
    text = f"{value:.6f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def _one_line(text: str) -> str:
    """The text without any ``|``, which would begin the performance data. Group names may contain one."""
    return printable(" ".join(text.split())).replace("|", "/")


class CheckRow(Row, frozen=True):
    name: Annotated[str, doc("group, broker or set of brokers", key=True)]
    state: Annotated[str, doc("OK, WARNING, CRITICAL or UNKNOWN", vital=True)]
    what: Annotated[str, doc("what was found")]
    values: Annotated[dict[str, float], doc("performance data by label: counts, seconds, percent")]


class CheckSummary(Row, frozen=True):
    state: Annotated[str, doc("the worst state of all rows")]
    exit_status: Annotated[int, doc("0, 1, 2 or 3")]
    text: Annotated[str, doc("the line for the monitoring system")]


class CheckedThing(msgspec.Struct, frozen=True):
    """One group, broker or set of brokers: ``what`` describes its state in a few words."""

    name: str
    state: PluginState
    what: str
    measures: list[Measure] = []


class CheckResult(ResultOf[CheckRow], frozen=True):
    """The worst first. A table is the text for the monitoring system; the exit status is the state."""

    things: list[CheckedThing]
    headline: str
    totals: list[Measure] = []

    def _ordered(self) -> list[CheckedThing]:
        return sorted(self.things, key=lambda thing: -_BY_BADNESS.index(thing.state))

    @property
    def state(self) -> PluginState:
        return worst([thing.state for thing in self.things])

    def rows(self) -> Sequence[CheckRow]:
        return [
            CheckRow(
                name=thing.name,
                state=thing.state.name,
                what=thing.what,
                values={measure.label: measure.value for measure in thing.measures},
            )
            for thing in self._ordered()
        ]

    def summary(self) -> CheckSummary:
        return CheckSummary(state=self.state.name, exit_status=self.state, text=self.plugin_line())

    def plugin_line(self) -> str:
        """The first line: the only thing, or the worst if one has a problem, else the headline."""
        ordered = self._ordered()
        is_told = ordered and (len(ordered) == 1 or ordered[0].state is not PluginState.OK)
        text = f"{ordered[0].name}: {ordered[0].what}" if is_told else self.headline
        bad = sum(thing.state is not PluginState.OK for thing in ordered)
        if bad > 1:
            text += f" (and {bad - 1} more)"
        measures = [*self.totals, *(measure for thing in self.things for measure in thing.measures)]
        data = " ".join(map(str, measures))
        return plugin_line(self.state, text) + (f" | {data}" if data else "")

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        yield self.plugin_line() + "\n"
        ordered = self._ordered()
        if len(ordered) > 1:
            for thing in ordered:
                if thing.state is not PluginState.OK:
                    yield f"{thing.state.name}: {_one_line(f'{thing.name}: {thing.what}')}\n"

    def exit_status(self) -> int:
        return self.state


def plugin_line(state: PluginState, text: str) -> str:
    return f"{state.name} - {_one_line(text)}"
