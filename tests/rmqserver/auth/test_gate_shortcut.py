"""The gate's shortcut admits exactly the requests that the full check would admit."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import FrameCutter
from rmqproto.wire.signing import ACCESS_KEY, SIGNATURE, sign
from rmqserver.auth import signed_fields
from rmqserver.auth.auth_gate import AuthGate
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.core import cut_signed, simple
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.gate import GatePlace
from rmqserver.remoting.service import Service
from rmqserver.request_rules import SERVED
from tests.support.stub_connection import StubConnection

ALICE, BOB = Credentials("alice", "alice-secret"), Credentials("bob", "bob-secret")
SEND, PULL = 310, 11
BOTH_ON = AuthSettings(is_authenticating=True, is_authorizing=True)


class Guarded(Service):
    """Alice may use every name that begins with ``mine``; bob may use everything. ``full`` counts the requests that
    took the full check, ``served`` those that reached a handler."""

    def __init__(self, settings: AuthSettings = BOTH_ON):
        self.table = AuthTable(None)
        for user in (ALICE, BOB):
            self.table.create_user(UserAccount(username=user.access_key, password=user.secret_key))
        self.allow(ALICE, "Topic:mine*", "Group:mine*")
        self.allow(BOB, "*")
        self.full = self.served = 0
        super().__init__("guarded", dict.fromkeys(SERVED, self._serve))
        self.gate = AuthGate(settings, self.table, "C", SERVED)
        admit = self.gate.admit

        def counted(*args: Any) -> None:
            self.full += 1
            admit(*args)

        self.gate.admit = counted  # type: ignore[method-assign, assignment]
        self.use_gate(GatePlace.USERS, self.gate, self.gate.admits_at_sight)

    def allow(self, user: Credentials, *resources: str, decision: str = "Allow") -> None:
        entries = [
            AclEntry(resource=resource, actions=["Pub", "Sub", "Get"], decision=decision) for resource in resources
        ]
        self.table.put_acl(f"User:{user.access_key}", AclInfo(policies=[AclPolicy(entries=entries)]))

    def _serve(self, request: Request[Any], connection: Any) -> bytes:
        self.served += 1
        return success(request)

    def ask(self, peer: StubConnection, frame: bytes) -> tuple[bool, bool]:
        """Returns whether the request was served, and whether it took the full check."""
        full, served = self.full, self.served
        FrameCutter(self.handle_untrusted, peer).feed_untrusted(frame)
        return self.served > served, self.full > full


def ext_of(code: int, topic: str = "mine", **fields: str) -> dict[str, str]:
    if code == SEND:
        usual = {name: "0" for name in "defghj"} | {"a": "mine", "b": topic, "c": "TBW102", "i": "K\x01V\x02"}
    else:
        numbers = ("queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subVersion")
        usual = dict.fromkeys(numbers, "0") | {"consumerGroup": "mine", "topic": topic, "suspendTimeoutMillis": "1"}
    return usual | fields


def signed(
    code: int = SEND, user: Credentials = ALICE, *, body: bytes = b"body", codec: HeaderCodec = HeaderCodec.JSON,
    topic: str = "mine", **fields: str,
) -> bytes:  # fmt: skip
    ext = ext_of(code, topic, **fields)
    sign(ext, body, user)
    return encode_frame(Command(code=code, ext=ext, body=body, codec=codec))


SERVED_AT_SIGHT, SERVED_IN_FULL, REFUSED_IN_FULL = (True, False), (True, True), (False, True)


@pytest.mark.parametrize("code", [SEND, PULL])
@pytest.mark.parametrize(
    "settings",
    [BOTH_ON, AuthSettings(is_authenticating=True),
     AuthSettings(is_authenticating=True, is_authorizing=True, authorization_whitelist=frozenset({SEND, PULL}))],
    ids=["both", "authentication", "free codes"],
)  # fmt: skip
def test_the_second_request_of_a_kind_takes_the_short_way(code: int, settings: AuthSettings) -> None:
    service, peer = Guarded(settings), StubConnection()
    assert service.ask(peer, signed(code)) == SERVED_IN_FULL
    assert service.ask(peer, signed(code)) == SERVED_AT_SIGHT
    assert service.ask(peer, signed(code, body=b"another")) == SERVED_AT_SIGHT
    assert service.ask(StubConnection(), signed(code)) == SERVED_IN_FULL, "each connection by itself"


def test_a_wrong_signature_is_refused_there_too() -> None:
    service, peer = Guarded(), StubConnection()
    service.ask(peer, signed())
    ext = ext_of(SEND)
    sign(ext, b"body", ALICE)
    for fields, body in (
        (ext, b"bodY"),
        (ext | {"i": "K\x01W\x02"}, b"body"),
        (ext | {SIGNATURE: ""}, b"body"),
        (ext | {SIGNATURE: ext[SIGNATURE].swapcase()}, b"body"),
        (ext | {ACCESS_KEY: "bob"}, b"body"),
        ({name: value for name, value in ext.items() if name != SIGNATURE}, b"body"),
        (ext | {"more": "x"}, b"body"),
    ):
        assert service.ask(peer, encode_frame(Command(code=SEND, ext=fields, body=body))) == REFUSED_IN_FULL
    claims = ext_of(SEND) | {ACCESS_KEY: "bob"}
    claims[SIGNATURE] = sign_as(claims, b"body", ALICE)
    assert service.ask(peer, encode_frame(Command(code=SEND, ext=claims, body=b"body"))) == REFUSED_IN_FULL


def sign_as(ext: dict[str, str], body: bytes, user: Credentials) -> str:
    """Signs with the user's secret, whatever name the request has."""
    copy = dict(ext)
    sign(copy, body, Credentials(ext[ACCESS_KEY], user.secret_key))
    return copy[SIGNATURE]


