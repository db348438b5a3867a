"""The gate that asks every request who it is and whether it may (``AuthenticationPipeline`` and
``AuthorizationPipeline``, 5.5.0): before anything else, in whatever codec it came, oneway or not."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable, User
from rmqserver.auth.authentication import Authentication
from rmqserver.auth.authorization import Authorization
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.gate import TakeOver


class AuthGate:
    """Of one service. ``settings`` say that it authenticates."""

    wants_ext = True

    def __init__(self, settings: AuthSettings, table: AuthTable, cluster: str, served: Container[int]):
        self._authentication = Authentication(settings, table)
        self._authorization = Authorization(settings, table, cluster, served) if settings.is_authorizing else None
        self._open_codes = settings.authentication_whitelist
        self._free_codes = settings.authorization_whitelist

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        """Never takes a request over."""
        user: User | None
        if request.code not in self._open_codes:
            user = self._authentication.user(request, ext, connection)
        elif self._authorization is not None:
            user = self._authentication.user_if_signed(request, ext)
        else:
            return None
        if self._authorization is not None and request.code not in self._free_codes:
            self._authorization.check(request, user, connection.peer)
        return None

    def connection_closed(self, connection: Connection) -> None:
        self._authentication.connection_closed(connection)
