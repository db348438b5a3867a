"""The gate's short way for hot requests: sends, pulls, pops and acknowledgements of a user whom this connection has
already sent one of the same kind, with the same ext fields by name.

Nothing is taken for granted that the full way asks. Every signature is computed and compared. What is remembered is how
to ask faster: for which user and key, in which order the fields are signed, and which topics and groups the user may
use from this address. A change of users or policies forgets all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from rmqproto.wire.command import HeaderCodec
from rmqproto.wire.signed_fields import OTHER_FIELDS, Cut, SignedFields, has_signed_fields
from rmqproto.wire.signing import SigningKey
from rmqserver.auth.needs import HotNames
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection

_SHAPES_MAX = 256
"""Sets of names for which there is a decoder. Real clients have some twenty. Further ones take the full way."""

_MISSES_MAX = 100
"""Of one code on one connection: a client whose requests are not alike takes the full way from then on."""


class _Known(NamedTuple):
    """Of one request code on one connection."""

    cut: Cut
    read: Callable[[bytes], tuple[str, bytes, bytes]]
    user: str
    has_signed: Callable[..., bool]
    names: Callable[[Any], object]
    allowed: Container[object] | None
    """What ``names`` may give; None if that does not matter."""


class GateShortcut:
    """``hot`` has, for each request code that may come this way, what its judgement depends on beside user and address:
    fields of the header."""

    def __init__(self, hot: Mapping[int, HotNames]):
        self._hot = hot
        self._shapes: dict[tuple[str, ...], SignedFields] = {}
        self._known: dict[Connection, dict[int, _Known]] = {}
        self._misses: dict[Connection, dict[int, int]] = {}

    def admits(self, request: Request[Any], header: bytes, connection: Connection) -> bool:
        """Whether the request, of a JSON ``header``, may pass. If not, the full way says whether it may."""
        try:
            cut, read, user, has_signed, names, allowed = self._known[connection][request.code]
        except KeyError:
            return False
        found = cut(header, request.body)
        if found is not None:
            content, signature, is_judged = found
            if not is_judged and allowed is not None and names(request.header) not in allowed:
                return False
            return has_signed(content, signature)
        try:
            name, content, signature = read(header)
        except OTHER_FIELDS:
            self._missed(connection, request.code)
            return False
        if name != user or (allowed is not None and names(request.header) not in allowed):
            return False
        return has_signed(content, signature, request.body)

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
        fields, hot = self._fields(tuple(ext)), self._hot[code]
        judged = {name: ext.get(name, "") for name in hot.ext_names}
        # Empty text is absent for some decoders.
        if fields is not None and all(judged.values()) and hot.of(request.header) == tuple(judged.values()):
            cut = fields.cutter(user, judged)
            known = _Known(cut, fields.read, user, key.has_signed_content, hot.of, allowed)
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
