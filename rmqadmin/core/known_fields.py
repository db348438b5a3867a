"""Refuses fields that nothing reads, in files and values that people write or edit: a mistyped name would have no
effect."""

import typing
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any

import msgspec

from rmqadmin.core.names import did_you_mean
from rmqproto.errors import UsageError


def unknown_field(where: str, field: str, known: Sequence[str]) -> UsageError:
    advice = did_you_mean(field, known) or f"The fields are {', '.join(known)}."
    return UsageError(f"{where}: there is no field {field}", hint=advice)


_MEMBERS: dict[str, tuple[str, ...]] = {
    "customizedRetryPolicy": ("next",),
    "exponentialRetryPolicy": ("initial", "max", "multiplier"),
}
"""The names in objects for which we have no Struct."""


def check_nested(where: str, value: Any, kind: Any) -> None:
    """UsageError, which begins with the field's place, for one that a Struct of ours does not have, at any depth."""
    if isinstance(kind, UnionType):
        kind = next((part for part in typing.get_args(kind) if part is not type(None)), kind)
    if typing.get_origin(kind) is list and isinstance(value, list):
        for at, each in enumerate(value):
            check_nested(f"{where}[{at}]", each, typing.get_args(kind)[0])
    if typing.get_origin(kind) is dict and isinstance(value, Mapping):
        for name, each in value.items():
            check_nested(f"{where}.{name}", each, typing.get_args(kind)[1])
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, Mapping)):
        return
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for field, each in value.items():
        if field not in types:
            raise unknown_field(where, field, [*types])
        for member in each if field in _MEMBERS and isinstance(each, Mapping) else ():
            if member not in _MEMBERS[field]:
                raise unknown_field(f"{where}.{field}", member, _MEMBERS[field])
        check_nested(f"{where}.{field}", each, types[field])
