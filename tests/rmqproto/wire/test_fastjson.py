"""fastjson's dialect: the parser accepts what real brokers and clients write, and everything else raises the one
error."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, TopicConfig, TopicRoute
from rmqproto.bodies.statistics import ConsumerRunningInfo, TopicOffset, TopicStats
from rmqproto.errors import ProtocolError
from rmqproto.wire import fastjson
from rmqproto.wire.fastjson import LARGE_COUNT, ObjectMap
from tests.support.quick import in_one_test
from tests.support.steps import steps

QUEUE = MessageQueue("T", "broker-a", 1)

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_integer_keys_without_quotes() -> None:
    text = b'{"brokerDatas":[{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b","cluster":"c"}],"queueDatas":[]}'
    route = fastjson.loads_untrusted(text, TopicRoute)
    assert route.broker_datas[0].broker_addrs == {0: "h:1", 1: "h:2"}


def test_object_keys() -> None:
    text = b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:{"maxOffset":9}},"topicPutTps":0.0}'
    stats = fastjson.loads_untrusted(text, TopicStats)
    assert stats.offset_table == {QUEUE: TopicOffset(max_offset=9)}
    assert fastjson.loads_untrusted(fastjson.dumps(stats), TopicStats) == stats


def test_odd_keys_do_not_need_the_parser_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python parser takes 60 us a key, and a dashboard at rest reads hundreds of such maps a second."""
    monkeypatch.delattr(fastjson, "parse_untrusted")
    stats = TopicStats(offset_table=ObjectMap({QUEUE: TopicOffset(max_offset=9)}))
    assert fastjson.loads_untrusted(fastjson.dumps(stats), TopicStats) == stats
    assert fastjson.loads_untrusted(b'{"brokerAddrs":{0:"h:1"},"brokerName":"b"}', BrokerData).broker_addrs == {
        0: "h:1"
    }


class Texts(msgspec.Struct):
    """Texts as keys, as values, and after a map with object keys."""

    before: str
    table: ObjectMap[MessageQueue, str]
    numbered: dict[int, str]
    after: list[str]


odd = st.text(alphabet='{}[]:,"\\b0') | st.sampled_from([',{"b":5}:', ",5:", 'a,{"', '":5}:', '{"a":"b"}:1'])


@given(odd, odd, odd, odd)
def test_a_text_that_looks_like_an_odd_key_stays_a_text(name: str, before: str, value: str, after: str) -> None:
    queue = MessageQueue("T", name, 1)
    texts = Texts(before, ObjectMap({queue: value, QUEUE: after}), {0: value, -7: before}, [after, before, value])
    assert fastjson.loads_untrusted(fastjson.dumps(texts), Texts) == texts


def test_object_keys_inside_quotes() -> None:
    key = json.dumps('{"brokerName":"broker-a","queueId":1,"topic":"T"}')
    stats = fastjson.loads_untrusted(f'{{"offsetTable":{{{key}:{{"maxOffset":9}}}}}}', TopicStats)
    assert stats.offset_table == {QUEUE: TopicOffset(max_offset=9)}


def test_references_as_keys_are_left_out() -> None:
    """Clients up to 5.3.3 write a repeated queue as a reference to another map's key."""
    text = b'{"mqTable":{{"$ref":"$.mqPopTable.null"}:{},{"brokerName":"broker-a","queueId":1,"topic":"T"}:{}}}'
    assert list(fastjson.loads_untrusted(text, ConsumerRunningInfo).mq_table) == [QUEUE]


def test_empty_map_with_object_keys_stays_a_map() -> None:
    assert fastjson.dumps(TopicStats()) == b'{"offsetTable":{},"topicPutTps":0.0}'
    assert fastjson.loads_untrusted(b'{"offsetTable":{}}', TopicStats).offset_table == {}


def test_written_compact_because_go_cuts_broker_addrs_by_hand() -> None:
    assert fastjson.dumps({"brokerAddrs": {0: "h:1"}}) == b'{"brokerAddrs":{0:"h:1"}}'
    assert fastjson.dumps({"brokerAddrs": {0: "h:1"}, "t": "é"}, standard=True) == (
        b'{"brokerAddrs":{"0":"h:1"},"t":"\\u00e9"}'
    )


