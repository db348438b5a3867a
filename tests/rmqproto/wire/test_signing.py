"""The checking side of signatures. Signatures of real clients are in ``test_golden_frames.py``."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.codes import VERSION
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import ACCESS_KEY, SIGNATURE, SigningKey, sign

names = st.text(st.characters(codec="ascii"), min_size=1, max_size=5)
fields = st.dictionaries(names, st.text(max_size=8), max_size=8)
secrets = st.text(min_size=1, max_size=100)


def signed(ext: dict[str, str], body: bytes, secret: str) -> dict[str, str]:
    ext = dict(ext)
    sign(ext, body, Credentials("alice", secret))
    return ext


@given(fields, st.binary(max_size=50), secrets)
def test_what_is_signed_is_known_as_such(ext: dict[str, str], body: bytes, secret: str) -> None:
    key = SigningKey(secret)
    assert key.has_signed(signed(ext, body, secret), body, VERSION)
    assert key.has_signed(signed(ext, body, secret), memoryview(body), VERSION)


@given(fields, st.binary(max_size=50), secrets, st.data())
def test_any_change_is_noticed(ext: dict[str, str], body: bytes, secret: str, data: st.DataObject) -> None:
    sent = signed(ext, body, secret)
    assert not SigningKey(secret + "x").has_signed(sent, body, VERSION)
    assert not SigningKey(secret).has_signed(sent, body + b"x", VERSION)
    name = data.draw(st.sampled_from(sorted(sent)))
    assert not SigningKey(secret).has_signed(sent | {name: sent[name] + "x"}, body, VERSION)


@given(secrets, st.text(max_size=70), st.binary(max_size=70))
def test_it_is_hmac_sha1(secret: str, values: str, body: bytes) -> None:
    digest = hmac.new(secret.encode(), values.encode() + body, hashlib.sha1).digest()
    assert SigningKey(secret).signature(values, body) == base64.b64encode(digest)


@pytest.mark.parametrize("name", ["__ZONE_NAME", "__ZONE_MODE", "SecurityToken"])
def test_what_clients_add_behind_the_signature_may_be_there(name: str) -> None:
    key = SigningKey("secret")
    sent = signed({"topic": "T"}, b"", "secret")
    assert key.has_signed(sent | {name: "x"}, b"", VERSION)
    assert key.has_signed(signed({"topic": "T", name: "x"}, b"", "secret"), b"", VERSION)
    assert not key.has_signed(sent | {name: "x", "topic": "U"}, b"", VERSION)


def test_clients_up_to_493_add_the_mark_of_a_query_behind_it() -> None:
    key = SigningKey("secret")
    sent = signed({"topic": "T"}, b"", "secret") | {"_UNIQUE_KEY_QUERY": "true"}
    assert key.has_signed(sent, b"", 399)
    assert not key.has_signed(sent, b"", 400)
    assert key.has_signed(signed({"topic": "T", "_UNIQUE_KEY_QUERY": "true"}, b"", "secret"), b"", 400)


@pytest.mark.parametrize("wrong", ["", "x", "\ud800", "é"])
def test_no_signature_is_none(wrong: str) -> None:
    assert not SigningKey("secret").has_signed({"topic": "T", ACCESS_KEY: "a", SIGNATURE: wrong}, b"", VERSION)
    assert not SigningKey("secret").has_signed({}, b"", VERSION)
