"""Authorization: checks what a request needs against the user's policies (``UserAuthorizationHandler`` and
``AclAuthorizationHandler``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from rmqproto.access.users import User, judge
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import NoFields
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.auth.gate_shortcut import HOT_NAMES
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.request_needs import Pair, PairsOf, nothing
from rmqserver.request_rules import SERVED

_DECISIONS_MAX = 10_000
_NO_USER = "Authorization failed. Please verify your access rights and try again."
_UNREADABLE = "parse authorization context error."

_Question = tuple[str, Pair, str]
"""User, needed pair, and source address."""


class Authorization:
    """``served`` are the codes that the service has handlers for."""

    def __init__(self, settings: AuthSettings, table: AuthTable, cluster: str, served: Container[int]):
        self._table = table
        self._cluster = cluster
        self._served = served
        self._is_strict = settings.is_strict
        self._decisions: dict[_Question, str] = {}
        """The reason of a refusal; empty if the user may. As with both of Apache's strategies, a change of users or
        policies counts from the next request on."""
        table.on_change.append(self._decisions.clear)
        self._allowed: dict[tuple[str, int, str], set[object]] = {}
        """Hot requests that are allowed: the names in their headers, by user, request code and address."""
        self._allowed_count = 0
        table.on_change.append(self._forget_allowed)

    def check(self, request: Request[Any], user: User | None, peer: str) -> None:
        """Raises Refused with code 16 if ``user`` may not. ``user`` is None for an unsigned request."""
        if user is not None:
            if user.is_super:
                return
            names = HOT_NAMES.get(request.code)
            if names is not None and not isinstance(request.header, NoFields):
                asked = names.of(request.header)
                if asked not in self.allowed(user, request.code, peer):
                    self._judge(request, user, peer)
                    if self._allowed_count >= _DECISIONS_MAX:
                        self._forget_allowed()
                    key = user.name, request.code, peer.rpartition(":")[0]
                    self._allowed.setdefault(key, set()).add(asked)
                    self._allowed_count += 1
                return
        self._judge(request, user, peer)

    def allowed(self, user: User, code: int, peer: str) -> Container[object]:
        """The values of the code's HotNames that were judged and allowed so far. The container grows, and is emptied
        when its content is no longer valid."""
        return self._allowed.get((user.name, code, peer.rpartition(":")[0]), ())

    def _forget_allowed(self) -> None:
        for allowed in self._allowed.values():
            allowed.clear()
        self._allowed.clear()
        self._allowed_count = 0

    def _judge(self, request: Request[Any], user: User | None, peer: str) -> None:
        pairs_of = self._pairs_of(request)
        if pairs_of is None:
            return
        try:
            pairs = list(pairs_of(request, self._cluster))
        except ProtocolError:
            raise Refused(ResponseCode.NO_PERMISSION, _UNREADABLE) from None
        if user is None:
            if pairs:
                raise Refused(ResponseCode.NO_PERMISSION, _NO_USER)
            return
        source_ip = peer.rpartition(":")[0]
        for pair in pairs:
            question = (user.name, pair, source_ip)
            refusal = self._decisions.get(question)
            if refusal is None:
                acl = self._table.acl_of(user.name)
                refusal = judge(user, acl, pair.resource, pair.actions, source_ip).refusal
                if len(self._decisions) >= _DECISIONS_MAX:
                    self._decisions.clear()
                self._decisions[question] = refusal
            if refusal:
                raise Refused(ResponseCode.NO_PERMISSION, refusal)

    def _pairs_of(self, request: Request[Any]) -> PairsOf | None:
        """Returns None for a code that the service does not serve and will refuse itself."""
        code = request.code
        need = SERVED.get(code)
        if need is None:
            if code not in self._served:
                return None
            raise Refused(ResponseCode.NO_PERMISSION, f"request type {code} is for super users alone")
        pairs_of = need.strict if self._is_strict and need.strict is not None else need.pairs
        has_header = REQUEST_HEADERS.get(code, NoFields) is not NoFields
        if pairs_of is not nothing and has_header and isinstance(request.header, NoFields):
            raise Refused(ResponseCode.NO_PERMISSION, _UNREADABLE)
        return pairs_of
