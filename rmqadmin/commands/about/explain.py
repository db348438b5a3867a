"""``explain``: shows the error table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.error_table import EXPLANATIONS, exit_code_of
from rmqadmin.core.results import Result, Row, doc
from rmqproto.codes import ResponseCode, response_name
from rmqproto.errors import NotFoundError
from rmqproto.java.whole_numbers import whole_number


class ExplanationRow(Row, frozen=True):
    code: Annotated[int, doc("response code, as on the wire")]
    name: Annotated[str, doc("its name", key=True)]
    exit_code: Annotated[int, doc("exit status of rmqadmin for it")]
    meaning: Annotated[str, doc("what it means")]
    hint: Annotated[str, doc("what to do about it")]


class Explanations(Result, frozen=True):
    """What response codes mean."""

    codes: list[int]
    row_type: ClassVar[type[Row]] = ExplanationRow

    def rows(self) -> Sequence[ExplanationRow]:
        return [
            ExplanationRow(
                code=code,
                name=response_name(code),
                exit_code=exit_code_of(code),
                meaning=EXPLANATIONS[code].meaning,
                hint=EXPLANATIONS[code].hint,
            )
            for code in self.codes
        ]

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        """Whole sentences for a single code, because a narrow table would cut them off."""
        return _card(self.rows()[0], width) if len(self.codes) == 1 else None


def _card(row: ExplanationRow, width: int | None) -> Iterator[str]:
    parts = {f"{row.code} {row.name}, ": f"exit status {row.exit_code}", "  ": row.meaning, "  hint: ": row.hint}
    for head, text in parts.items():
        indent = " " * (len(head) - len(head.lstrip()) + 2)
        lines = [head + text] if width is None else textwrap.wrap(head + text, width, subsequent_indent=indent)
        yield from (f"{line}\n" for line in lines)


def explain(
    call: Call,
    code: Annotated[
        str | None, Value.CHOICE, typer.Argument(metavar="[CODE]", help="Number or name; without it, all codes.")
    ] = None,
) -> Explanations:
    """Brokers and name servers answer with response codes; errors show them in brackets, with their names.

    Examples:
      rmqadmin explain 17
      rmqadmin explain TOPIC_NOT_EXIST
      rmqadmin -o json explain
    """
    if code is None:
        return Explanations([int(known) for known in EXPLANATIONS])
    wanted = code.strip().upper()
    names = {name.name: int(name) for name in ResponseCode}
    number = names.get(wanted, whole_number(wanted))
    if number not in EXPLANATIONS:
        raise NotFoundError(f"nothing is known about the response code {code!r}", hint="`rmqadmin explain` lists them.")
    return Explanations([number])
