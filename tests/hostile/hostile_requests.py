"""Requests that no good client sends, made from the dispatch tables: every served code, with each of its fields hostile
while the others are right, and with every kind of body."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from rmqproto.codes import RequestCode
from rmqproto.headers.base import NoFields
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.java.java_numbers import Int32, Int64
from rmqproto.wire import header_binary
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqserver.broker.broker import Broker
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.doors.remoting.broker_door import BrokerDoor
from rmqserver.namesrv.kv import KvConfig
from rmqserver.namesrv.nameserver import Nameserver
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service


def services() -> dict[str, Service]:
    """Both services, unopened: only their tables are needed."""
    return {"broker": BrokerDoor(Broker(BrokerConfig(), Loop())), "namesrv": Nameserver(NamesrvConfig(), KvConfig())}


KNOWN_TOPIC = "Known"
"""The topic in right fields and bodies. Tests make sure that it exists."""

HOSTILE_TEXTS = (
    "", "\0", "../x", "%RETRY%../x", "/etc/passwd", "%DLQ%", "-1", "2147483648", "9223372036854775808", "[" * 1000,
    "a" * 70_000, "\u00e4\u2603", "a\x01b\x02c", "x;y;z", "null",
)  # fmt: skip
HOSTILE_NUMBERS = (
    "", "x", "-1", "-2147483648", "2147483647", "2147483648", "9223372036854775807", "-9223372036854775808",
    "9223372036854775808", "1000000000", "1" + "0" * 5000, "1.5", "NaN",
)  # fmt: skip

GARBAGE_BODIES = (
    b"", b"\0" * 50, b"{}", b"[]", b"null", b"1", b'"x"', b"[" * 5000, b'{"a":' * 3000, b"\xff\xfe", b"x=1\n\\u",
    b"\x78\x9c" + b"\0" * 40, b"[1,2,3]", b'{"":{}}',
)  # fmt: skip

QUEUE = {"topic": KNOWN_TOPIC, "brokerName": "broker-a", "queueId": 0}
TOPIC = {"topicName": "Bad", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "attributes": {}}
GROUP = {"groupName": "bad", "retryQueueNums": 1, "retryMaxTimes": 1, "attributes": {}}
SUBSCRIPTION = {"topic": KNOWN_TOPIC, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1}
CONSUMER = {"groupName": "bad", "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": [SUBSCRIPTION]}
VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 1}
TOPICS = {"dataVersion": VERSION, "topicConfigTable": {"Bad": TOPIC, "Bad2": TOPIC}}
LOCK = {"consumerGroup": "bad", "clientId": "c", "mqSet": [QUEUE]}

BODIES: dict[int, dict[str, Any]] = {
    RequestCode.HEART_BEAT: {
        "clientID": "c", "consumerDataSet": [CONSUMER], "producerDataSet": [{"groupName": "p"}],
        "heartbeatFingerprint": 0, "isWithoutSub": False,
    },
    RequestCode.CHECK_CLIENT_CONFIG: {"clientId": "c", "group": "bad", "subscriptionData": SUBSCRIPTION},
    RequestCode.LOCK_BATCH_MQ: LOCK,
    RequestCode.UNLOCK_BATCH_MQ: LOCK,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: GROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [GROUP]},
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [TOPIC]},
    RequestCode.REGISTER_BROKER: {"filterServerList": [], "topicConfigSerializeWrapper": TOPICS},
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: {
        "queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}],
        "brokerDatas": [],
    },
    RequestCode.QUERY_DATA_VERSION: VERSION,
}  # fmt: skip
"""A right body for each code that reads a body."""

HOSTILE_MEMBERS = (
    None, "", "../x", "a\0b", -1, 1 << 31, 1 << 63, 10**9, 10**30, 1.5, True, [], {}, [[[]]], {"a": {"b": {}}},
    "a" * 70_000,
)  # fmt: skip

RIGHT_TEXTS = {
    "topic": KNOWN_TOPIC, "b": KNOWN_TOPIC, "defaultTopic": "TBW102", "c": "TBW102", "topicFilterType": "SINGLE_TAG",
    "consumerGroup": "bad", "group": "bad", "a": "p", "producerGroup": "p", "groupName": "bad",
    "brokerName": "bad-broker", "clusterName": "bad-cluster", "brokerAddr": "127.0.0.1:1", "perm": "6",
}  # fmt: skip


def right_fields(code: int) -> dict[str, str]:
    """Every ext field of the code with a right value."""
    header = REQUEST_HEADERS.get(code, NoFields)
    found = {}
    for name, kind in kinds(code).items():
        found[name] = RIGHT_TEXTS.get(name) or {"number": "0", "text": "x", "boolean": "false"}[kind]
    assert len(found) == len(header.__struct_fields__)
    return found


def kinds(code: int) -> dict[str, str]:
    """The kind of each ext field of the code: ``number``, ``text`` or ``boolean``."""
    found = {}
    for field in msgspec.structs.fields(REQUEST_HEADERS.get(code, NoFields)):
        types = (field.type, *getattr(field.type, "__args__", ()))
        is_number = Int32 in types or Int64 in types
        found[field.encode_name] = "number" if is_number else "boolean" if bool in types else "text"
    return found


def requests(code: int) -> Iterator[bytes]:
    """Frames with every variant. The codecs that can carry the code take turns."""
    codecs = [codec for codec in HeaderCodec if codec is not HeaderCodec.ROCKETMQ or code <= header_binary.CODE_MAX]
    right = right_fields(code)
    body = json.dumps(BODIES.get(code, {})).encode()
    for number, (ext, each_body) in enumerate(_variants(code, right, body)):
        codec = codecs[number % len(codecs)]
        yield encode_frame(Command(code=code, opaque=number, ext=ext, body=each_body, codec=codec))


def _variants(code: int, right: dict[str, str], body: bytes) -> Iterator[tuple[dict[str, str], bytes]]:
    yield right, body
    yield {}, body
    for name, kind in kinds(code).items():
        yield {other: value for other, value in right.items() if other != name}, body
        for value in HOSTILE_NUMBERS if kind == "number" else HOSTILE_TEXTS:
            yield {**right, name: value}, body
    for garbage in GARBAGE_BODIES:
        yield right, garbage
    for hostile in _mutations(BODIES.get(code, {})):
        yield right, json.dumps(hostile).encode()


def _mutations(value: Any) -> Iterator[Any]:
    """Copies of the value in which one part, at any depth, is replaced, added or left out."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield {other: each for other, each in value.items() if other != name}
            yield {**value, "../" + name: member}
            for hostile in (*HOSTILE_MEMBERS, *_mutations(member)):
                yield {**value, name: hostile}
    elif isinstance(value, list):
        yield value * 100
        for item in value:
            for hostile in (*HOSTILE_MEMBERS, *_mutations(item)):
                yield [hostile]
