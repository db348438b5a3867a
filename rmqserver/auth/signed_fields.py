"""The signed ext fields of JSON headers, in the order in which they are signed (``rmqproto/wire/signing.py``).

A client's requests of one code all have the same fields, in the same order. A server that knows their names can cut out
just these values. It needs no table of names and values, and no sorting. These are most of the cost of checking a
signature, besides the two hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import astuple

from rmqproto.wire.signing import ACCESS_KEY, SIGNATURE, is_left_out_by_some
from rmqserver.core import cut_signed

OTHER_FIELDS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

_FIELDS_MAX = 64

Cut = Callable[[bytes, bytes], tuple[bytes, bytes, bool] | None]


class SignedFields:
    """Exactly the fields of these names, all of them text."""

    __slots__ = ("_access_key_at", "_decode", "_names")

    def __init__(self, names: Collection[str]):
        """``names`` are in the client's order, and ``has_signed_fields`` is true of them."""
        self._names = tuple(names)
        order = _in_order_of_signing(self._names)
        self._access_key_at = order.index(ACCESS_KEY)
        # Attributes are numbered, because a name on the wire may be a Python keyword.
        named = {f"field_{at}": name for at, name in enumerate(order)}
        fields = msgspec.defstruct(
            "Fields", [(attribute, str) for attribute in named], rename=named, forbid_unknown_fields=True, gc=False
        )
        header = msgspec.defstruct("SignedHeader", [("ext", fields)], rename={"ext": "extFields"}, gc=False)
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(header).decode

    def read(self, header: bytes) -> tuple[str, bytes, bytes]:
        """The access key, the signed values in order, and the signature. Raises one of OTHER_FIELDS if the header has
        other fields."""
        values = astuple(self._decode(header).ext)
        return values[self._access_key_at], "".join(values[:-1]).encode(), values[-1].encode()

    def cutter(self, access_key: str, judged: Mapping[str, str]) -> Cut:
        """A function of a header, which is known to decode to an object with an object ``extFields``, and of a body. It
        returns the signed content including the body, the signature, and whether the ``judged`` fields have the same
        values again. It returns None for a header that needs ``read``, which takes three times as long: another access
        key, other fields or another order, unusual spelling, or a large body. Without the native core it always
        returns None."""
        known = {name: _as_written(value) for name, value in {**judged, ACCESS_KEY: access_key}.items()}
        if None in known.values() or not {*known} <= {*self._names}:
            return _leaves_all
        keys = tuple(map(str.encode, self._names))
        order = bytes(map(self._names.index, _in_order_of_signing(self._names)))
        return partial(cut_signed, keys, order, tuple(map(known.get, self._names)), self._names.index(ACCESS_KEY))


def has_signed_fields(names: Collection[str]) -> bool:
    """Whether SignedFields support these names. They do not support fields that some clients add after signing, or
    names that no client uses."""
    return (
        len(names) <= _FIELDS_MAX
        and {ACCESS_KEY, SIGNATURE} <= {*names}
        and all(name.isascii() and name.isidentifier() for name in names)
        and not is_left_out_by_some(names)
    )


def _in_order_of_signing(names: Collection[str]) -> list[str]:
    """The signed names in order, and the signature last."""
    return [*sorted(name for name in names if name != SIGNATURE), SIGNATURE]


def _as_written(text: str) -> bytes | None:
    """The text as JSON writes it; None if it can be written in several ways, and for some other texts."""
    is_plain = text.isascii() and text.isprintable() and not {'"', "\\"} & {*text}
    return text.encode() if is_plain else None


def _leaves_all(header: bytes, body: bytes) -> None:
    return None
