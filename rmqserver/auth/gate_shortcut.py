"""The gate's short way for hot requests: sends, pulls, pops and acknowledgements of a user whom this connection has
already sent one of the same kind, with the same ext fields by name.

Nothing is taken for granted that the full way asks. Every signature is computed and compared. What is remembered is how
to ask faster: for which user and key, in which order the fields are signed, and which topics and groups the user may
use from this address. A change of users or policies forgets all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from msgspec.structs import astuple

from rmqproto.command import HeaderCodec
from rmqproto.signed_fields import OTHER_FIELDS, SignedFields, has_signed_fields
from rmqproto.signing import SigningKey
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection

_SHAPES_MAX = 256
"""Sets of names for which there is a decoder. Real clients have some twenty. Further ones take the full way."""

_MISSES_MAX = 100
"""Of one code on one connection: a client whose requests are not alike takes the full way from then on."""


class _Known(NamedTuple):
    """Of one request code on one connection."""

    decode: Callable[[bytes], Any]
    access_key_at: int
    user: str
    has_signed: Callable[[tuple[str, ...], bytes], bool]
    names: Callable[[Any], object]
    allowed: Container[object] | None
    """What ``names`` may give; None if that does not matter."""


class GateShortcut:
    """``hot`` has, for each request code that may come this way, what its judgement depends on beside user and address,
    taken from the header."""

    def __init__(self, hot: Mapping[int, Callable[[Any], object]]):
        self._hot = hot
        self._shapes: dict[tuple[str, ...], SignedFields] = {}
        self._known: dict[Connection, dict[int, _Known]] = {}
        self._misses: dict[Connection, dict[int, int]] = {}

    def admits(self, request: Request[Any], header: bytes, connection: Connection) -> bool:
        """Whether the request, of a JSON ``header``, may pass. If not, the full way says whether it may."""
        code = request.code
        try:
            decode, access_key_at, user, has_signed, names, allowed = self._known[connection][code]
        except KeyError:
            return False
        try:
            values = astuple(decode(header).ext)
        except OTHER_FIELDS:
            self._missed(connection, code)
            return False
        return (
            values[access_key_at] == user
            and (allowed is None or names(request.header) in allowed)
            and has_signed(values, request.body)
        )

    def learn(
        self,
        request: Request[Any],
        ext: Mapping[str, str],
        connection: Connection,
        user: str,
        key: SigningKey,
        allowed: Container[object] | None,
    ) -> None:
        """The full way has just let the request pass, as the user's."""
        code = request.code
        if code not in self._hot or request.codec != HeaderCodec.JSON:
            return
        if self._misses.get(connection, {}).get(code, 0) >= _MISSES_MAX:
            return
        fields = self._fields(tuple(ext))
        if fields is not None:
            known = _Known(fields.decode, fields.access_key_at, user, key.has_signed_values, self._hot[code], allowed)
            self._known.setdefault(connection, {})[code] = known

    def _fields(self, names: tuple[str, ...]) -> SignedFields | None:
        """Only who has signed a request gets a decoder made."""
        found = self._shapes.get(names)
        if found is None and len(self._shapes) < _SHAPES_MAX and has_signed_fields(names):
            found = self._shapes[names] = SignedFields(names)
        return found

    def _missed(self, connection: Connection, code: int) -> None:
        del self._known[connection][code]
        misses = self._misses.setdefault(connection, {})
        misses[code] = misses.get(code, 0) + 1

    def connection_closed(self, connection: Connection) -> None:
        self._known.pop(connection, None)
        self._misses.pop(connection, None)

    def forget(self) -> None:
        """Users or policies are not what they were."""
        self._known.clear()
