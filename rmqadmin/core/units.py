"""Values as text: as tables of commands and dashboard show them to people, in one form for all (numbers, ages, times,
perms; unknown is a dash), and as csv and tsv hold them for machines."""

import time
from typing import Any, Protocol, runtime_checkable

from rmqproto.codes import PERM_INHERIT, PERM_LETTERS, PERM_MAX, PERM_READ, PERM_WRITE, perm_text
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import whole_number

UNKNOWN = "-"
_MS_PER_S = 1000
_TENTHS_BELOW_MS = 10
_AGE_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", _MS_PER_S))


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def rate(per_s: float | None) -> str:
    return UNKNOWN if per_s is None else f"{per_s:,.1f}"


def percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio * 100:.1f}%"


def duration(length_ms: float | None) -> str:
    """``0.8 ms``, ``850 ms``, ``12 s``, ``3m05s``, ``4h12m``, ``3d04h``."""
    if length_ms is None:
        return UNKNOWN
    if length_ms < _MS_PER_S:
        is_part = isinstance(length_ms, float) and length_ms < _TENTHS_BELOW_MS
        return f"{max(0, length_ms):.{1 if is_part else 0}f} ms"
    seconds = int(length_ms // _MS_PER_S)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h"


def elapsed(length_ms: float) -> str:
    """Like ``duration``, in whole seconds: ``0 s``, ``12 s``, ``3m05s``."""
    return "0 s" if length_ms < _MS_PER_S else duration(length_ms)


def at_least(text: str) -> str:
    """Marks a sum as a lower bound, because some parts are unknown. A dash stays as it is."""
    return text if text == UNKNOWN else f"≥{text}"


def age(timestamp_ms: int, now_ms: int) -> str:
    """When something happened: ``4m ago``, ``3d ago``, ``now``. A time that is still to come is of another clock, or
    later than ``now_ms`` because reading went on: it is shown by the clock."""
    if timestamp_ms - now_ms < _MS_PER_S:
        return due(timestamp_ms, now_ms)
    return short_moment(timestamp_ms, now_ms)


def due(timestamp_ms: int, now_ms: int) -> str:
    """When something will happen: ``in 4m``; ``4m ago`` if it should have."""
    length = abs(now_ms - timestamp_ms)
    if length < _MS_PER_S:
        return "now"
    unit, unit_ms = next(each for each in _AGE_UNITS if length >= each[1])
    text = f"{length // unit_ms:,}{unit}"
    return f"{text} ago" if timestamp_ms < now_ms else f"in {text}"


def moment(timestamp_ms: int | None) -> str:
    """Local time to the second; the message's own screen shows the millisecond and the zone."""
    from rmqproto.times import TIMESTAMP_MAX_MS  # 1 ms; only for tables with points in time

    if not timestamp_ms or timestamp_ms < 0:
        return UNKNOWN
    if timestamp_ms > TIMESTAMP_MAX_MS:
        return f"@{timestamp_ms}"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp_ms // _MS_PER_S))


def short_moment(timestamp_ms: int, now_ms: int) -> str:
    """``moment``, without the day if it is today."""
    told = moment(timestamp_ms)
    return clock(timestamp_ms) if told[:10] == moment(now_ms)[:10] else told


def unchanged_text(since_ms: int | None) -> str:
    """What to say if no change was seen; ``since_ms``: when the first look was, None before it."""
    return "not known yet" if since_ms is None else f"nothing has changed since {clock(since_ms)}"


def clock(timestamp_ms: int) -> str:
    """The local time of day, to the second."""
    return time.strftime("%H:%M:%S", time.localtime(timestamp_ms // _MS_PER_S))


def size(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} B"
    amount = size_bytes / 1024
    for unit in ("KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def queue_nums(read_write: tuple[int, int] | None) -> str:
    """``8``, or ``8 read, 4 write`` while a topic is being made smaller or larger."""
    if read_write is None:
        return UNKNOWN
    read, write = read_write
    return count(read) if read == write else f"{count(read)} read, {count(write)} write"


def perm(bits: int | None) -> str:
    return UNKNOWN if bits is None else perm_words(bits)


WORDS = {PERM_READ: "read", PERM_WRITE: "write", PERM_INHERIT: "inherit"}


def perm_words(perm: int) -> str:
    """``RW (6)``: letters as people write them, and the number in configurations; ``- (0)`` for nothing."""
    return f"{perm_letters(perm) or '-'} ({perm})"


def perm_letters(perm: int) -> str:
    """``RW`` for 6, as people write it; empty for nothing."""
    return perm_text(perm).replace("-", "")


def perm_of_letters(text: str) -> int | None:
    """The perm for ``RW``, in any case and order; None for a text that is not such letters, each once."""
    written = text.strip().upper()
    letters = set(written)
    if not letters or letters - PERM_LETTERS.keys() or len(letters) < len(written):
        return None
    return sum(PERM_LETTERS[letter] for letter in letters)


def parse_perm(text: str) -> int:
    """The perm for ``6``, or for ``RW`` in any case and order. UsageError, in mqadmin's words, for a perm that no topic
    may have."""
    perm = perm_of_letters(text)
    if perm is not None:
        return perm
    number = whole_number(text.strip(), PERM_MAX)
    if number is not None:
        return number
    raise UsageError(f"topicPermission value: {text} is invalid.", hint="Write R (4), W (2), RW (6) or RWX (7).")


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
        return (_rates(value) if column.name.endswith("_tps") else value) or UNKNOWN
    if value is None:
        return UNKNOWN
    if column.is_time:
        if now_ms is None:
            return moment(value)
        return due(value, now_ms) if column.is_due else age(value, now_ms)
    if column.name == "perm":
        return perm(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _quantity(value, column.name)
    return _plain(value, for_people=True) or UNKNOWN


def _quantity(value: float, field: str) -> str:
    """A number with its unit, which is the end of the field's name."""
    if field.endswith("_ratio"):
        return percent(value)
    if field.endswith("_bytes"):
        return size(round(value))
    if field.endswith("_ms"):
        return duration(value)
    if field.endswith("_s") or field == "seconds":
        return duration(value * 1000)
    if isinstance(value, float) or field.endswith("_tps"):
        return rate(value)
    return str(value) if field.endswith(_NO_QUANTITY) else count(value)


def _rates(text: str) -> str:
    """A broker's rates over 10 s, 1 min and 10 min, as one text."""
    try:
        return " ".join(rate(float(part)) for part in text.split()) or UNKNOWN
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
