import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import ProtocolError
from rmqserver.namesrv import register_body
from rmqserver.namesrv.register_body import decode_untrusted
from tests.support.servers import topic_config

VERSION = '{"counter":3,"stateVersion":1,"timestamp":1700000000000}'
MAPPING = {"bname": "a", "currIdMap": {"0": 0}, "topic": "S", "totalQueues": 2}


# The body that a 5.5.0 broker with compressedRegister=true sent.
OF_APACHE = base64.b64decode(
    "eNqNUd9PwjAQbvwHfDc+LNNoTFApDoa8sa38CNuKa50SYy6T1EBgoN2IMcT/3RbDA06QXntN7r777vIdQqi+NIfzxSwX0myUS2aWJ7mIhczG89"
    "kqkI9ToYLpm9nA9m21YlsY16yb8hdC6FC9UhTcARsw4FEzZNBp+i3gtN91DaysZrBu2PYJ8GbbWOqac0fMhqM0kROueA1crlg/rgg94s6DShl1"
    "ZXYha60bR9TtMc/Zd4CqTN8h+8wgInE3JuDTNnjiNVlMc3e6yJQQq4bFwhNGNDVhfCf/BXM7xLvXIY2CR3UMXNe3CL7a7Kxm6vuD3fqtx/8YCT"
    "EFvR65BXq9uRra/18c+29R9yk9fpHziZCXySpf3NcZbbUY4RDQmHhAYhLyLUynv9aBa/oWGe21FGwQuuBEtEciCEjgqG9jGFwoPXh6Vh59Axm3"
    "06w="
)


def compressed(*parts: int | str) -> bytes:
    """Compresses numbers as four bytes, and texts with their length in front."""
    out = b""
    for part in parts:
        out += part.to_bytes(4, "big", signed=True) if isinstance(part, int) else compressed_text(part)
    return zlib.compress(out)


def compressed_text(text: str) -> bytes:
    return len(text.encode()).to_bytes(4, "big") + text.encode()


@pytest.mark.parametrize("says_compressed", [False, True])
def test_what_apache_compressed_is_read_whatever_its_header_says(says_compressed: bool) -> None:
    body = decode_untrusted(OF_APACHE, says_compressed, 513)
    topics = body.topic_config_serialize_wrapper.topic_config_table
    assert len(topics) == 15
    assert topics["TBW102"] == topic_config("TBW102", 8, perm=7)


def test_compressed_form_of_5_0_and_later() -> None:
    topics = ('T 4 8 6 SINGLE_TAG {"message.type":"NORMAL"}', "U 1 1 4 MULTI_TAG {}")
    body = decode_untrusted(compressed(VERSION, 2, *topics, "[]", 1, json.dumps(MAPPING)), True, 413)
    wrapper = body.topic_config_serialize_wrapper
    assert wrapper.data_version.counter == 3
    assert wrapper.topic_config_table == {
        "T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8, attributes={"message.type": "NORMAL"}),
        "U": topic_config("U", perm=4, topic_filter_type="MULTI_TAG"),
    }
    assert wrapper.topic_queue_mapping_info_map == {"S": MAPPING}


def test_compressed_form_of_4_x_ends_after_the_filter_servers() -> None:
    body = decode_untrusted(compressed(VERSION, 1, "T 4 8 6 SINGLE_TAG", '["f:1"]'), True, 407)
    assert list(body.topic_config_serialize_wrapper.topic_config_table) == ["T"]
    assert body.filter_server_list == ["f:1"]


def test_no_body_is_no_topics() -> None:
    assert decode_untrusted(b"", False, 513).topic_config_serialize_wrapper.topic_config_table == {}


@pytest.mark.parametrize(
    "body",
    [
        b"no zlib",
        compressed(VERSION, 1, "T 4 8 6 SINGLE_TAG", "[]", 0)[:-5],
        compressed(VERSION, 1 << 30),
        compressed(VERSION, -1),
        compressed(VERSION, 1, "T 4"),
        compressed(VERSION, 1, "T four 8 6 SINGLE_TAG", "[]", 0),
        compressed(VERSION, 0, "{}", 0),
        compressed("[]", 0, "[]", 0),
        compressed(1 << 30),
        compressed(-1),
        zlib.compress(b"\0\0"),
        zlib.compress(b"\0\0\0\1\xff"),
    ],
)
def test_damage_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_untrusted(body, True, 513)


@pytest.mark.parametrize("mapping", [b"[]", b"null", b'"bname"'])
def test_a_static_topic_that_is_no_object_is_a_protocol_error(mapping: bytes) -> None:
    body = b'{"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{"T":%b}}}' % mapping
    with pytest.raises(ProtocolError):
        decode_untrusted(body, False, 513)


def test_a_small_body_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register_body, "INFLATED_SIZE_MAX_BYTES", 1000)
    with pytest.raises(ProtocolError, match="longer than 1000"):
        decode_untrusted(zlib.compress(bytes(2000)), True, 513)


@given(st.binary(), st.booleans(), st.sampled_from([407, 513]))
def test_any_bytes_are_a_body_or_a_protocol_error(data: bytes, is_compressed: bool, version: int) -> None:
    for body in (data, zlib.compress(data)):
        try:
            decode_untrusted(body, is_compressed, version)
        except ProtocolError:
            continue
