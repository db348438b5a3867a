"""``--json FIELDS`` and ``--jq EXPR``, as in ``gh``: an array of the items with only the named fields, and the output
of a jq program for that array.

jq itself comes from the package of that name, in the extra ``[jq]``: it is native code, and only this option needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rmqadmin.core.results import Result, columns
from rmqproto.errors import UsageError


class PickedFields(msgspec.Struct, frozen=True):
    """``jq``: a program that takes the array; None shows the array."""

    names: tuple[str, ...]
    jq: str | None = None

    def texts(self, result: Result, *, is_pretty: bool) -> Iterator[str]:
        """The output in lines. ``is_pretty``: for a person, with each object over several lines."""
        items = [{name: getattr(row, name, None) for name in self.names} for row in result.rows()]
        array = msgspec.json.encode(items)
        if self.jq is None:
            yield _laid_out(array, is_pretty=is_pretty)
            return
        for value in _run_jq(self.jq, array):
            yield _text_of(value, is_pretty=is_pretty)


def pick_fields(text: str, jq: str | None, result_types: Sequence[type[Result]]) -> PickedFields:
    """Parses the fields and the program. UsageError for a field that no answer of the command has, and for an invalid
    program."""
    known = field_names(result_types)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"there is no field {unknown[0]!r}" if unknown else "no field is named"
        raise UsageError(f"--json: {problem}", hint=fields_hint(result_types))
    if jq is not None:
        _compiled(jq)
    return PickedFields(names, jq)


def field_names(result_types: Sequence[type[Result]]) -> list[str]:
    return list(dict.fromkeys(column.name for kind in result_types for column in columns(kind.row_type)))


def fields_hint(result_types: Sequence[type[Result]]) -> str:
    return f"The fields are {', '.join(field_names(result_types))}."


def _compiled(program: str) -> Any:
    try:
        import jq  # 13 ms
    except ImportError:
        hint = "pip install 'rmqadmin[jq]', or pipe what --json writes into the program jq."
        raise UsageError("--jq needs the package jq, which is not installed", hint=hint) from None
    try:
        return jq.compile(program)
    except ValueError as error:
        raise UsageError(f"--jq: {_first_words(error)}") from None


def _run_jq(program: str, array: bytes) -> Iterator[Any]:
    try:
        yield from _compiled(program).input_text(array.decode())
    except ValueError as error:
        raise UsageError(f"--jq: {_first_words(error)}") from None


def _first_words(error: ValueError) -> str:
    """The message without the lines that draw where the error is."""
    return str(error).removeprefix("jq: error: ").splitlines()[0]


def _text_of(value: Any, *, is_pretty: bool) -> str:
    """A text value as it is, nothing for null, and anything else as JSON."""
    if isinstance(value, str):
        return value + "\n"
    return "\n" if value is None else _laid_out(msgspec.json.encode(value), is_pretty=is_pretty)


def _laid_out(data: bytes, *, is_pretty: bool) -> str:
    return (msgspec.json.format(data, indent=2) if is_pretty else data).decode() + "\n"
