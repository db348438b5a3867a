"""Format strings: every field, every way to write it, and the errors for wrong ones."""

import base64
import json
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.messages.format_string import FIELDS, FormatString
from rmqadmin.core.messages.lookup import found_message
from rmqproto.errors import UsageError
from rmqproto.message import properties as props
from tests.rmqclient.fake_broker import record
from tests.support.clock import in_zone
from tests.support.quick import in_one_test

PROPERTIES = {"TAGS": "paid", "KEYS": "K1 Ké", "UNIQ_KEY": "U1", "region": "eu"}
STORED = msgspec.structs.replace(
    record(3, b"\x00\x07\xffbody"), queue_id=2, flag=5, reconsume_times=1, store_timestamp_ms=1_700_000_000_123,
    born_timestamp_ms=1_700_000_000_000, properties_raw=props.render(PROPERTIES).encode(),
)  # fmt: skip
MESSAGE = found_message(STORED, "broker-a", "127.0.0.1:10911")


@pytest.fixture
def kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from in_zone(monkeypatch, "Asia/Kolkata")


def written(text: str) -> bytes:
    return FormatString(text).render(MESSAGE)


@in_one_test(
    ("%t/%b/%p/%o/%O", b"T/broker-a/2/3/1003"),
    ("%s", b"\x00\x07\xffbody"),
    ("%S %R", b"7 \x00\x00\x00\x07"),
    ("%k %K", "K1 Ké 6".encode()),
    ("%g %i %I", b"paid U1 " + STORED.message_id.encode()),
    ("%h", "TAGS=paid,KEYS=K1 Ké,UNIQ_KEY=U1,region=eu".encode()),
    ("%P{region}[%P{none}]", b"eu[]"),
    ("%T %B %r %f", b"1700000000123 1700000000000 1 5"),
    ("%H", b"127.0.0.1:10911"),
    ("100%% %%{x}", b"100% %{x}"),
    (r"\t\n\r\0\e\\\x7b", b"\t\n\r\0\x1b\\{"),
    ("é{}", "é{}".encode()),
    ("", b""),
    ("%s{hex}", b"0007ff626f6479"),
    ("%s{base64}", base64.b64encode(STORED.body)),
    ("%g{hex}%k{base64}", b"70616964" + base64.b64encode("K1 Ké".encode())),
    ("%s{json}", rb'"\u0000\u0007\\xffbody"'),
    ("%s{unpack[>H]}", b"7"),
    ("%s{unpack[>HB3s]}", b"7 255 bod"),
    ("%s{unpack[>qq]}", b""),
)
def test_fields_and_ways_to_write_them(text: str, expected: bytes) -> None:
    assert written(text) == expected


@pytest.mark.usefixtures("kolkata")
def test_times_are_local() -> None:
    assert written("%T{iso}") == b"2023-11-15 03:43:20.123+05:30"
    assert written("%B{%Y/%m/%d %H:%M} %T") == b"2023/11/15 03:43 1700000000123"


@pytest.mark.parametrize("born_ms", [-1, 1 << 62])
def test_a_time_that_no_calendar_has_is_a_number(born_ms: int) -> None:
    odd = found_message(msgspec.structs.replace(STORED, born_timestamp_ms=born_ms), "b", "a")
    assert FormatString("%B{iso} %B{%Y}").render(odd) == f"@{born_ms} @{born_ms}".encode()


def test_properties_are_an_object_in_json() -> None:
    assert json.loads(written("%h{json}")) == PROPERTIES


@in_one_test(
    ("ab%q", "at character 3: %q is no field"),
    ("%", "at character 1: nothing follows"),
    ("a\\", "at character 2: nothing follows"),
    (r"\q", r"at character 1: \q is no escape"),
    (r"\xg1", r"\x is no escape"),
    ("%P", "%P needs the property's name"),
    ("%P{}", "%P needs the property's name"),
    ("%s{HEX}", "{HEX} is no way to write it"),
    ("%s{unpack[>?!]}", "unpack[>?!]"),
    ("%T{hex}", "{hex} is no way to write a time"),
)
def test_what_is_no_format_is_told_with_the_place(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        FormatString(text)
    assert said in str(raised.value)


@given(st.text())
def test_any_text_is_a_format_or_a_usage_error(text: str) -> None:
    try:
        form = FormatString(text)
    except UsageError:
        return
    assert isinstance(form.render(MESSAGE), bytes)


@pytest.mark.parametrize("letter", FIELDS)
def test_every_field_is_bytes_in_every_way(letter: str) -> None:
    ways = ["", "{iso}", "{%H}"] if FIELDS[letter].is_time else ["", "{hex}", "{base64}", "{json}", "{unpack[B]}"]
    assert all(isinstance(written(f"%{letter}{way}"), bytes) for way in ways)
