"""Every request code sent to a server, signed or not. Shared by the tests of users and policies."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.base import Body
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import sign
from tests.support.wire import Wire

ROOT = Credentials("root", "root-secret")
"""The super user, made by ``initAuthenticationUser``."""

NOBODY, WRONG, RIGHT, DISABLED = (Credentials(name, f"{name}-secret") for name in ("nobody", "wrong", "right", "off"))
"""Users with no policy, with policies for other things, and for everything; the last one is disabled."""

WALKERS: dict[str, Credentials | None] = {
    "unsigned": None,
    "badly signed": Credentials("right", "guessed"),
    "unknown": Credentials("ghost", "ghost-secret"),
    "disabled": DISABLED,
    "without a policy": NOBODY,
    "with the wrong policy": WRONG,
}
"""Clients that ask for what they may not have."""

POLICIES = {"wrong": ("Topic:other", "Group:other", "Cluster:other"), "right": ("*",), "off": ("*",)}


RECORDED = Path(__file__).parent.parent / "golden/auth/walk.json"


class Sent(NamedTuple):
    ext: dict[str, str]
    body: bytes


def request_of(code: int) -> Sent:
    """A request that names topic T and group g, and otherwise holds only what its header requires."""
    names = {
        "topic": "T", "group": "g", "consumerGroup": "g", "groupName": "g", "producerGroup": "p", "b": "T",
        "topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102",
    }  # fmt: skip
    ext: dict[str, str] = {}
    for field in msgspec.structs.fields(REQUEST_HEADERS[code]) if code in REQUEST_HEADERS else ():
        if field.required or field.encode_name in names:
            ext[field.encode_name] = names.get(field.encode_name, "" if "str" in str(field.type) else "0")
    return Sent(ext, BODIES.get(code, b""))


_DATA = {"groupName": "g", "subscriptionDataSet": [{"topic": "T", "subString": "*"}]}
_ACK = {"c": "g", "t": "T", "b": "", "it": 1, "pt": 1, "q": 0, "r": "0", "rq": 0, "so": 0}
_LITE = {"action": "PARTIAL_ADD", "clientId": "c", "group": "g", "topic": "T"}
_LOCKS = b'{"clientId":"c","consumerGroup":"g","mqSet":[]}'
BODIES = {
    34: json.dumps({"clientID": "c", "consumerDataSet": [_DATA]}).encode(),
    41: _LOCKS,
    42: _LOCKS,
    200071: json.dumps({"subscriptionSet": [_LITE]}).encode(),
    200151: json.dumps({"acks": [_ACK]}).encode(),
}
"""Bodies of requests that name their topics and groups in the body."""


def prepare(wire: Wire) -> None:
    """Makes the users and their policies."""

    def tell(code: int, ext: dict[str, str], body: Body) -> None:
        answer = ask_as(wire, code, ext, fastjson.dumps(body), ROOT)
        assert answer.code == 0, answer.remark

    for user in (NOBODY, WRONG, RIGHT, DISABLED):
        account = UserAccount(username=user.access_key, password=user.secret_key)
        tell(RequestCode.AUTH_CREATE_USER, {"username": user.access_key}, account)
    tell(RequestCode.AUTH_UPDATE_USER, {"username": "off"}, UserAccount(username="off", user_status="disable"))
    for name, resources in POLICIES.items():
        entries = [AclEntry(resource=resource, actions=["All"], decision="Allow") for resource in resources]
        acl = AclInfo(subject=f"User:{name}", policies=[AclPolicy(entries=entries)])
        tell(RequestCode.AUTH_CREATE_ACL, {"subject": acl.subject}, acl)


def ask_as(
    wire: Wire, code: int, ext: Mapping[str, str], body: bytes = b"", user: Credentials | None = None, **more: Any
) -> Command:
    """Signed if there is a user."""
    fields = dict(ext)
    if user is not None:
        sign(fields, body, user)
    return wire.ask(code, fields, body, **more)


def refusals(wire: Wire, codes: Iterable[int], user: Credentials | None) -> dict[int, str]:
    """The remarks of the requests that were answered with 16, by code."""
    found = {}
    for code in codes:
        sent = request_of(code)
        answer = ask_as(wire, code, sent.ext, sent.body, user)
        if answer.code == ResponseCode.NO_PERMISSION:
            found[int(code)] = answer.remark or ""
    return found


def walk(addr: str, codes: Iterable[int]) -> dict[str, dict[int, str]]:
    """What each walker was refused, with the remark, by code."""
    codes = sorted(codes)
    found = {}
    for name, user in WALKERS.items():
        with Wire(addr) as wire:
            found[name] = refusals(wire, codes, user)
    return found


def recorded() -> dict[str, dict[int, str]]:
    """The same from a real Apache RocketMQ 5.5.0; ``tests/interop/guarded/test_auth.py`` checks it against one."""
    walks = json.loads(RECORDED.read_text())
    return {name: {int(code): remark for code, remark in refused.items()} for name, refused in walks.items()}


ASKED_OF_HERE = {361, 200070, 200071, 200151}
"""Codes that fetch or acknowledge messages and that Apache does not guard. Here they need the same rights as similar
requests."""