def test_what_was_not_judged_takes_the_full_way() -> None:
    service, peer = Guarded(), StubConnection()
    service.ask(peer, signed())
    assert service.ask(peer, signed(topic="other")) == REFUSED_IN_FULL
    assert service.ask(peer, signed(topic="mine2")) == SERVED_IN_FULL
    for topic in ("mine", "mine2"):
        assert service.ask(peer, signed(topic=topic)) == SERVED_AT_SIGHT
    assert service.ask(peer, signed(topic="other")) == REFUSED_IN_FULL
    assert service.ask(peer, signed(topic="other", user=BOB)) == SERVED_IN_FULL
    assert service.ask(peer, signed(topic="other")) == REFUSED_IN_FULL, "of alice, whose connection bob shares"
    assert service.ask(peer, signed(topic="other", user=BOB)) == SERVED_AT_SIGHT


def changes() -> dict[str, Callable[[Guarded], None]]:
    def update(**fields: str) -> Callable[[Guarded], None]:
        return lambda service: service.table.update_user(UserAccount(username="alice", **fields))

    return {
        "password": update(password="changed"),
        "disabled": update(user_status="disable"),
        "deleted": lambda service: service.table.delete_user("alice"),
        "denied": lambda service: service.allow(ALICE, "Topic:mine", decision="Deny"),
        "nothing allowed": lambda service: service.table.delete_acl("User:alice", None, None),
    }


@pytest.mark.parametrize("change", changes().values(), ids=changes().keys())
def test_a_change_counts_from_the_next_request_on(change: Callable[[Guarded], None]) -> None:
    service, peer = Guarded(), StubConnection()
    service.ask(peer, signed())
    assert service.ask(peer, signed()) == SERVED_AT_SIGHT
    change(service)
    assert service.ask(peer, signed()) == REFUSED_IN_FULL


def test_a_super_user_who_is_none_any_more_is_judged() -> None:
    service, peer = Guarded(), StubConnection()
    service.table.update_user(UserAccount(username="alice", user_type="Super"))
    service.ask(peer, signed(topic="other"))
    assert service.ask(peer, signed(topic="any")) == SERVED_AT_SIGHT
    service.table.update_user(UserAccount(username="alice", user_type="Normal"))
    assert service.ask(peer, signed(topic="other")) == REFUSED_IN_FULL


