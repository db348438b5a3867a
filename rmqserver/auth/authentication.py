"""Authentication: the access key names a user, and the signature proves that the sender has the user's password
(``DefaultAuthenticationHandler``, ``StatelessAuthenticationStrategy``, ``StatefulAuthenticationStrategy``, 5.5.0)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rmqproto.access.users import User, barred
from rmqproto.codes import ResponseCode
from rmqproto.wire.signing import ACCESS_KEY, SigningKey
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection

_NAMES_MAX = 16
"""How many users of one connection stay known. Real clients have one."""


class Authentication:
    """With the cached strategy, a user stays admitted or refused on a connection for ``cached_s`` without a check of
    signatures, as with Apache's. Here, a change of any user ends that at once."""

    def __init__(self, settings: AuthSettings, table: AuthTable):
        self._table = table
        self._cached_max = settings.cached_connections_max
        self._cached_s = settings.cached_s
        self._signers: dict[str, tuple[User, SigningKey]] = {}
        """Users that may sign, by name, from when they first asked."""
        self._known: dict[Connection, dict[str, tuple[float, User | str]]] = {}
        """For each connection and user name: an expiry time, and the user or the refusal."""
        table.on_change.append(self._forget)

    def user(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> User:
        """The user who sent the request. Raises Refused with code 16 if that is not proven."""
        name = ext.get(ACCESS_KEY, "")
        if self._cached_max is None:
            signer = self._signers.get(name)
            if signer is not None and signer[1].has_signed(ext, request.body, request.version):
                return signer[0]
            found = self._look(name, request, ext)
        else:
            found = self._cached(name, request, ext, connection)
        if isinstance(found, str):
            raise Refused(ResponseCode.NO_PERMISSION, found)
        return found

    def user_if_signed(self, request: Request[Any], ext: Mapping[str, str]) -> User | None:
        """The user who sent a request that need not be signed; None if that is not proven."""
        found = self._look(ext.get(ACCESS_KEY, ""), request, ext)
        return None if isinstance(found, str) else found

    def key(self, user: User) -> SigningKey | None:
        """The key to check each of the user's signatures with; None if some are not checked, or the user has not sent
        anything yet."""
        signer = self._signers.get(user.name)
        return signer[1] if signer is not None and self._cached_max is None else None

    def _look(self, name: str, request: Request[Any], ext: Mapping[str, str]) -> User | str:
        """The user, or the reason of the refusal."""
        if not name:
            return "username cannot be null."
        user = self._table.user(name)
        refusal = barred(name, user)
        if user is None or refusal:
            return refusal
        signer = self._signers[name] = user, SigningKey(user.password)
        return user if signer[1].has_signed(ext, request.body, request.version) else "check signature failed."

    def _cached(self, name: str, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> User | str:
        now_s = time.monotonic()
        names = self._known.get(connection, {})
        until_s, found = names.get(name, (0.0, ""))
        if now_s >= until_s:
            found = self._look(name, request, ext)
            if len(names) >= _NAMES_MAX:
                names.clear()
            names[name] = now_s + self._cached_s, found
            if connection not in self._known and len(self._known) >= (self._cached_max or 0):
                self._known.clear()
            self._known[connection] = names
        return found

    def connection_closed(self, connection: Connection) -> None:
        self._known.pop(connection, None)

    def _forget(self) -> None:
        self._signers.clear()
        self._known.clear()
