"""What colours mean in a table: red is wrong, yellow needs a look, green is well where somebody asked, cyan is new to
the reader, dim is the system's own.

The text says the same without colours; a colour only makes it faster to find.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from rmqadmin.core.health.finding import Grade
from rmqadmin.core.names import is_made_by_brokers
from rmqproto.names import is_system_group


class Mark(StrEnum):
    """How a cell is highlighted, as a parameter of the terminal's ``SGR`` sequence."""

    BAD = "31"
    WARN = "33"
    GOOD = "32"
    NEW = "36"
    DIM = "2"
    HEAD = "1"
    CHANGED = "7"
    """Reverse, which is no colour: it also shows under NO_COLOR."""


BY_GRADE = {Grade.ERROR: Mark.BAD, Grade.WARNING: Mark.WARN, Grade.NOTE: Mark.DIM, Grade.OK: Mark.GOOD}
"""How a finding is highlighted."""


def mark(field: str, value: Any) -> Mark | None:
    """The mark for the value of a field; None for most."""
    rule = _RULES.get(field)
    return None if rule is None or value is None else rule(value)


def styled(text: str, *styles: Mark) -> str:
    return f"\x1b[{';'.join(styles)}m{text}\x1b[0m" if styles else text


def _if_any(style: Mark) -> Callable[[Any], Mark | None]:
    return lambda value: style if value else None


def _if_false(value: Any) -> Mark | None:
    return None if value else Mark.BAD


def _status(value: Any) -> Mark | None:
    """The mark for a send status: anything but SEND_OK is a promise that the broker could not keep."""
    return Mark.WARN if str(value).startswith(("FLUSH_", "SLAVE_")) else None


def _severity(value: Any) -> Mark | None:
    """The mark for a finding in a store."""
    return {"error": Mark.BAD, "warning": Mark.WARN}.get(str(value), Mark.DIM)


def _topic(value: Any) -> Mark | None:
    return Mark.DIM if is_made_by_brokers(value) else None


def _group(value: Any) -> Mark | None:
    return Mark.DIM if is_system_group(value) else None


_RULES: dict[str, Callable[[Any], Mark | None]] = {
    "active": _if_false,
    "alive": _if_false,
    "check_count": _if_any(Mark.WARN),
    "dropped": _if_any(Mark.WARN),
    "error": _if_any(Mark.BAD),
    "fail_count": _if_any(Mark.BAD),
    "group": _group,
    "in_sync": _if_false,
    "lag_count": _if_any(Mark.WARN),
    "lag_count_max": _if_any(Mark.WARN),
    "missing": _if_any(Mark.BAD),
    "doubled": _if_any(Mark.BAD),
    "overdue_ms": _if_any(Mark.BAD),
    "problem": _if_any(Mark.BAD),
    "problem_count": _if_any(Mark.BAD),
    "problems": _if_any(Mark.BAD),
    "rejected": _if_any(Mark.BAD),
    "same_subscription": _if_false,
    "lost_messages": _if_any(Mark.BAD),
    "severity": _severity,
    "status": _status,
    "topic": _topic,
    "would_reject": _if_any(Mark.BAD),
}
