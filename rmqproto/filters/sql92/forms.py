"""Access to properties in a compiled expression: as text from a mapping, or as bytes from a record.

A record's properties are not parsed. The function looks only for those that the expression names, and decodes a value
only if its bytes cannot decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from rmqproto.filters.sql92.java_values import double, int32, int64
from rmqproto.message.properties import find_bytes

REPLACEMENT = "\ufffd"
"""Bytes that are not UTF-8 are read as this character, as in Java."""

REMEMBERED_MAX, REMEMBERED_MAX_BYTES = 1024, 32
"""The count of remembered numbers and the size of each in bytes. When there are more, all are forgotten."""

INLINED_MAX = 8
"""Properties that are looked for without a call. A call costs as much as the search, but compiles five times as
fast."""


class Form(Protocol):
    """Python source for the parts of an expression that depend on the form. A variable holds a property's value, or
    None."""

    names: Mapping[str, Any]
    """The names that the source uses."""

    def read(self, variable: str, name: str) -> str:
        """A statement that sets the variable to the property's value."""

    def text(self, variable: str) -> str:
        """The variable as ``str`` or None."""

    def beside(self, variable: str, literals: Sequence[str]) -> tuple[str, list[str]]:
        """A variable that is not None, and literals to compare it with, in comparable types."""

    def number(self, read: str, variable: str) -> str:
        """The number held by a variable that is not None; ``read`` is the function of ``java_values``."""


class MappingForm:
    names: Mapping[str, Any] = {"int32": int32, "int64": int64, "double": double}

    def read(self, variable: str, name: str) -> str:
        return f"{variable} = properties.get({name!r})"

    def text(self, variable: str) -> str:
        return variable

    def beside(self, variable: str, literals: Sequence[str]) -> tuple[str, list[str]]:
        return variable, [repr(literal) for literal in literals]

    def number(self, read: str, variable: str) -> str:
        return f"{read}({variable})"


N = TypeVar("N", bound=float)


class Numbers(dict[bytes, N]):
    """A cache of the numbers in bytes: most properties have few values. JavaError for bytes that hold no number."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[str], N]):
        """``read`` is a function of ``java_values``."""
        super().__init__()
        self._read = read

    def __missing__(self, value: bytes) -> N:
        number = self._read(value.decode("utf-8", "replace"))
        if len(value) <= REMEMBERED_MAX_BYTES:
            if len(self) >= REMEMBERED_MAX:
                self.clear()
            self[value] = number
        return number


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _value(properties: bytes, name_and_separator: bytes) -> bytes | None:
    """A property's value wherever it is; None if it is missing or empty."""
    return find_bytes(properties, name_and_separator) or None


class RecordForm:
    """Variables hold bytes. The last of several values counts, and an empty value counts as missing
    (``properties.parse``)."""

    names: Mapping[str, Any] = {
        "int32": Numbers(int32), "int64": Numbers(int64), "double": Numbers(double), "text": _text, "value": _value,
    }  # fmt: skip

    def __init__(self) -> None:
        self._read_count = 0

    def read(self, variable: str, name: str) -> str:
        first = f"{name}\x01".encode()
        self._read_count += 1
        if self._read_count > INLINED_MAX:
            return f"{variable} = value(properties, {first!r})"
        # Most properties are neither first nor empty. ``partition`` costs less than ``find`` and a slice.
        behind = b"\x02" + first
        slowly = f"value(properties, {first!r})"
        found = rf"(parts[2].partition(b'\x02')[0] or {slowly}) if (parts := properties.rpartition({behind!r}))[1]"
        return f"{variable} = {found} else {slowly} if properties.startswith({first!r}) else None"

    def text(self, variable: str) -> str:
        return f"text({variable})"

    def beside(self, variable: str, literals: Sequence[str]) -> tuple[str, list[str]]:
        try:
            encoded = [literal.encode() for literal in literals]
        except UnicodeEncodeError:  # half a surrogate pair, which no message has
            encoded = []
        if not encoded or any(REPLACEMENT in literal for literal in literals):
            return f"text({variable})", [repr(literal) for literal in literals]
        return variable, [repr(literal) for literal in encoded]

    def number(self, read: str, variable: str) -> str:
        return f"{read}[{variable}]"


class ValuesForm(RecordForm):
    """The caller has looked up the properties: the variables are parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.read_names: list[bytes] = []
        self.variables: list[str] = []

    def read(self, variable: str, name: str) -> str:
        self.read_names.append(f"{name}\x01".encode())
        self.variables.append(variable)
        return "pass"
