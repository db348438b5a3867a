"""``--watch``: repeats a question until ``--until`` holds or Ctrl-C. A terminal is redrawn in place; other output gets
one document per tick. In place, a table shows what has changed since the last tick.

A server that is briefly away does not end a watch that has begun: the reason is shown, and the next tick asks again.
"""

import operator
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.asked_columns import Look
from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import write
from rmqadmin.core.names import did_you_mean
from rmqadmin.core.results import Result
from rmqproto.errors import ConnectError, RequestTimeoutError, UsageError

_HOME_AND_CLEAR = "\x1b[H\x1b[2J"
_EXPRESSION = re.compile(r"\s*(\w+)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Until:
    """The condition ``FIELD OP VALUE``. If the summary has the field, it must hold there. Otherwise it must hold in
    every row, and there must be rows."""

    field: str
    operator: str
    value: str

    def holds(self, result: Result) -> bool:
        summary = result.summary()
        if summary is not None and hasattr(summary, self.field):
            return self._compare(getattr(summary, self.field))
        if self.field not in result.row_type.__struct_fields__:
            known = (*result.row_type.__struct_fields__, *getattr(summary, "__struct_fields__", ()))
            advice = did_you_mean(self.field, known) or f"The fields are {', '.join(known)}."
            raise UsageError(f"--until: there is no field {self.field!r}", hint=advice)
        rows = result.rows()
        return bool(rows) and all(self._compare(getattr(row, self.field)) for row in rows)

    def _compare(self, found: Any) -> bool:
        """An unknown value satisfies no condition."""
        if found is None:
            return False
        compare = _COMPARE[self.operator]
        if isinstance(found, bool):
            return compare(found, self.value.lower() == "true")
        if isinstance(found, int | float):
            try:
                return compare(found, float(self.value))
            except ValueError:
                raise UsageError(f"--until: {self.field} is a number, {self.value!r} is not") from None
        return compare(str(found), self.value.strip("'\""))


def parse_until(text: str) -> Until:
    found = _EXPRESSION.fullmatch(text)
    if not found:
        raise UsageError(f"--until: {text!r} is not a condition", hint="Write FIELD OP VALUE, e.g. 'lag_count == 0'.")
    return Until(*found.groups())


def watch(
    ask: Callable[[], Result],
    command: str,
    look: Look,
    interval_s: float,
    until: Until | None,
    answers_problem: Callable[[], str | None] = lambda: None,
) -> Result:
    """Asks and shows until ``until`` holds; the last result. Any error in the first tick ends it, as does Ctrl-C.
    ``answers_problem`` says, after each question, which brokers did not answer; as their part is unknown, no condition
    holds then."""

    def tick(before: Result | None) -> Result:
        result = ask()
        if before is None and until is not None:
            until.holds(result)  # a condition that cannot be is refused before anything is shown
        if sys.stdout.isatty() and look.format in (Format.TABLE, Format.WIDE, Format.MQADMIN):
            moment = time.strftime("%H:%M:%S")
            clear = _HOME_AND_CLEAR if diagnostics.draws_in_place(sys.stdout) else "\n"
            sys.stdout.write(f"{clear}{command}, every {interval_s:g} s, at {moment}; Ctrl-C ends it\n\n")
        write(result, command, look, one_line=True, before=before)
        problem = answers_problem()
        if problem is not None:
            diagnostics.notice(f"{problem}; asking again in {interval_s:g} s")
        return result

    last = tick(None)
    if look.format in (Format.CSV, Format.TSV):  # the ticks are one table, with one heading
        look = msgspec.structs.replace(look, asked=msgspec.structs.replace(look.asked, has_header=False))
    while until is None or answers_problem() is not None or not until.holds(last):
        time.sleep(interval_s)
        try:
            last = tick(last)
        except (ConnectError, RequestTimeoutError) as error:
            diagnostics.notice(f"{error}; asking again in {interval_s:g} s")
    return last
