"""The ext fields of signed JSON headers, decoded straight into the order in which they are signed (``signing.py``).

A client's requests of one code all have the same fields. Who knows their names has a decoder made for just these, and
saves the table of names and values, and its order: half of what it costs to check a signature.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from rmqproto.signing import ACCESS_KEY, SIGNATURE, is_left_out_by_some

OTHER_FIELDS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

_FIELDS_MAX = 64


class SignedFields:
    """Exactly the fields of these names, all of them text. ``decode`` takes a header and returns an object, of which
    ``ext`` is one that ``msgspec.structs.astuple`` makes a tuple of: what is signed, in order, and the signature behind
    it. It raises one of OTHER_FIELDS for any other header. ``access_key_at`` is the place of the access key."""

    __slots__ = ("access_key_at", "decode")

    def __init__(self, names: Iterable[str]):
        """``has_signed_fields`` of them."""
        order = [*sorted(name for name in names if name != SIGNATURE), SIGNATURE]
        self.access_key_at = order.index(ACCESS_KEY)
        # Attributes are numbered: a name on the wire may be a word of Python's.
        named = {f"field_{at}": name for at, name in enumerate(order)}
        fields = msgspec.defstruct(
            "Fields", [(attribute, str) for attribute in named], rename=named, forbid_unknown_fields=True, gc=False
        )
        header = msgspec.defstruct("SignedHeader", [("ext", fields)], rename={"ext": "extFields"}, gc=False)
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(header).decode


def has_signed_fields(names: Collection[str]) -> bool:
    """Whether there can be SignedFields of these names: not of those that some clients add behind the signature, and
    not of names that no client has."""
    return (
        len(names) <= _FIELDS_MAX
        and {ACCESS_KEY, SIGNATURE} <= {*names}
        and all(name.isascii() and name.isidentifier() for name in names)
        and not is_left_out_by_some(names)
    )
