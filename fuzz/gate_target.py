"""The authorization gate with arbitrary frames: an unsigned request reaches no handler, and a user's request only
reaches handlers that the user may call. This module decides independently whether a request is permitted, from what the
handler was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqproto.access.users import User
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.names import RETRY_PREFIX
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import FrameCutter
from rmqproto.wire.signing import sign
from rmqserver.auth.auth_gate import AuthGate
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.gate import GatePlace
from rmqserver.remoting.service import Service
from rmqserver.request_needs import nothing
from rmqserver.request_rules import SERVED

USER, MINE = "alice", "mine"
CLUSTER = "C"

_JUDGED = {
    10: ("topic",), 310: ("topic",), 320: ("topic",), 370: ("topic",), 11: ("topic", "consumer_group"),
    361: ("topic", "consumer_group"), 200050: ("topic", "consumer_group"), 200051: ("topic", "consumer_group"),
    200070: ("topic", "consumer_group"), 12: ("topic",), 14: ("topic", "consumer_group"), 36: ("group",),
    15: ("topic", "consumer_group"), 17: ("topic",), 215: ("topic",), 207: ("group_name",),
    222: ("topic", "group"), 30: ("topic",), 314: ("dest_group", "topic"),
}  # fmt: skip
"""Fields that must all name the user's own topics or groups."""

_SETTINGS = AuthSettings(is_authenticating=True, is_authorizing=True)


class _Believing:
    """A broker's gate without signatures, which no fuzzer can guess: every request counts as the user's."""

    wants_ext = True

    def __init__(self, gate: AuthGate, user: User):
        self._gate = gate
        gate._authentication.user = lambda request, ext, connection: user  # type: ignore[method-assign]

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Any) -> None:
        self._gate.admit(request, ext, connection)


class _Seen(Service):
    """A service that serves every code and keeps the requests that reached its handlers."""

    def __init__(self) -> None:
        self.requests: list[Request[Any]] = []
        super().__init__("fuzzed", dict.fromkeys(SERVED, self._serve))

    def _serve(self, request: Request[Any], connection: Any) -> bytes:
        self.requests.append(request)
        return success(request)


class _Peer:
    """The part of a connection that a service needs."""

    address = real_address = "127.0.0.1:1"

    def send(self, frame: bytes) -> None:
        pass

    def answered(self, answer: Command) -> None:
        pass


def _table() -> AuthTable:
    table = AuthTable(None)
    table.create_user(UserAccount(username=USER, password="secret"))
    entries = [AclEntry(resource=f"{kind}:{MINE}", actions=["All"], decision="Allow") for kind in ("Topic", "Group")]
    table.put_acl(f"User:{USER}", AclInfo(policies=[AclPolicy(entries=entries)]))
    return table


_closed, _open, _learned = _Seen(), _Seen(), _Seen()
_closed.use_gate(GatePlace.USERS, AuthGate(_SETTINGS, _table(), CLUSTER, SERVED))
_users = _table()
_alice = _users.user(USER)
assert _alice is not None
_open.use_gate(GatePlace.USERS, _Believing(AuthGate(_SETTINGS, _users, CLUSTER, SERVED), _alice))


_signer = _Peer()
_learned.use_gate(GatePlace.USERS, AuthGate(_SETTINGS, _table(), CLUSTER, SERVED))
"""A gate that has seen signed requests of this peer, and has learned what the next ones look like."""


def _feed(service: _Seen, data: bytes, peer: Any = None) -> list[Request[Any]]:
    service.requests.clear()
    peer = peer or _Peer()
    FrameCutter(service.handle_untrusted, peer).feed_untrusted(data)
    return service.requests


def _signed(code: int, ext: dict[str, str]) -> bytes:
    sign(ext, b"", Credentials(USER, "secret"))
    return encode_frame(Command(code=code, ext=ext))


_POP_MARKS = {"consumerGroup": MINE, "topic": MINE, "queueId": "0", "extraInfo": "x", "offset": "0"}
_LEARNED = {
    310: {name: "0" for name in "defghj"} | {"a": "p", "b": MINE, "c": "TBW102", "i": "", "k": "false", "m": "false"},
    30: {"topic": MINE, "queueId": "0"},
    200051: _POP_MARKS,
}
for _code, _header in _LEARNED.items():
    assert len(_feed(_learned, _signed(_code, {**_header}), _signer)) == 1, _code


def gate(data: bytes) -> None:
    assert not _feed(_closed, data), "nobody has signed it"
    assert not _feed(_learned, data, _signer), "nobody has signed it"
    for request in _feed(_open, data):
        if SERVED[request.code].pairs is nothing:
            continue
        for field in _JUDGED.get(request.code, ()):
            name = getattr(request.header, field)
            is_retry = field == "topic" and (name or "").startswith(RETRY_PREFIX)
            assert name is None or is_retry or name.removeprefix(RETRY_PREFIX) == MINE, (request.code, field, name)