@given(plain)
def test_what_json_has_is_written_as_json_is(value: Any) -> None:
    def without_none(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_none(item) for key, item in value.items() if item is not None}
        return [without_none(item) for item in value] if isinstance(value, list) else value

    for standard in (False, True):
        text = json.dumps(without_none(value), ensure_ascii=standard, separators=(",", ":"))
        assert fastjson.dumps(value, standard=standard) == text.encode()


@pytest.mark.parametrize("number", [(1 << 63) - 1, 1 << 64, -(1 << 64), True])
def test_lists_of_numbers_hold_any(number: int) -> None:
    assert fastjson.dumps([1, number]) == json.dumps([1, number], separators=(",", ":")).encode()


class Optional(msgspec.Struct):
    value: int | None = None


@in_one_test(
    lambda name: TopicConfig(topic_name=name, attributes={"+é": name}),
    lambda name: Optional(len(name) if "7" in name else None),
    lambda name: {3: name},
    lambda name: [name],
    lambda name: TopicConfig(topic_name=name) if "7" in name else Optional(),
)
def test_a_large_map_is_written_as_its_entries_are(entry: Callable[[str], Any]) -> None:
    table = {f'{number} "\\/\n\x01\x7fé\u2028😀': entry(f"<{number}>\t") for number in range(LARGE_COUNT)}
    entries = [fastjson.dumps(name) + b":" + fastjson.dumps(value) for name, value in table.items()]
    assert fastjson.dumps(table) == b"{" + b",".join(entries) + b"}"


def test_the_topics_of_a_broker_are_written_without_a_step_for_each() -> None:
    """A broker with 50,000 topics stood still for half a second when it registered, twice a minute."""

    def of(count: int) -> int:
        table = {f"{number}": TopicConfig(topic_name=f"{number}") for number in range(count)}
        return steps(lambda: fastjson.dumps(table))

    assert of(10 * LARGE_COUNT) == of(LARGE_COUNT)


def test_none_members_are_left_out() -> None:
    assert fastjson.dumps({"a": None, "b": [None]}) == b'{"b":[null]}'


@in_one_test(
    ("{a:1,'b':2}", {"a": 1, "b": 2}),
    ("\ufeff[1]", [1]),
    ('"\\ud83d\\ude00"', "\U0001f600"),
    ("9223372036854775807", 9223372036854775807),
    (" { } ", {}),
    ('{"a":[1,2,],}', {"a": [1, 2]}),
    ("1e3", 1000.0),
)
def test_accepted(text: str, value: Any) -> None:
    assert fastjson.parse_untrusted(text) == value


@in_one_test("", "{", "[1 2]", "{1}", "tru", '"open', '"\\x"', '"\\u12"', "{}{}", "[" * 65 + "]" * 65, "9" * 5000)
def test_refused_with_the_position(text: str) -> None:
    with pytest.raises(ProtocolError, match="character"):
        fastjson.parse_untrusted(text)


@given(plain)
def test_reads_all_standard_json(value: Any) -> None:
    assert fastjson.parse_untrusted(json.dumps(value)) == value
    assert fastjson.parse_untrusted(json.dumps(value, ensure_ascii=False, indent=1)) == value


@given(st.text(alphabet="{}[]:,\"'\\ \n0123456789.eE+-truefalsn$u"))
def test_random_text_raises_nothing_but_the_one_error(text: str) -> None:
    with contextlib.suppress(ProtocolError):
        fastjson.parse_untrusted(text)


def test_a_member_of_the_wrong_type_names_its_place() -> None:
    with pytest.raises(ProtocolError, match=r"topicPutTps"):
        fastjson.loads_untrusted(b'{"topicPutTps":[]}', TopicStats)


def test_refusals_do_not_speak_of_python() -> None:
    """Clients of any language show this text."""
    with pytest.raises(ProtocolError, match=r"^JSON body: Expected `number`, got `text` - at `\$.topicPutTps`$"):
        fastjson.loads_untrusted(b'{"topicPutTps":"x"}', TopicStats)
    with pytest.raises(ProtocolError, match=r"^JSON is not UTF-8 at byte 1$"):
        fastjson.parse_untrusted(b"1\xff")


def test_deep_json_is_refused_not_a_crash() -> None:
    with pytest.raises(ProtocolError, match="deeper"):
        fastjson.loads_untrusted(b'{"x":' * 100_000, dict)


class Numbers(msgspec.Struct):
    n: int
    b: bool


def test_quoted_numbers_and_numbers_for_booleans() -> None:
    assert fastjson.loads_untrusted(b'{"n":"5","b":1}', Numbers) == Numbers(5, True)
