"""The hot path is a shortcut, and so is that of half messages and timers: every message that they take is stored byte
for byte, and answered, as on the full path."""

import random as chance
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rmqproto.bodies.routes import TopicConfig
from rmqproto.headers.sending import SendHeader
from rmqproto.message import properties as props
from rmqserver.broker.sending.send import Sends
from rmqserver.doors.remoting.sends import SendHandlers
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from rmqserver.store.results import MessageRefused
from tests.rmqserver.broker.parts import parts_on
from tests.support.clock import Clock
from tests.support.stub_connection import StubConnection

TOPICS = {"Plain": "SINGLE_TAG", "Tagged": "MULTI_TAG"}


class FullWay(SendHandlers):
    """A broker without the shortcut."""

    def send(self, request: Request[SendHeader], connection: Any) -> None:
        self._send_special(request, connection)


class PlainWay:
    """As a door puts that knows a message's properties one by one."""

    def __init__(self, sends: Sends):
        self._sends = sends

    def send(self, request: Request[SendHeader], connection: Any) -> None:
        header, body = request.header, request.body
        packed = props.joined(props.parse(header.properties))
        sent = self._sends.put_plain(header, body, packed, connection)
        if sent is None:
            self._sends.put(header, body, 0, connection, None)


class Bench:
    def __init__(self, directory: Path):
        self.clock = Clock()
        options = StoreOptions(commit_log_file_size_bytes=1 << 24, index_enabled=False)
        self.store = MessageStore(directory, options, clock_ms=self.clock, background=False)
        self.store.open()
        self.files = ConfigFiles(str(directory / "config"), OsDisk())
        self.parts = parts_on(self.store, self.files)
        for topic, filter_type in TOPICS.items():
            self.parts.topics.put(TopicConfig(topic_name=topic, topic_filter_type=filter_type))
        parts = self.parts
        self.shortcut, self.full = (
            way(parts.config, parts.store, parts.pending, parts.address, parts.unique_ids, parts.sends)
            for way in (SendHandlers, FullWay)
        )
        self.special_count = 0
        send_special = self.shortcut._send_special

        def count(*args: Any) -> None:
            self.special_count += 1
            send_special(*args)

        self.shortcut._send_special = count  # type: ignore[method-assign, assignment]

    def record(self, sends: SendHandlers | PlainWay, header: SendHeader, body: bytes) -> bytes | None:
        """The stored record without the fields that depend on its place; None if the message is refused."""
        start = self.store.written_offset
        peer: Any = StubConnection()
        try:
            sends.send(Request(code=10, opaque=1, header=header, body=body, flag=2), peer)
        except (Refused, MessageRefused):
            return None
        self.store.commit()
        record = self.store.get_record(start)
        assert record is not None
        return record[:20] + record[36:]  # without queue offset and log offset

    def answer(self, sends: SendHandlers, header: SendHeader, *, is_lost: bool = False) -> dict[str, Any]:
        """The producer's answer without the fields that depend on the place."""
        peer: Any = StubConnection()
        sends.send(Request(code=10, opaque=1, header=header, body=b"x"), peer)
        if is_lost:
            self.parts.pending._lose(self.parts.pending.when_written, "lost")
            self.parts.pending.when_written.clear()
        self.parts.pending.end_round()
        (answer,) = peer.answers
        for name in ("msgId", "queueOffset"):
            answer.ext.pop(name, None)
        return {"code": answer.code, "remark": answer.remark, **answer.ext}

    def counts(self) -> Counter[str]:
        """Messages and bytes by the topic where they were stored, and open transactions."""
        found = Counter({"open": self.parts.transaction_metrics.count("Plain")})
        for topic, flow in self.parts.stats.puts.items():
            found[topic] += flow.message_count + flow.request_count
            found[f"{topic}, bytes"] += flow.size_bytes
        return found

    def close(self) -> None:
        self.files.close()
        self.store.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("shortcut"))
    yield made
    made.close()


names = st.sampled_from(
    ["KEYS", "TAGS", "WAIT", "INSTANCE_ID", "DELAYED", "AWAIT", "a", "订单", "RETRY_TOPIC", "PGROUP"]
)
DUE = {"TRAN_MSG": "true", "TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": "5000", "TIMER_DELAY": "5000"}
"""Properties that delay a message or make it a half message, and one that does neither."""

ODD_NAMES = [
    *DUE, "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "XTIMER_DELAY_MS", "XTRAN_MSG",
    "REAL_TOPIC", "REAL_QID", "__transactionId__", "DELAY", "CLUSTER", "POP_CK", "INNER_MULTI_DISPATCH", "INNER_NUM",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
]  # fmt: skip
ODD_VALUES = ["true", "false", "TRUE", "1", "0", "-1", "7000", "999999999999", "x"]

