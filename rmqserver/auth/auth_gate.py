"""The gate that authenticates and authorizes every request (``AuthenticationPipeline`` and ``AuthorizationPipeline``,
5.5.0), before anything else, whatever its codec, oneway or not."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from typing import Any

from rmqproto.access.users import User
from rmqproto.wire.signing import ACCESS_KEY
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.auth.authentication import Authentication
from rmqserver.auth.authorization import Authorization
from rmqserver.auth.gate_shortcut import HOT_NAMES, GateShortcut
from rmqserver.logs import Seldom
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.gate import TakeOver

log = logging.getLogger(__name__)

_NAME_SHOWN_MAX_CHARS = 64


class AuthGate:
    """The gate of one service, whose ``settings`` must enable authentication."""

    wants_ext = True

    def __init__(self, settings: AuthSettings, table: AuthTable, cluster: str, served: Container[int]):
        self._authentication = Authentication(settings, table)
        self._authorization = Authorization(settings, table, cluster, served) if settings.is_authorizing else None
        self._open_codes = settings.authentication_whitelist
        self._free_codes = settings.authorization_whitelist
        self._shortcut = GateShortcut(HOT_NAMES)
        table.on_change.append(self._shortcut.forget)
        self.admits_at_sight, self.admits_undecoded = self._shortcut.admits, self._shortcut.admits_undecoded
        self._seldom = Seldom()

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        """Never takes a request over. Logs refusals at a limited rate for each user."""
        try:
            self._check(request, ext, connection)
        except Refused as refused:
            name = ext.get(ACCESS_KEY, "")[:_NAME_SHOWN_MAX_CHARS]
            if self._seldom.is_due(name):
                log.warning(
                    "event=refused-request user=%r peer=%s code=%d reason=%r",
                    name, connection.address, request.code, (refused.remark or "")[:200],
                )  # fmt: skip
            raise
        return None

    def _check(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> None:
        user: User | None
        if request.code not in self._open_codes:
            user = self._authentication.user(request, ext, connection)
        elif self._authorization is not None:
            user = self._authentication.user_if_signed(request, ext)
        else:
            return
        if self._authorization is not None and request.code not in self._free_codes:
            self._authorization.check(request, user, connection.real_address)
        if request.code in HOT_NAMES and request.code not in self._open_codes and user is not None:
            self._learn(request, ext, connection, user)

    def _learn(self, request: Request[Any], ext: Mapping[str, str], connection: Connection, user: User) -> None:
        key, allowed = self._authentication.key(user), None
        if self._authorization is not None and request.code not in self._free_codes and not user.is_super:
            allowed = self._authorization.allowed(user, request.code, connection.real_address)
        if key is not None:
            self._shortcut.learn(request, ext, connection, user.name, key, allowed)

    def connection_closed(self, connection: Connection) -> None:
        self._authentication.connection_closed(connection)
        self._shortcut.connection_closed(connection)
