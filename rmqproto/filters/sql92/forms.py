"""How a compiled expression gets at properties: as text from a mapping, or as bytes from a record.

A record's properties stay where they are. Only those that the expression names are looked for, and what can be decided
by their bytes is not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from rmqproto.filters.sql92.java_values import double, int32, int64
from rmqproto.message.properties import find_bytes

REPLACEMENT = "\ufffd"
"""What bytes that are not UTF-8 are read as, as in Java."""

REMEMBERED_MAX, REMEMBERED_MAX_BYTES = 1024, 32
"""Numbers that are remembered, and bytes of each; with one more, all are forgotten."""

INLINED_MAX = 8
"""Properties that are looked for without a call. A call costs as much as the search, but compiles five times as
fast."""


class Form(Protocol):
    """Python source for the parts of an expression that depend on the form. A variable holds a property's value, or
    None."""

    names: Mapping[str, Any]
    """What the source calls."""

    def read(self, variable: str, name: str) -> str:
        """A statement that gives the variable its value."""

    def text(self, variable: str) -> str:
        """The variable as ``str`` or None."""

    def beside(self, variable: str, literals: Sequence[str]) -> tuple[str, list[str]]:
        """A variable that is not None, and text that it is compared with, in types that can be compared."""

    def number(self, read: str, variable: str) -> str:
        """The number that a variable that is not None holds; ``read`` is the function of ``java_values``."""


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
    """The numbers that bytes hold, read once as long as they are remembered: most properties have few values. JavaError
    for bytes that hold none."""

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
    """Wherever it is; None if it is missing or empty."""
    return find_bytes(properties, name_and_separator) or None


class RecordForm:
    """Variables hold bytes. Of several values the last one counts, and an empty one is none (``properties.parse``)."""

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
        # Most are neither the first nor empty. ``partition`` costs less than ``find`` and a slice.
        behind = b"\x02" + first
        slowly = f"value(properties, {first!r})"
        found = rf"(parts[2].partition(b'\x02')[0] or {slowly}) if (parts := properties.rpartition({behind!r}))[1]"
        return f"{variable} = {found} else {slowly} if properties.startswith({first!r}) else None"

    def text(self, variable: str) -> str:
        return f"text({variable})"

    def beside(self, variable: str, literals: Sequence[str]) -> tuple[str, list[str]]:
        try:
            encoded = [literal.encode() for literal in literals]
        except UnicodeEncodeError:  # half a surrogate pair, which no message holds
            encoded = []
        if not encoded or any(REPLACEMENT in literal for literal in literals):
            return f"text({variable})", [repr(literal) for literal in literals]
        return variable, [repr(literal) for literal in encoded]

    def number(self, read: str, variable: str) -> str:
        return f"{read}[{variable}]"


class ValuesForm(RecordForm):
    """Somebody else has looked for the properties: the variables are parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.read_names: list[bytes] = []
        self.variables: list[str] = []

    def read(self, variable: str, name: str) -> str:
        self.read_names.append(f"{name}\x01".encode())
        self.variables.append(variable)
        return "pass"
