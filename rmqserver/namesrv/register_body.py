"""The body of REGISTER_BROKER: JSON, or the compressed form that brokers with ``compressedRegister`` send
(``RegisterBrokerBody.decode``, 5.5.0)."""

from __future__ import annotations

import zlib
from typing import Any

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import RegisterBrokerBody, TopicConfig, TopicConfigs
from rmqproto.errors import ProtocolError
from rmqproto.wire import fastjson

FIRST_VERSION_WITH_MAPPINGS = 413
"""Peers from this version on (5.0.0) end the compressed form with their static topics."""

INFLATED_SIZE_MAX_BYTES = 64 << 20
"""Maximum size of a compressed body after inflation: four frames, some 500,000 topics."""

_ZLIB_MARK = b"\x78"

TOPIC_SIZE_MIN_BYTES = 4 + len("T 1 1 6 SINGLE_TAG")


def decode_untrusted(body: bytes, compressed: bool, version: int) -> RegisterBrokerBody:
    """Decodes a body in either form. An empty one has no topics. ``version`` is the sender's. Raises ProtocolError for
    anything else.

    5.5.0 may also send ``compressed=false`` with a compressed body (which its own nameserver then refuses). So this
    also checks the body's first byte: no JSON begins with it.
    """
    if not body:
        return RegisterBrokerBody()
    if not compressed and not body.startswith(_ZLIB_MARK):
        return fastjson.loads_untrusted(body, RegisterBrokerBody)
    reader = _Reader(_inflate_untrusted(body))
    # Each text has its length (i32) in front:
    #   DataVersion JSON | i32 topic count, topics | filter servers JSON | i32 count, static topics JSON (from 5.0 on)
    data_version = fastjson.loads_untrusted(reader.text(), DataVersion)
    topics = [_topic_untrusted(reader.text()) for _ in range(reader.count(TOPIC_SIZE_MIN_BYTES))]
    filter_servers = fastjson.loads_untrusted(reader.text(), list[str])
    mappings: list[dict[str, Any]] = []
    if version >= FIRST_VERSION_WITH_MAPPINGS:
        mappings = [fastjson.loads_untrusted(reader.text(), dict[str, Any]) for _ in range(reader.count(4))]
    return RegisterBrokerBody(
        filter_server_list=filter_servers,
        topic_config_serialize_wrapper=TopicConfigs(
            data_version=data_version,
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map={str(mapping.get("topic")): mapping for mapping in mappings},
        ),
    )


def _inflate_untrusted(body: bytes) -> bytes:
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(body, INFLATED_SIZE_MAX_BYTES)
    except zlib.error as error:
        raise ProtocolError(f"register body: {error}") from None
    if not inflate.eof:
        raise ProtocolError(f"register body is cut off, or longer than {INFLATED_SIZE_MAX_BYTES} bytes inflated")
    return data


def _topic_untrusted(text: str) -> TopicConfig:
    """``name readQueues writeQueues perm filterType attributes``, separated by blanks. 4.x ends after filterType."""
    parts = text.split(" ", 5)
    if len(parts) < 5:
        raise ProtocolError(f"register body: {text[:100]!r} is not a topic")
    try:
        read_queue_nums, write_queue_nums, perm = map(int, parts[1:4])
    except ValueError:
        raise ProtocolError(f"register body: {text[:100]!r} is not a topic") from None
    return TopicConfig(
        topic_name=parts[0],
        read_queue_nums=read_queue_nums,
        write_queue_nums=write_queue_nums,
        perm=perm,
        topic_filter_type=parts[4],
        attributes=fastjson.loads_untrusted(parts[5], dict[str, str]) if len(parts) > 5 and parts[5] else {},
    )


class _Reader:
    """Numbers and texts of the inflated form, in order."""

    def __init__(self, data: bytes):
        self._data = data
        self._at = 0

    def _int_untrusted(self) -> int:
        if self._at + 4 > len(self._data):
            raise ProtocolError(f"register body ends at {len(self._data)}, in a number")
        self._at += 4
        return int.from_bytes(self._data[self._at - 4 : self._at], "big", signed=True)

    def count(self, size_min_bytes: int) -> int:
        """How many entries follow, each of at least ``size_min_bytes``."""
        count = self._int_untrusted()
        if not 0 <= count * size_min_bytes <= len(self._data) - self._at:
            raise ProtocolError(f"register body: {count} entries do not fit what is left")
        return count

    def text(self) -> str:
        size = self._int_untrusted()
        if not 0 <= size <= len(self._data) - self._at:
            raise ProtocolError(f"register body: a text of {size} bytes does not fit what is left")
        self._at += size
        try:
            return self._data[self._at - size : self._at].decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"register body: {error}") from None
