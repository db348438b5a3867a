"""Handles, infos and bit sets of POP, and the names of its retry topics."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from rmqproto import pop
from rmqproto.bodies.popping import AckMessage, CheckPoint, encode_entry
from rmqproto.errors import ProtocolError
from rmqproto.wire import fastjson

I64 = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
KINDS = st.sampled_from([pop.NORMAL, pop.RETRY_V1, pop.RETRY_V2])
NAMES = st.text("abcXYZ019-", min_size=1, max_size=20)
SOURCES = st.tuples(KINDS, st.integers(0, 1000))
OFFSETS = st.integers(0, (1 << 62))


@given(st.builds(pop.Handle, I64, I64, I64, I64, KINDS, NAMES, I64, I64))
def test_a_handle_reads_back(handle: pop.Handle) -> None:
    assert pop.parse_handle_untrusted(str(handle)) == handle


@given(st.builds(pop.Handle, I64, I64, I64, I64, KINDS, NAMES, I64, I64), I64)
def test_a_handle_of_apaches_proxy_says_besides_where_the_message_is_in_the_log(
    handle: pop.Handle, log_offset: int
) -> None:
    """Class ``ReceiptHandle`` of 5.5.0. The proxy hands the whole text on to the broker with acknowledgements."""
    assert pop.parse_handle_untrusted(f"{handle} {log_offset}") == handle
    assert pop.parse_handle_untrusted(f"{pop.Handle(0, 1, 2, 3, '0', 'broker-a', 4, 5)} {log_offset}").queue_offset == 5


@given(st.text() | st.lists(st.text(), min_size=8, max_size=8).map(" ".join))
def test_what_is_no_handle_is_refused(text: str) -> None:
    try:
        handle = pop.parse_handle_untrusted(text)
    except ProtocolError:
        return
    assert pop.parse_handle_untrusted(str(handle)) == handle


@given(st.dictionaries(SOURCES, OFFSETS))
def test_an_info_reads_back(starts: dict[pop.Source, int]) -> None:
    assert pop.parse_start_offset_info_untrusted(pop.start_offset_info(starts)) == starts


@given(st.sets(st.integers(0, 100)) | st.sets(st.integers(0, 5000)))
def test_bits_read_back(diffs: set[int]) -> None:
    assert list(pop.diffs_of_untrusted(pop.bits_of(diffs))) == sorted(diffs)


@pytest.mark.parametrize("bits", ["%", "AQ", "A" * ((1 << 17) + 4)])
def test_bits_that_are_none(bits: str) -> None:
    with pytest.raises(ProtocolError):
        pop.diffs_of_untrusted(bits)


@given(NAMES, NAMES, st.booleans())
def test_retry_topics_lead_back_to_the_topic(group: str, topic: str, is_v2: bool) -> None:
    name = pop.pop_retry_topic(group, topic, is_v2=is_v2)
    assert pop.normal_topic(name, group) == topic
    assert pop.real_topic(topic, group, pop.retry_kind(name)) == name


def test_the_revive_log_is_written_as_apache_writes_it() -> None:
    """The bodies are from the store of a real 5.5.0."""
    check_point = (
        b'{"bm":0,"bn":"broker-a","c":"PopGroup","d":[0,1,2],"it":10000,"n":3,"pt":1795264375467,"q":0,'
        b'"reviveTime":1795264385467,"ro":0,"so":0,"sp":false,"t":"PopTopic"}'
    )
    ack = b'{"ao":2,"bn":"broker-a","c":"PopGroup","pt":1795264375467,"q":0,"so":0,"t":"PopTopic"}'
    assert encode_entry(fastjson.loads_untrusted(check_point, CheckPoint)) == check_point
    assert encode_entry(fastjson.loads_untrusted(ack, AckMessage)) == ack


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(0, (1 << 31) - 1)
COMMON = {
    "consumer_group": TEXTS, "topic": TEXTS, "pop_time": OFFSETS, "start_offset": OFFSETS, "queue_id": NUMBERS,
    "broker_name": st.just(UNSET) | TEXTS,
}  # fmt: skip
CHECK_POINTS = st.builds(
    CheckPoint, **COMMON, bit_map=NUMBERS, offset_diffs=st.just(UNSET) | st.lists(NUMBERS), invisible_time=OFFSETS,
    message_count=NUMBERS, revive_time=OFFSETS, is_suspended=st.booleans(),
)  # fmt: skip
ACKS = st.builds(AckMessage, **COMMON, ack_offset=OFFSETS, ack_offsets=st.just(UNSET) | st.lists(OFFSETS))


@given(CHECK_POINTS | ACKS)
def test_entries_of_the_revive_log_are_fastjson_s(entry: CheckPoint | AckMessage) -> None:
    assert encode_entry(entry) == fastjson.dumps(msgspec.to_builtins(entry))
    assert fastjson.loads_untrusted(encode_entry(entry), type(entry)) == entry
