"""What a command hands to the renderer: rows of one documented type, a summary where there is one, and Apache's own
text where that is matched. Commands never print; ``output`` turns a result into every format.

A row is a Struct whose fields are the contract of ``json``, ``jsonl`` and ``tsv``: snake case, units last, None for
what is unknown. Their order is the order of the columns.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from functools import cache
from types import UnionType
from typing import Any, ClassVar

import msgspec

_WIDE, _KEY, _TIME, _SPARSE = "wide", "key", "time", "sparse"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all rows and summaries. Annotate every field with ``doc``."""


def doc(description: str, *, key: bool = False, wide: bool = False, sparse: bool = False) -> msgspec.Meta:
    """What a field says. ``key``: it is (part of) the row's name, for ``--output name``. ``wide``: tables show it only
    with ``--output wide``. ``sparse``: tables leave it out where no row has it."""
    return msgspec.Meta(description=description, extra={_WIDE: wide, _KEY: key, _SPARSE: sparse})


TIME = msgspec.Meta(extra={_TIME: True})
"""Marks ms since the epoch, in a field named ``*_ms``: a number in JSON and YAML, ISO 8601 text in columns."""


class Column(msgspec.Struct, frozen=True):
    """One field of a row type. ``title`` heads it in csv and tsv, and in upper case in tables."""

    name: str
    title: str
    type_name: str
    description: str
    is_key: bool
    is_wide: bool
    is_sparse: bool
    is_time: bool
    is_number: bool


@cache
def columns(row_type: type[Row]) -> tuple[Column, ...]:
    return tuple(_column(field) for field in msgspec.structs.fields(row_type))


def _column(field: Any) -> Column:
    base, description = field.type, ""
    extra: dict[str, bool] = {}
    if typing.get_origin(base) is typing.Annotated:
        base, *metas = typing.get_args(base)
        for meta in metas:
            description = meta.description or description
            extra.update(meta.extra or {})
    names = [_type_name(part) for part in (typing.get_args(base) if isinstance(base, UnionType) else (base,))]
    is_time = bool(extra.get(_TIME))
    return Column(
        name=field.encode_name,
        title=field.encode_name.removesuffix("_ms") if is_time else field.encode_name,
        type_name=" or ".join(names) + (", ms since the epoch" if is_time else ""),
        description=description,
        is_key=bool(extra.get(_KEY)),
        is_wide=bool(extra.get(_WIDE)),
        is_sparse=bool(extra.get(_SPARSE)),
        is_time=is_time,
        is_number=not is_time and names[0] in ("integer", "number"),
    )


def _type_name(part: Any) -> str:
    origin = typing.get_origin(part) or part
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return "object"
    names = {str: "text", int: "integer", float: "number", bool: "boolean", list: "list", dict: "object"}
    return "null" if part is type(None) else names[origin]


class Result(msgspec.Struct, frozen=True):
    """One answer of one command. The first line of a subclass's docstring says when the command gives it."""

    row_type: ClassVar[type[Row]]

    def rows(self) -> Sequence[Row]:
        raise NotImplementedError

    def summary(self) -> Row | None:
        """What belongs to no single row: totals, rates."""
        return None

    def mqadmin_text(self) -> str | None:
        """What mqadmin 5.5.0 prints for the same answer, to the byte; None where it has no such answer."""
        return None

    def problem(self) -> str | None:
        """What went wrong with some of it, where other parts are worth showing. Ends the program with status 1."""
        return None
