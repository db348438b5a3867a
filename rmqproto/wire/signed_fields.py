"""What is signed of the ext fields of JSON headers, in the order in which it is signed (``signing.py``).

A client's requests of one code all have the same fields, and write them in the same order. Who knows their names cuts
just these, and saves the table of names and values, and its order: most of what it costs to check a signature beside
the two hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import astuple

from rmqproto.wire.signing import ACCESS_KEY, SIGNATURE, is_left_out_by_some

try:
    from rmqproto.wire import _signed_fields as _native
except ImportError:  # it was installed without a C compiler
    _native = None  # type: ignore[assignment]

OTHER_FIELDS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

_FIELDS_MAX = 64

Cut = Callable[[bytes, bytes], tuple[bytes, bytes, bool] | None]


class SignedFields:
    """Exactly the fields of these names, all of them text."""

    __slots__ = ("_access_key_at", "_decode", "_names")

    def __init__(self, names: Collection[str]):
        """``has_signed_fields`` of them, in the order in which the client writes them."""
        self._names = tuple(names)
        order = _in_order_of_signing(self._names)
        self._access_key_at = order.index(ACCESS_KEY)
        # Attributes are numbered: a name on the wire may be a word of Python's.
        named = {f"field_{at}": name for at, name in enumerate(order)}
        fields = msgspec.defstruct(
            "Fields", [(attribute, str) for attribute in named], rename=named, forbid_unknown_fields=True, gc=False
        )
        header = msgspec.defstruct("SignedHeader", [("ext", fields)], rename={"ext": "extFields"}, gc=False)
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(header).decode

    def read(self, header: bytes) -> tuple[str, bytes, bytes]:
        """The access key, the values that are signed, in order, and the signature. One of OTHER_FIELDS is raised if the
        header has others than these fields."""
        values = astuple(self._decode(header).ext)
        return values[self._access_key_at], "".join(values[:-1]).encode(), values[-1].encode()

    def cutter(self, access_key: str, judged: Mapping[str, str]) -> Cut:
        """A function of a header, which was decoded already to an object with an object ``extFields``, and of a body.
        It returns what is signed, the body with it, then the signature, and whether the ``judged`` fields have these
        values again. Or None for all that is left to ``read``, which takes three times as long: another access key,
        other fields or another order of them, text that is not ASCII, unusual spelling, a large body. Everything is,
        where there was no C compiler."""
        known = {name: _as_written(value) for name, value in {**judged, ACCESS_KEY: access_key}.items()}
        if _native is None or None in known.values() or not {*known} <= {*self._names}:
            return _leaves_all
        keys = tuple(f'"{name}":"'.encode() for name in self._names)
        order = bytes(map(self._names.index, _in_order_of_signing(self._names)))
        return partial(_native.cut, keys, order, tuple(map(known.get, self._names)), self._names.index(ACCESS_KEY))


def has_signed_fields(names: Collection[str]) -> bool:
    """Whether there can be SignedFields of these names: not of those that some clients add behind the signature, and
    not of names that no client has."""
    return (
        len(names) <= _FIELDS_MAX
        and {ACCESS_KEY, SIGNATURE} <= {*names}
        and all(name.isascii() and name.isidentifier() for name in names)
        and not is_left_out_by_some(names)
    )


def _in_order_of_signing(names: Collection[str]) -> list[str]:
    """The signature behind what is signed."""
    return [*sorted(name for name in names if name != SIGNATURE), SIGNATURE]


def _as_written(text: str) -> bytes | None:
    """None for text that can be written in several ways, and some other."""
    is_plain = text.isascii() and text.isprintable() and not {'"', "\\"} & {*text}
    return text.encode() if is_plain else None


def _leaves_all(header: bytes, body: bytes) -> None:
    return None
