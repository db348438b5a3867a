"""The table of what each request code needs is complete, and agrees with Apache's annotations and its switch."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData, Heartbeat, LockRequest, SubscriptionData
from rmqproto.codes import OwnRequestCode, RequestCode
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.wire import fastjson
from rmqserver.remoting.answer import Request
from rmqserver.request_needs import PairsOf, nothing
from rmqserver.request_rules import SERVED
from tests.docs.compatibility import dispatch_tables
from tests.support.auth_walk import ASKED_OF_HERE
from tests.support.quick import in_one_test

ANNOTATIONS: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent.parent / "golden/auth/annotations.json").read_text()
)
"""``RocketMQAction`` and ``RocketMQResource`` of the request headers in rocketmq-remoting-5.5.0.jar, by code."""

BY_SWITCH = {10, 11, 12, 14, 15, 34, 35, 36, 37, 38, 41, 42, 105, 310, 320, 370}
"""Codes that ``DefaultAuthorizationContextBuilder`` (5.5.0) treats itself, whatever their annotations say."""

NOT_OURS = {326}
"""Sent to clients only, so it has no header in the table here."""


def asked(code: int, header: object = None, body: bytes = b"", strict: bool = False) -> list[tuple[str, str]]:
    """The needs of a request as pairs, such as ``Topic:T`` and ``Sub,Get``."""
    need = SERVED[code]
    pairs_of: PairsOf = need.strict if strict and need.strict else need.pairs
    request: Any = SimpleNamespace(code=code, header=header, body=body)
    return [(pair.resource.key, ",".join(action.value for action in pair.actions)) for pair in pairs_of(request, "C")]


def header_of(code: int, **texts: str | None) -> Any:
    """A header of the code with these ext fields, and zeros and blanks in all other required ones."""
    ext: dict[str, Any] = {}
    for field in msgspec.structs.fields(REQUEST_HEADERS[code]):
        if field.required:
            ext[field.encode_name] = "" if "str" in str(field.type) else "0"
    ext.update({name: text for name, text in texts.items() if text is not None})
    return msgspec.convert(ext, REQUEST_HEADERS[code], strict=False)


def test_every_known_code_is_in_it() -> None:
    assert {*RequestCode, *OwnRequestCode} <= SERVED.keys()


def test_every_served_code_is_in_it() -> None:
    assert set.union(*dispatch_tables()) <= SERVED.keys()


@in_one_test(*sorted(set(map(int, ANNOTATIONS)) - BY_SWITCH - NOT_OURS))
def test_it_asks_what_the_annotations_ask(code: int) -> None:
    annotation = ANNOTATIONS[str(code)]
    actions = ",".join(name.capitalize() for name in annotation["actions"])
    fields = annotation["fields"]
    named = {name: f"{name}1{splitter}{name}2" if splitter else name for name, _, splitter in fields}
    expected = [
        (f"{kind.capitalize()}:{each}", actions)
        for name, kind, splitter in fields
        for each in (named[name].split(splitter) if splitter else [named[name]])
    ]
    if not expected and annotation["resource"] == "CLUSTER":
        expected = [("Cluster:C", actions)]
    header = header_of(code, **named) if code in REQUEST_HEADERS else None
    assert asked(code, header) == expected
    without = header_of(code, **{name: None for name in named}) if code in REQUEST_HEADERS else None
    required = {field.encode_name for field in msgspec.structs.fields(REQUEST_HEADERS[code])} if header else set()
    assert required >= named.keys(), "our header lacks a field by which Apache authorizes"
    if not fields:
        assert asked(code, without) == expected


def test_all_other_codes_of_apache_need_only_a_name_there() -> None:
    asks_here = {code for code, need in SERVED.items() if need.pairs is not nothing}
    apache_asks = set(map(int, ANNOTATIONS)) | BY_SWITCH
    namesrv_config = {318, 319}  # Apache's nameserver authorizes nothing, and these have no annotation
    assert asks_here - apache_asks - set(OwnRequestCode) - namesrv_config == ASKED_OF_HERE


SWITCH: list[tuple[int, dict[str, str], list[tuple[str, str]]]] = [
    (10, {"topic": "T", "producerGroup": "p"}, [("Topic:T", "Pub")]),
    # Whatever group they name: Java's consumers send there as CLIENT_INNER_PRODUCER.
    (10, {"topic": "%RETRY%g", "producerGroup": "p"}, [("Group:g", "Sub")]),
    (10, {"topic": "%RETRY%g", "producerGroup": " "}, [("Group:g", "Sub")]),
    (310, {"b": "T", "a": "p"}, [("Topic:T", "Pub")]),
    (310, {"b": "%RETRY%g", "a": "p"}, [("Group:g", "Sub")]),
    (320, {"b": "%RETRY%g", "a": "%RETRY%p"}, [("Group:g", "Sub")]),
    (370, {"topic": "T"}, [("Topic:T", "Pub")]),
    (37, {"topic": "T"}, [("Topic:T", "Pub")]),
    (37, {}, []),
    (36, {"group": "g", "originTopic": "T"}, [("Group:g", "Sub")]),
    (11, {"topic": "T", "consumerGroup": "g"}, [("Topic:T", "Sub"), ("Group:g", "Sub")]),
    (11, {"topic": "%RETRY%g", "consumerGroup": "g"}, [("Group:g", "Sub")]),
    (361, {"topic": "T", "consumerGroup": "g"}, [("Topic:T", "Sub"), ("Group:g", "Sub")]),
    (12, {"topic": "T"}, [("Topic:T", "Sub,Get")]),
    (35, {"consumerGroup": "g"}, [("Group:g", "Sub")]),
    (35, {"producerGroup": "p"}, []),
    (38, {"consumerGroup": "g"}, [("Group:g", "Sub,Get")]),
    (14, {"topic": "T", "consumerGroup": "g"}, [("Topic:T", "Sub,Get"), ("Group:g", "Sub,Get")]),
    (15, {"topic": "T", "consumerGroup": "g"}, [("Topic:T", "Sub,Update"), ("Group:g", "Sub,Update")]),
    (15, {"topic": "%RETRY%g", "consumerGroup": "g"}, [("Group:g", "Sub,Update")]),
    (105, {"topic": "T"}, [("Topic:T", "Pub,Sub,Get")]),
    (105, {"topic": "%RETRY%g"}, [("Group:g", "Sub,Get")]),
    (200070, {"topic": "T", "consumerGroup": "g"}, [("Group:g", "Sub"), ("Topic:T", "Sub")]),
    (202, {"topic": "%RETRY%g"}, [("Group:g", "Get")]),
    (33, {}, []),
]


@pytest.mark.parametrize(("code", "ext", "expected"), SWITCH)
def test_it_asks_what_the_switch_asks(code: int, ext: dict[str, str], expected: list[tuple[str, str]]) -> None:
    assert asked(code, header_of(code, **ext)) == expected


def test_a_heartbeat_needs_each_group_and_each_topic_that_is_subscribed() -> None:
    data = ConsumerData(
        group_name="g",
        subscription_data_set=[SubscriptionData(topic=topic, sub_string="*") for topic in ("T", "%RETRY%g", "U")],
    )
    body = fastjson.dumps(Heartbeat(client_id="c", consumer_data_set=[data]))
    assert asked(34, body=body) == [("Group:g", "Sub"), ("Topic:T", "Sub"), ("Topic:U", "Sub")]


@pytest.mark.parametrize("code", [41, 42])
def test_locks_need_the_group_and_the_topics(code: int) -> None:
    queues = [MessageQueue(topic, "b", 0) for topic in ("T", "%RETRY%g", "T")]
    body = fastjson.dumps(LockRequest(client_id="c", consumer_group="g", mq_set=queues))
    assert asked(code, body=body) == [("Group:g", "Sub"), ("Topic:T", "Sub")]


def test_acknowledgements_in_one_batch_need_what_each_needs() -> None:
    ack = {"c": "g", "t": "T", "b": "", "it": 1, "pt": 1, "q": 0, "r": "0", "rq": 0, "so": 0}
    body = json.dumps({"acks": [ack, ack | {"c": "h", "t": "U"}]}).encode()
    assert asked(200151, body=body) == [
        ("Group:g", "Sub"), ("Topic:T", "Sub"), ("Group:h", "Sub"), ("Topic:U", "Sub"),
    ]  # fmt: skip


def test_lite_subscriptions_need_the_group_and_the_parent_topic() -> None:
    change = {"action": "PARTIAL_ADD", "clientId": "c", "group": "g", "topic": "P", "liteTopicSet": ["x"]}
    body = json.dumps({"subscriptionSet": [change]}).encode()
    assert asked(200071, body=body) == [("Group:g", "Sub"), ("Topic:P", "Sub")]


def test_strictly_whatever_changes_the_broker_needs_the_cluster() -> None:
    for code in (18, 25, 200, 225, 306, 316, 329, 401, 513, 2001, 5001):
        assert asked(code) == []
        assert asked(code, strict=True) == [("Cluster:C", "Update")]
    assert asked(26, strict=True) == [("Cluster:C", "Get")]
    assert asked(33, header_of(33), strict=True) == [("Cluster:C", "Get")]


def test_requests_are_typed_as_the_table_takes_them() -> None:
    """A row that names a field which its header lacks would fail at the first request."""
    for code, need in SERVED.items():
        header: Any = header_of(code) if code in REQUEST_HEADERS else None
        request = Request(
            code=code, opaque=1, header=header, body=b'{"clientID":"c","clientId":"c","consumerGroup":"g"}'
        )
        for pairs_of in (need.pairs, need.strict):
            if pairs_of is not None:
                list(pairs_of(request, "C"))
