"""The text of one value: as tables show it to people, and as csv and tsv hold it for machines."""

from typing import Any, Protocol, runtime_checkable

from rmqadmin.core import units

_NO_QUANTITY = ("_id", "_flag", "code", "epoch", "hash", "flag")
"""Name endings of numbers that only identify something: their thousands are not separated."""


@runtime_checkable
class ForPeople(Protocol):
    """A value that people see in different words than machines."""

    def for_people(self) -> str: ...


class Described(Protocol):
    """A column as far as its values need it, for commands and for the dashboard."""

    @property
    def name(self) -> str:
        """The field's name, which ends with the unit."""

    @property
    def is_time(self) -> bool:
        """Whether values are ms since the epoch."""

    @property
    def is_due(self) -> bool:
        """Whether they are times to come, as of timers, rather than times of what was stored."""


def machine_text(value: Any, column: Described) -> str:
    """The text for csv and tsv: whole, with times as ISO 8601. Unknown is empty."""
    if value is None:
        return ""
    if column.is_time:
        from rmqproto.times import iso_local

        return iso_local(value)
    return _plain(value, for_people=False)


def person_text(value: Any, column: Described, now_ms: int | None) -> str:
    """The text for tables. ``now_ms``: what ages are relative to; None to show points in time instead. Unknown is a
    dash."""
    if type(value) is str:  # most are
        return (_rates(value) if column.name.endswith("_tps") else value) or units.UNKNOWN
    if value is None:
        return units.UNKNOWN
    if column.is_time:
        if now_ms is None:
            return units.moment(value)
        return units.due(value, now_ms) if column.is_due else units.age(value, now_ms)
    if column.name == "perm":
        return units.perm(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _quantity(value, column.name)
    return _plain(value, for_people=True) or units.UNKNOWN


def _quantity(value: float, field: str) -> str:
    """A number with its unit, which is the end of the field's name."""
    if field.endswith("_ratio"):
        return units.percent(value)
    if field.endswith("_bytes"):
        return units.size(round(value))
    if field.endswith("_ms"):
        return units.duration(value)
    if field.endswith("_s") or field == "seconds":
        return units.duration(value * 1000)
    if isinstance(value, float) or field.endswith("_tps"):
        return units.rate(value)
    return str(value) if field.endswith(_NO_QUANTITY) else units.count(value)


def _rates(text: str) -> str:
    """A broker's rates over 10 s, 1 min and 10 min, as one text."""
    try:
        return " ".join(units.rate(float(part)) for part in text.split()) or units.UNKNOWN
    except ValueError:
        return text


def _plain(value: Any, *, for_people: bool) -> str:
    if type(value) is str:
        return value  # most are strings, and a check for ``ForPeople`` takes 40 us
    match value:
        case None:
            return "none" if for_people else ""
        case bool():
            yes, no = ("yes", "no") if for_people else ("true", "false")
            return yes if value else no
        case list():
            return "; ".join(_plain(item, for_people=for_people) for item in value)
        case dict():
            return " ".join(f"{name}={_plain(item, for_people=for_people)}" for name, item in value.items())
        case ForPeople() if for_people:
            return value.for_people()
        case _:
            return str(value)
