"""Decoders made for the ext fields of one client: they see what the decoder for all sees."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.codes import VERSION
from rmqproto.command import Command, decode_ext_untrusted, encode_frame
from rmqproto.frames import HEAD_SIZE_BYTES
from rmqproto.signed_fields import OTHER_FIELDS, SignedFields, has_signed_fields
from rmqproto.signing import ACCESS_KEY, SIGNATURE, Credentials, SigningKey, sign

USER = Credentials("alice", "secret")
names = st.text("abcXYZ_", min_size=1, max_size=4)
fields = st.dictionaries(names, st.text(max_size=8), max_size=8)


def header_of(ext: dict[str, str]) -> bytes:
    return encode_frame(Command(code=310, ext=ext))[HEAD_SIZE_BYTES:]


@given(fields, st.binary(max_size=20))
def test_values_come_in_the_order_of_signing(ext: dict[str, str], body: bytes) -> None:
    sign(ext, body, USER)
    assert has_signed_fields(ext)
    decoder = SignedFields(ext)
    values = msgspec.structs.astuple(decoder.decode(header_of(ext)).ext)
    assert (values[decoder.access_key_at], values[-1]) == (USER.access_key, ext[SIGNATURE])
    key = SigningKey(USER.secret_key)
    assert key.has_signed_values(values, body)
    assert not key.has_signed_values(values, body + b"x")
    assert not SigningKey("guessed").has_signed_values(values, body)


@given(fields, st.data())
def test_it_agrees_with_the_decoder_for_all_about_any_change(ext: dict[str, str], data: st.DataObject) -> None:
    sign(ext, b"", USER)
    decoder, key = SignedFields(ext), SigningKey(USER.secret_key)
    name = data.draw(st.sampled_from(sorted(ext)))
    changed = header_of(ext | {name: ext[name] + data.draw(st.text(max_size=2))})
    values = msgspec.structs.astuple(decoder.decode(changed).ext)
    assert key.has_signed_values(values, b"") is key.has_signed(decode_ext_untrusted(0, changed), b"", VERSION)


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s"}}',  # one is missing
        b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":"T","more":"x"}}',
        b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":7}}',
        b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":null}}',
        b'{"code":1,"extFields":null}',
        b'{"code":1}',
        b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":"\xff"}}',
        b'{"code":1,"extFields":{"AccessKey":"a","Signature":"s","topic":"\\ud800"}}',
        b"[" * 100_000,
    ],
)
def test_other_headers_are_not_taken(header: bytes) -> None:
    with pytest.raises(OTHER_FIELDS):
        SignedFields([ACCESS_KEY, SIGNATURE, "topic"]).decode(header)


@pytest.mark.parametrize("more", ["__ZONE_NAME", "SecurityToken", "_UNIQUE_KEY_QUERY", 'a"b', "", "é"])
def test_of_names_that_some_do_not_sign_or_nobody_has_there_is_no_decoder(more: str) -> None:
    assert has_signed_fields([ACCESS_KEY, SIGNATURE, "topic"])
    assert not has_signed_fields([ACCESS_KEY, SIGNATURE, more])


@pytest.mark.parametrize(
    "names", [(), (ACCESS_KEY,), (SIGNATURE,), (ACCESS_KEY, SIGNATURE, *(f"f{at}" for at in range(63)))]
)
def test_of_some_names_there_is_no_decoder(names: tuple[str, ...]) -> None:
    assert not has_signed_fields(names)
