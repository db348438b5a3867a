"""The signed content of the ext fields in one client's headers: the decoder that knows the fields agrees with the
general decoder."""

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.codes import VERSION
from rmqproto.wire.command import Command, decode_ext_untrusted, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import HEAD_SIZE_BYTES
from rmqproto.wire.signing import ACCESS_KEY, SIGNATURE, SigningKey, sign
from rmqserver.auth import signed_fields
from rmqserver.auth.signed_fields import OTHER_FIELDS, SignedFields, has_signed_fields
from rmqserver.core import IS_NATIVE, cut_signed, simple
from tests.support.quick import in_one_test

USER = Credentials("alice", "secret")
names = st.text("abcXYZ_", min_size=1, max_size=4)
plain_text = st.text('ab:/ "\\\x01\x02\n{},', max_size=12)
fields = st.dictionaries(names, plain_text | st.text(max_size=8), max_size=8)

wants_c = pytest.mark.skipif(not IS_NATIVE, reason="it was installed without a C compiler")


def header_of(ext: dict[str, str]) -> bytes:
    return encode_frame(Command(code=310, ext=ext))[HEAD_SIZE_BYTES:]


@given(fields, st.binary(max_size=20))
def test_values_come_in_the_order_of_signing(ext: dict[str, str], body: bytes) -> None:
    sign(ext, body, USER)
    assert has_signed_fields(ext)
    user, content, signature = SignedFields(ext).read(header_of(ext))
    assert (user, signature.decode()) == (USER.access_key, ext[SIGNATURE])
    key = SigningKey(USER.secret_key)
    assert key.has_signed_content(content, signature, body)
    assert key.has_signed_content(content + body, signature)
    assert not key.has_signed_content(content, signature, body + b"x")
    assert not key.has_signed_content(content, signature[:-1], body)
    assert not SigningKey("guessed").has_signed_content(content, signature, body)


@given(fields, st.data())
def test_it_agrees_with_the_decoder_for_all_about_any_change(ext: dict[str, str], data: st.DataObject) -> None:
    sign(ext, b"", USER)
    known, key = SignedFields(ext), SigningKey(USER.secret_key)
    name = data.draw(st.sampled_from(sorted(ext)))
    changed = header_of(ext | {name: ext[name] + data.draw(st.text(max_size=2))})
    _, content, signature = known.read(changed)
    is_signed = key.has_signed(decode_ext_untrusted(0, changed), b"", VERSION)
    assert key.has_signed_content(content, signature, b"") is is_signed


# --- cut in C --------------------------------------------------------------------------------------------------------


def test_without_c_all_is_left_to_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_fields, "cut_signed", simple.cut_signed)
    ext = {"topic": "T"}
    sign(ext, b"", USER)
    assert SignedFields(ext).cutter(USER.access_key, {})(header_of(ext), b"") is None


@wants_c
@given(st.dictionaries(names, plain_text, max_size=8), st.binary(max_size=20), st.data())
def test_what_a_client_writes_is_cut(ext: dict[str, str], body: bytes, data: st.DataObject) -> None:
    sign(ext, body, USER)
    order = data.draw(st.permutations(sorted(ext)))
    ext = {name: ext[name] for name in order}
    known = SignedFields(ext)
    _, content, signature = known.read(header_of(ext))
    assert known.cutter(USER.access_key, {})(header_of(ext), body) == (content + body, signature, True)
    assert known.cutter("bob", {})(header_of(ext), body) is None


PIECES = (
    b"{", b"}", b'"', b",", b":", b"\\", b"\\u0041", b"\\u00e9", b"\\ud800", b"\\n", b"\\/", b"\\x", b" ", b"\x01",
    b"\x7f", b"\xc3\xa9", b"\xff", b"\x00", b"null", b"7", b"[", b"]", b'"extFields":{', b'"extFields":',
    b'"a":"x",', b',"a":"x"',
    b'"x":{"extFields":{"AccessKey":"alice","a":"y","Signature":"s"}},',
    b',"extFields":{"AccessKey":"alice","a":"y","Signature":"s"}',
)  # fmt: skip