def test_what_does_not_come_as_json_or_is_not_hot_takes_the_full_way() -> None:
    service, peer = Guarded(), StubConnection()
    for _ in range(3):
        assert service.ask(peer, signed(codec=HeaderCodec.ROCKETMQ)) == SERVED_IN_FULL
        assert service.ask(peer, signed(30, BOB)) == SERVED_IN_FULL
        assert service.ask(peer, signed(SecurityToken="x", user=BOB)) == SERVED_IN_FULL


def test_with_a_gate_behind_it_all_take_the_full_way() -> None:
    class Door:
        wants_ext = False
        seen = 0

        def admit(self, request: Request[Any], ext: Any, connection: Any) -> None:
            self.seen += 1

    service, peer, door = Guarded(), StubConnection(), Door()
    service.ask(peer, signed())
    service.use_gate(GatePlace.FAULTS, door)
    assert service.ask(peer, signed()) == SERVED_IN_FULL
    service.use_gate(GatePlace.FAULTS, None)
    assert service.ask(peer, signed()) == SERVED_AT_SIGHT
    assert door.seen == 1


def test_the_stateful_strategy_does_not_take_it() -> None:
    settings = AuthSettings(is_authenticating=True, is_authorizing=True, cached_connections_max=10)
    service, peer = Guarded(settings), StubConnection()
    assert [service.ask(peer, signed()) for _ in range(2)] == [SERVED_IN_FULL] * 2


def test_a_client_whose_requests_are_not_alike_takes_the_full_way_in_the_end() -> None:
    service, peer = Guarded(), StubConnection()
    for _ in range(60):
        assert service.ask(peer, signed()) == SERVED_IN_FULL
        assert service.ask(peer, signed(l="1")) == SERVED_IN_FULL
    assert service.gate._shortcut._known.get(peer) == {}  # type: ignore[call-overload]
    assert service.ask(peer, signed(PULL)) == SERVED_IN_FULL
    assert service.ask(peer, signed(PULL)) == SERVED_AT_SIGHT, "of another kind"


def test_what_is_kept_is_bounded_and_goes_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqserver.auth.gate_shortcut._SHAPES_MAX", 3)
    monkeypatch.setattr("rmqserver.auth.authorization._DECISIONS_MAX", 5)
    service, peer = Guarded(), StubConnection()
    for number in range(20):
        service.ask(peer, signed(**{f"more{number}": "x"}))
        service.ask(peer, signed(topic=f"mine{number}"))
    shortcut, authorization = service.gate._shortcut, service.gate._authorization
    assert authorization is not None
    assert len(shortcut._shapes) == 3
    assert sum(map(len, authorization._allowed.values())) <= 5
    assert service.ask(peer, signed(topic="mine0")) == SERVED_IN_FULL
    assert service.ask(peer, signed(topic="mine0")) == SERVED_AT_SIGHT
    service.gate.connection_closed(peer)  # type: ignore[arg-type]
    assert not shortcut._known
    assert not shortcut._misses


def test_without_c_the_short_way_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_fields, "cut_signed", simple.cut_signed)
    test_the_second_request_of_a_kind_takes_the_short_way(SEND, BOTH_ON)
    test_a_wrong_signature_is_refused_there_too()
    test_what_was_not_judged_takes_the_full_way()


@pytest.mark.parametrize(
    "fields",
    [{"i": "é"}, {"i": 'K\x01"\\'}, {"body": "x" * 70_000}, {"a": "mineé"}],
    ids=["not ASCII", "escapes", "large", "a judged name that is not ASCII"],
)
def test_unusual_text_takes_the_short_way_as_well(fields: dict[str, str]) -> None:
    service, peer, body = Guarded(), StubConnection(), fields.pop("body", "body").encode()
    assert service.ask(peer, signed(body=body, **fields)) == SERVED_IN_FULL
    assert service.ask(peer, signed(body=body, **fields)) == SERVED_AT_SIGHT
    assert service.ask(peer, signed(body=body, topic="other", **fields)) == REFUSED_IN_FULL
    wrong = signed(body=body, **fields)[: -len(body)] + body[:-1] + b"?"
    assert service.ask(peer, wrong) == REFUSED_IN_FULL


