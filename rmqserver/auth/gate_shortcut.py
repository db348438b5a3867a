"""The gate's fast path for hot requests: sends, pulls, pops and acknowledgements of a user, on a connection that has
already carried a request of this user with the same code and the same names of ext fields.

The fast path checks everything that the full one does: every signature is computed and compared. It only remembers how
to check faster: the user and key, the order in which the fields are signed, and the topics and groups that the user may
use from this address. A change of users or policies clears all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from rmqproto.headers.base import ext_names
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.wire.command import HeaderCodec
from rmqproto.wire.signing import SigningKey
from rmqserver.auth.signed_fields import OTHER_FIELDS, Cut, SignedFields, has_signed_fields
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection
from rmqserver.request_rules import SERVED

_SHAPES_MAX = 256
"""Limit of sets of names with a decoder. Real clients use about twenty. Further ones take the full path."""

_MISSES_MAX = 100
"""Limit for one code on one connection: a client whose requests differ so often takes the full path from then on."""


class _Known(NamedTuple):
    """What is known of one request code on one connection."""

    cut: Cut
    read: Callable[[bytes], tuple[str, bytes, bytes]]
    user: str
    has_signed: Callable[..., bool]
    names: Callable[[Any], object]
    allowed: Container[object] | None
    """The results of ``names`` that are allowed; None if all are."""


class HotNames:
    """The header fields on which the decision about a hot request depends besides user and address: ``of`` reads them
    from the typed header; ``ext_names`` are their names on the wire, in the same order."""

    def __init__(self, code: int, fields: tuple[str, ...]):
        written = {field: name for name, field in ext_names(REQUEST_HEADERS[code])}
        self.of: Callable[[Any], object] = attrgetter(*fields)
        self.ext_names = [written[field] for field in fields]


HOT_NAMES = {int(code): HotNames(code, row.names) for code, row in SERVED.items() if row.names}


class GateShortcut:
    """``hot`` has, for each request code that may take the fast path, the header fields on which the decision depends
    besides user and address."""

    def __init__(self, hot: Mapping[int, HotNames]):
        self._hot = hot
        self._shapes: dict[tuple[str, ...], SignedFields] = {}
        self._known: dict[Connection, dict[int, _Known]] = {}
        self._misses: dict[Connection, dict[int, int]] = {}

    def admits(self, request: Request[Any], header: bytes, connection: Connection) -> bool:
        """Whether a request with this JSON ``header`` may pass. If False, the full path decides."""
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
            del self._known[connection][request.code]
            misses = self._misses.setdefault(connection, {})
            misses[request.code] = misses.get(request.code, 0) + 1
            return False
        if name != user or (allowed is not None and names(request.header) not in allowed):
            return False
        return has_signed(content, signature, request.body)

    def admits_undecoded(self, connection: Connection, code: int, header: bytes, body: bytes) -> bool:
        """As ``admits``. False, too, if it depends on fields that have changed, or the header is not JSON."""
        try:
            cut, _, _, has_signed, _, allowed = self._known[connection][code]
        except KeyError:
            return False
        found = cut(header, body)
        return found is not None and (found[2] or allowed is None) and has_signed(*found[:2])

    def learn(
        self,
        request: Request[Any],
        ext: Mapping[str, str],
        connection: Connection,
        user: str,
        key: SigningKey,
        allowed: Container[object] | None,
    ) -> None:
        """Remembers a request of ``user`` that the full path has just admitted."""
        code = request.code
        if code not in self._hot or request.codec != HeaderCodec.JSON:
            return
        if self._misses.get(connection, {}).get(code, 0) >= _MISSES_MAX:
            return
        fields, hot = self._fields(tuple(ext)), self._hot[code]
        judged = {name: ext.get(name, "") for name in hot.ext_names}
        # Some decoders take an empty text as absent.
        if fields is not None and all(judged.values()) and hot.of(request.header) == tuple(judged.values()):
            cut = fields.cutter(user, judged)
            known = _Known(cut, fields.read, user, key.has_signed_content, hot.of, allowed)
            self._known.setdefault(connection, {})[code] = known

    def _fields(self, names: tuple[str, ...]) -> SignedFields | None:
        """Makes a decoder only for names that include a signature's fields."""
        found = self._shapes.get(names)
        if found is None and len(self._shapes) < _SHAPES_MAX and has_signed_fields(names):
            found = self._shapes[names] = SignedFields(names)
        return found

    def connection_closed(self, connection: Connection) -> None:
        self._known.pop(connection, None)
        self._misses.pop(connection, None)

    def forget(self) -> None:
        """Forgets everything, after a change of users or policies."""
        self._known.clear()