@wants_c
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), st.sampled_from(PIECES)), max_size=3), st.data())
def test_what_is_cut_is_what_the_decoder_reads(damage: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    """This holds for any header that a decoder accepts. Bytes that are not JSON do no harm."""
    value = data.draw(st.sampled_from(["x", "a b", "\x01", '"', "\\", "é"]))
    front = data.draw(st.sampled_from(["", '"language":"GO",', '"remark":"{",', '"extFields":null,']))
    inner = ",".join(f"{json.dumps(name)}:{json.dumps(text)}" for name, text in (
        (ACCESS_KEY, "alice"), ("a", value), ("b", "2"), (SIGNATURE, "s="),
    ))  # fmt: skip
    header = f'{{"code":310,{front}"extFields":{{{inner}}},"flag":0,"opaque":1}}'.encode()
    for at, gone, more in damage:
        header = header[: at % len(header)] + more + header[at % len(header) + gone :]
    known = SignedFields([ACCESS_KEY, "a", "b", SIGNATURE])
    cut = known.cutter("alice", {"a": "x"})(header, b"body")
    with contextlib.suppress(*OTHER_FIELDS):
        decoded = msgspec.json.decode(header, type=dict[str, Any])
        if not isinstance(decoded.get("extFields"), dict) or cut is None:
            return
        user, content, signature = known.read(header)
        assert user == "alice"
        assert cut == (content + b"body", signature, decoded["extFields"]["a"] == "x")


@wants_c
def test_what_is_written_unusually_is_left_to_the_decoder() -> None:
    known = SignedFields([ACCESS_KEY, "a", SIGNATURE])
    cut = known.cutter("alice", {"a": "x"})
    usual = b'{"code":310,"extFields":{"AccessKey":"alice","a":"x","Signature":"s="},"flag":0}'
    assert cut(usual, b"") == (b"alicex", b"s=", True)
    assert cut(usual.replace(b'"x"', b'"y"'), b"") == (b"alicey", b"s=", False)
    assert cut(usual.replace(b'"x"', b'"\\u0078"'), b"") == (b"alicex", b"s=", False), "it was spelled otherwise"
    assert cut(usual.replace(b'"s="', b'"s\\u003d"'), b"") == (b"alicex", b"s=", True)
    assert cut(usual.replace(b':"x"', ' : "é"'.encode()), b"") == ("aliceé".encode(), b"s=", False)
    for text, other in (
        (b'"alice"', b'"alic\\u0065"'), (b'"alice"', b'"alicf"'), (b'"alice"', b'"alicex"'), (b'"a":', b'"\\u0061":'),
        (b'"a":"x",', b""), (b'"a":"x"', b'"a":"x","a":"x"'), (b'"x"', b"7"), (b'"x"', b'"\xe9"'),
        (b'"a":"x","Signature":"s="', b'"Signature":"s=","a":"x"'), (b',"flag":0', b',"more":{}'),
        (b'"code":310,', b'"code":310,"x":{},'), (b'"extFields":{', b'"extField\\u0073":{'),
    ):  # fmt: skip
        assert cut(usual.replace(text, other), b"") is None, other
    large = bytes(64 << 10)
    assert cut(usual, large) == (b"alicex" + large, b"s=", True)
    assert cut(usual, large + b"x") is None
    for user, judged in (("é", {}), ("alice", {"a": "\x01"}), ("alice", {"a": 'x"'}), ("alice", {"more": "x"})):
        assert known.cutter(user, judged)(usual, b"") is None
    for end in range(len(usual)):
        assert cut(usual[:end], b"") is None or end >= usual.index(b"}") + 1


@wants_c
def test_the_native_part_refuses_what_would_read_beside_its_memory() -> None:
    cut: Any = cut_signed
    right: list[Any] = [(b"AccessKey", b"Signature"), b"\0\1", (b"u", None), 0, b"{}", b""]
    assert cut(*right) is None
    for at, wrong in (
        (0, ()), (0, (b"x",)), (1, b"\0"), (1, b"\0\2"), (1, b"\0\xff"),
        (2, (None, None)), (2, (b"u",)), (3, 2), (3, -1), (3, 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="do not fit each other"):
            cut(*right[:at], wrong, *right[at + 1 :])
    with pytest.raises(ValueError, match="64 at most"):
        cut((b"x",) * 65, *right[1:])
    for at, of_another_type in (
        (0, []), (0, ("x", b"x")), (1, "x"), (2, []), (2, (b"u", "x")), (3, "x"), (4, "x"), (4, bytearray(2)),
        (5, None),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            cut(*right[:at], of_another_type, *right[at + 1 :])
    with pytest.raises(TypeError):
        cut(*right[:-1])
    with pytest.raises(OverflowError):
        cut(*right[:3], 1 << 70, *right[4:])


# --- other fields ----------------------------------------------------------------------------------------------------


@in_one_test(
    b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s"}}',  # a field is missing
    b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":"T","more":"x"}}',
    b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":7}}',
    b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":null}}',
    b'{"code":1,"extFields":null}',
    b'{"code":1}',
    b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":"\xff"}}',
    b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":"\\ud800"}}',
    b"[" * 100_000,
)
def test_other_headers_are_not_taken(header: bytes) -> None:
    with pytest.raises(OTHER_FIELDS):
        SignedFields([ACCESS_KEY, SIGNATURE, "topic"]).read(header)


@in_one_test("__ZONE_NAME", "SecurityToken", "_UNIQUE_KEY_QUERY", 'a"b', "", "é")
def test_of_names_that_some_do_not_sign_or_nobody_has_there_is_no_decoder(more: str) -> None:
    assert has_signed_fields([ACCESS_KEY, SIGNATURE, "topic"])
    assert not has_signed_fields([ACCESS_KEY, SIGNATURE, more])


@pytest.mark.parametrize(
    "names", [(), (ACCESS_KEY,), (SIGNATURE,), (ACCESS_KEY, SIGNATURE, *(f"f{at}" for at in range(63)))]
)
def test_of_some_names_there_is_no_decoder(names: tuple[str, ...]) -> None:
    assert not has_signed_fields(names)