def test_empty_names_are_judged_each_time() -> None:
    """Some decoders take an empty field for an absent one."""
    service, peer = Guarded(), StubConnection()
    for _ in range(2):
        assert service.ask(peer, signed(user=BOB, a="")) == SERVED_IN_FULL


SHARED, WITHOUT_C = Guarded(), Guarded()
"""Their users never change."""

Members = list[tuple[str, str]]
"""The members of a JSON object: names, and values as they are written."""


def frame_of(code: int, ext: Members, body: bytes, before: str = "", behind: str = "") -> bytes:
    header = f'{{"code":{code},{before}"extFields":{written(ext)},"flag":0,"opaque":7,"version":513{behind}}}'.encode()
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def written(members: Members) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"


def all_ways_say_the_same(code: int, frame: bytes) -> None:
    """The full check is that of a connection that has sent nothing before."""
    served = set()
    for service, cut in ((SHARED, cut_signed), (WITHOUT_C, simple.cut_signed)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(signed_fields, "cut_signed", cut)
            peer = StubConnection()
            for known in (SEND, PULL):
                service.ask(peer, signed(known))
            served |= {service.ask(peer, frame)[0], service.ask(StubConnection(), frame)[0]}
            assert service.ask(peer, signed(code))[0]
    assert len(served) == 1


topics = st.sampled_from(["mine", "mine2", "other", "mine\x01"])
users = st.sampled_from([ALICE, BOB])
codes = st.sampled_from([SEND, PULL])
mutations = st.sampled_from(
    ["value", "spelling", "name", "drop", "add", "number", "null", "twice", "body", "order", "nothing"]
)


@given(codes, topics, users, mutations, st.data())
def test_all_ways_say_the_same_of_any_request(
    code: int, topic: str, user: Credentials, mutation: str, data: st.DataObject
) -> None:
    """Requests are signed and then changed."""
    ext: dict[str, str] = ext_of(code, topic)
    body = b"body"
    sign(ext, body, user)
    name = data.draw(st.sampled_from(sorted(ext)))
    members = [(key, json.dumps(value)) for key, value in ext.items()]
    at = [key for key, _ in members].index(name)
    value = members[at][1]
    match mutation:
        case "value":
            other = data.draw(st.sampled_from(["", "1", "mine", "alice", "bob", "\\u0041", "{", "}", '\\"', "\\u00e9"]))
            members[at] = (name, f'"{other}"')
        case "spelling":
            members[at] = (name, '"' + "".join(f"\\u{ord(each):04X}" for each in ext[name]) + '"')
        case "name":
            members[at] = (name + "x", value)
        case "drop":
            del members[at]
        case "add":
            members.append(("more", '"x"'))
        case "number":
            members[at] = (name, value.strip('"') if value.strip('"').isdecimal() else value)
        case "null":
            members[at] = (name, "null")
        case "twice":
            members.append((name, data.draw(st.sampled_from([value, '"mine"', '"other"']))))
        case "order":
            members.reverse()
        case "body":
            body += b"x"
    all_ways_say_the_same(code, frame_of(code, members, body))


@given(codes, topics, users, st.booleans(), st.data())
def test_of_two_objects_of_ext_fields_all_ways_take_the_same(
    code: int, topic: str, user: Credentials, is_first: bool, data: st.DataObject
) -> None:
    """One object is signed, the other is not."""
    ext: dict[str, str] = ext_of(code, topic)
    sign(ext, b"body", user)
    changed = data.draw(st.sampled_from(sorted(ext)))
    one = [(name, json.dumps(value)) for name, value in ext.items()]
    other = [(name, '"mine"' if name == changed else value) for name, value in one]
    if is_first:
        one, other = other, one
    more = data.draw(
        st.sampled_from(
            ['"x":{"extFields":%s}', '"extFields":%s', '"extFields" :%s', '"extF\\u0069elds":%s', '"x":[%s]']
        )
    )
    place = data.draw(st.sampled_from(["before", "behind"]))
    text = more % written(other)
    places = {"before": f"{text},", "behind": ""} if place == "before" else {"before": "", "behind": f",{text}"}
    all_ways_say_the_same(code, frame_of(code, one, b"body", **places))