values = st.text(st.characters(codec="utf-8", exclude_characters="\x02\0"), min_size=1, max_size=9)
properties = st.dictionaries(names, values, max_size=6)
"""The names differ, because clients send the properties of a map."""
sys_flags = st.integers(0, 0xFFF) | st.integers(-(2**31), 2**31 - 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(sorted(TOPICS)), properties, sys_flags, st.integers(0, 3), st.booleans(), st.binary(max_size=9))
@example("Plain", {"KEYS": "k"}, 0, 0, False, b"")
def test_shortcut_and_full_way_store_the_same(
    bench: Bench, topic: str, some: dict[str, str], sys_flag: int, queue_id: int, closed: bool, body: bytes
) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in {"UNIQ_KEY": "7F00", **some}.items())
    header = SendHeader(
        topic=topic, queue_id=queue_id, born_timestamp=1, sys_flag=sys_flag, flag=7, reconsume_times=1,
        properties=text + "\x02" * closed,
    )  # fmt: skip
    assert bench.record(bench.shortcut, header, body) == bench.record(bench.full, header, body)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(sorted(TOPICS)), properties, st.dictionaries(st.sampled_from(ODD_NAMES), values, max_size=1),
    st.sampled_from([0, 0, 1, 4, 8]), st.integers(-1, 5),
)  # fmt: skip
@example("Plain", {}, {}, 4, -1)
@example("Plain", {}, {"TRAN_MSG": "true"}, 4, -1)
def test_a_put_that_knows_the_properties_stores_the_same(
    bench: Bench, topic: str, some: dict[str, str], odd: dict[str, str], sys_flag: int, queue_id: int
) -> None:
    text = "".join(f"{name}\x01{value}\x02" for name, value in {"UNIQ_KEY": "7F00", **some, **odd}.items())
    header = SendHeader(topic=topic, queue_id=queue_id, born_timestamp=1, sys_flag=sys_flag, properties=text)
    ways = PlainWay(bench.parts.sends), bench.full
    records = []
    for way in ways:
        chance.seed(queue_id)  # a queue id below 0 is for any
        records.append(bench.record(way, header, b"x"))
    assert records[0] == records[1]


odd = st.dictionaries(st.sampled_from(ODD_NAMES), st.sampled_from(ODD_VALUES), max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(sorted(TOPICS)), properties, odd, sys_flags, st.booleans(), st.randoms())
def test_half_messages_and_timers_are_stored_as_by_the_full_way(
    bench: Bench, topic: str, some: dict[str, str], odd: dict[str, str], sys_flag: int, closed: bool, random: Random
) -> None:
    entries = list({"UNIQ_KEY": "7F00", **some, **odd}.items())
    random.shuffle(entries)
    text = "\x02".join(f"{name}\x01{value}" for name, value in entries)
    header = SendHeader(
        topic=topic, queue_id=2, born_timestamp=1, sys_flag=sys_flag, flag=7, properties=text + "\x02" * closed
    )
    assert bench.record(bench.shortcut, header, b"x") == bench.record(bench.full, header, b"x")


@pytest.mark.parametrize("name", DUE)
@pytest.mark.parametrize("sys_flag", [0, 0x4, 0x8, 0x20])
def test_what_waits_is_stored_as_by_the_full_way_whatever_stands_beside(bench: Bench, name: str, sys_flag: int) -> None:
    due = f"{name}\x01{DUE[name]}\x02"
    others = [f"{odd}\x01{value}\x02" for odd, value in product(ODD_NAMES, ODD_VALUES) if odd != name]
    for text in [text for other in others for text in (due + other, other + due, f"a\x01X{due}{other}")]:
        header = SendHeader(
            topic="Plain", queue_id=2, born_timestamp=1, sys_flag=sys_flag, properties=f"{text}UNIQ_KEY\x017F\x02"
        )
        assert bench.record(bench.shortcut, header, b"x") == bench.record(bench.full, header, b"x"), text


def header_of(sys_flag: int = 0, **properties: str) -> SendHeader:
    text = "".join(f"{name}\x01{value}\x02" for name, value in {"UNIQ_KEY": "7F00", "TAGS": "a", **properties}.items())
    return SendHeader(topic="Plain", queue_id=3, born_timestamp=1, sys_flag=sys_flag, properties=text)


HALF = header_of(0x4, TRAN_MSG="true", PGROUP="g")
TIMERS = [header_of(**{name: "5000"}) for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS")]


@pytest.mark.parametrize("header", [HALF, *TIMERS])
def test_half_messages_and_timers_take_their_shortcut_and_are_answered_the_same(
    bench: Bench, header: SendHeader
) -> None:
    before = bench.special_count
    for is_lost in (False, True):
        short = bench.answer(bench.shortcut, header, is_lost=is_lost)
        assert short == bench.answer(bench.full, header, is_lost=is_lost)
    counted = []
    for sends in (bench.shortcut, bench.full):
        old = bench.counts()
        bench.record(sends, header, b"x")
        counted.append(bench.counts() - old)
    assert counted[0] == counted[1]
    assert sum(counted[0].values())
    assert bench.special_count == before
    assert "recallHandle" in bench.answer(bench.shortcut, TIMERS[0])


@pytest.mark.parametrize("sys_flag", [0, 0x1, 0x2, 0x10, 0x20, 0x101, 0x201, 0x301])
def test_usual_bits_take_the_shortcut(bench: Bench, sys_flag: int) -> None:
    before = bench.special_count
    header = SendHeader(topic="Plain", queue_id=0, born_timestamp=1, sys_flag=sys_flag, properties="KEYS\x01k\x02")
    bench.record(bench.shortcut, header, b"x")
    assert bench.special_count == before


@pytest.mark.parametrize("sys_flag", [0x4, 0x8, 0xC, 0x40, 0x80, 0x800, -(2**31)])
def test_other_bits_go_the_full_way(bench: Bench, sys_flag: int) -> None:
    """A message with 0x80 used to have a unit in its queue while the broker ran, but none after recovery. Older
    messages of the queue could then not be read any more."""
    before = bench.special_count
    header = SendHeader(topic="Plain", queue_id=0, born_timestamp=1, sys_flag=sys_flag, properties="KEYS\x01k\x02")
    stored = bench.record(bench.shortcut, header, b"x")
    assert bench.special_count == before + 1
    assert (stored is None) == bool(sys_flag & 0x80)
