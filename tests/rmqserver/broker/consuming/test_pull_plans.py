"""Pulls that the core answers by plans: what Python answers, byte for byte, and nothing after a change."""

import json
import os
import random
from collections.abc import Callable, Iterator
from operator import sub
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from rmqproto.bodies.acl import UserAccount
from rmqproto.bodies.groups import ConsumerData, Heartbeat, SubscriptionGroupConfig
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.filters.subscription import subscription_data
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import PULL_COMMIT_OFFSET, PULL_LITE, PULL_SUBSCRIPTION, PullHeader
from rmqproto.message.record import decode_record_untrusted, decode_records_untrusted
from rmqproto.wire.command import Command, FrameReader, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import HEAD_SIZE_BYTES, frame, head_untrusted
from rmqproto.wire.signing import sign
from rmqserver.auth.auth_gate import AuthGate
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.broker.broker import Broker
from rmqserver.broker.consuming import pull_plans
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.core import IS_NATIVE, FrameCutter, simple
from rmqserver.doors.remoting.broker_door import BrokerDoor
from rmqserver.doors.remoting.pulls import pull_handlers
from rmqserver.remoting.gate import GatePlace
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service
from rmqserver.request_rules import SERVED
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues import reader
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.store.conftest import cleaned, put
from tests.support.clock import Clock
from tests.support.servers import topic_config
from tests.support.stub_connection import StubConnection

pytestmark = pytest.mark.skipif(not IS_NATIVE, reason="the native core was not built")

SMALL = StoreOptions(
    commit_log_file_size_bytes=16 << 10, consume_queue_file_size_bytes=37 * 20, index_enabled=False,
    message_size_max_bytes=4096, open_files_max=4, transfer_bytes_in_memory_max=4000, file_reserved_hours=1,
)  # fmt: skip
TAGS = ("A", "B", "C", "")


class Passing(StubConnection):
    """Keeps also what no plan took."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[object] = []

    def pass_on(self, *found: object) -> None:
        self.left.append(found)


class Bench:
    """A broker's parts on a small store, a service that answers pulls, and both ways of asking it."""

    def __init__(self, root: Path, settings: str = "", kept_ms: int = 3_600_000):
        self.clock = Clock()
        self.store = MessageStore(root, SMALL, clock_ms=self.clock, background=False)
        self.store.open()
        self.files = ConfigFiles(str(root / "config"), OsDisk(), background=False)
        with patch.object(pull_plans, "KEPT_MS", kept_ms):
            self.parts = parts = parts_on(self.store, self.files, settings)
        for topic in ("T", "U"):
            parts.topics.put(topic_config(topic, 3))
        self.service = Service("broker", pull_handlers(parts))

    def close(self) -> None:
        self.store.close()
        self.files.close()

    def put_many(self, count: int, topic: str = "T", queue_id: int = 0) -> None:
        for number in range(count):
            put(self.store, topic, queue_id, b"%d" % number, tags="A")
        self.store.commit()

    def subscribe(self, expression: str, version: int = 1, model: str = "CLUSTERING") -> None:
        """A heartbeat of the group G."""
        subscriptions = [subscription_data("T", expression, version=version)]
        data = ConsumerData(group_name="G", message_model=model, subscription_data_set=subscriptions)
        heartbeat = Heartbeat(client_id="c", consumer_data_set=[data])
        self.parts.membership.heartbeat(heartbeat, PEER, "JAVA", 0, 100)

    def by_python(self, header: bytes) -> bytes:
        """The answer of the general way; empty if the pull is held."""
        peer: Any = StubConnection()
        self.service.handle_untrusted(peer, 0, int.from_bytes(header[8:12], "big"), header, b"")
        return b"".join(peer.frames)

    def by_core(self, header: bytes) -> bytes | None:
        """The answer of the core; None if it leaves the pull to Python."""
        peer = Passing()
        cutter: Any = FrameCutter(peer.pass_on, peer, [self.parts.pull_plans.plain])
        cutter.feed_untrusted(frame(header))
        assert len(peer.frames) + len(peer.left) == 1
        return None if peer.left else peer.frames[0]

    def offsets(self, queue_id: int = 0) -> tuple[int | None, int | None]:
        offsets = self.parts.offsets
        return offsets.committed("G", "T", queue_id), offsets.pull_offset("G", "T", queue_id)

    def counts(self) -> tuple[int, ...]:
        """Pulls that found messages, and what the group got."""
        stats = self.parts.stats
        flow = stats.gets["T", "G"]
        return stats.get_found, stats.get_count, flow.message_count, flow.request_count, flow.size_bytes


PEER: Any = StubConnection()


def header_of(queue_offset: int = 0, opaque: int = 7, **fields: Any) -> bytes:
    """As Java's client writes it."""
    known: dict[str, Any] = {
        "consumer_group": "G", "topic": "T", "queue_id": 0, "max_msg_nums": 32, "sys_flag": PULL_SUBSCRIPTION,
        "subscription": "*", "suspend_timeout_millis": 15_000,
    }  # fmt: skip
    ext = to_ext(PullHeader(**known | fields, queue_offset=queue_offset))
    made = encode_frame(Command(code=R.PULL_MESSAGE, opaque=opaque, ext=ext))
    return made[HEAD_SIZE_BYTES : HEAD_SIZE_BYTES + head_untrusted(made)[2]]


def cut(answer: bytes) -> tuple[object, bytes]:
    size = head_untrusted(answer)[2]
    return json.loads(answer[HEAD_SIZE_BYTES : HEAD_SIZE_BYTES + size]), answer[HEAD_SIZE_BYTES + size :]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


# --- the same answers -----------------------------------------------------------------------------------------------


def forget_pages(store: MessageStore) -> None:
    """Takes the log and the queues out of the page cache, as after a start on a cold machine."""
    store.flush()
    store.log.uncached_offset = store.log.written_offset
    queues = [queue.segments for queue in store.queues.opened()]
    for segments in [store.log.segments, *queues]:
        for base in segments.bases:
            file = segments.file(base)
            os.fdatasync(file.fd)  # dirty pages stay
            os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_the_core_answers_as_python_does(device_path: Path, seed: int) -> None:
    """Queues of tagged messages, among each other and over many files, in the tail and not, with expired heads."""
    randomly = random.Random(seed)
    bench = Bench(device_path)
    store, taken_count, run_count = bench.store, 0, 0
    bench.subscribe("A || C")
    for step in range(8):
        for _ in range(randomly.randrange(60)):
            topic, queue_id = randomly.choice(("T", "T", "U")), randomly.randrange(2)
            put(store, topic, queue_id, randomly.randbytes(randomly.choice((0, 30, 700))), tags=randomly.choice(TAGS))
            if not randomly.randrange(8):
                store.commit()
        store.commit()
        if step % 4 == 1:
            store.flush()  # and with it the queues' files
        if step % 4 == 3:
            bench.clock.now_ms += 2 * 3_600_000
            os.utime(store.log.segments.path(store.log.min_offset), (bench.clock.now_ms / 1000 - 7200,) * 2)
            cleaned(store, bench.clock.now_ms)
        if step % 5 == 4:
            forget_pages(store)
        for _ in range(30):
            taken_count += ask_both(bench, randomly)
            run_count += read_both(bench, randomly)
    assert taken_count > 60
    assert run_count > 60
    bench.close()


def read_both(bench: Bench, randomly: random.Random) -> bool:
    """Reads all messages from a place in a queue on, by the core if it can, and by Python."""
    store, queue_id = bench.store, randomly.randrange(2)
    with patch.object(reader, "PlainPulls", simple.PlainPulls):
        by_python = reader.Reader(store.log, store.options)
    low, high = store.min_offset("T", queue_id), store.max_offset("T", queue_id)
    given = randomly.randint(low - 1, high + 1), randomly.choice((1, 5, 32, 40)), randomly.choice((200, 1 << 20))
    found = store.get("T", queue_id, *given)
    expected = by_python.get(store.queues.find("T", queue_id), *given, None, cached_only=False)
    parts = [(each.status, each.next_offset, each.min_offset, each.sizes, b"".join(each.chunks))
             for each in (found, expected)]  # fmt: skip
    assert parts[0] == parts[1]
    if found.is_run:
        offsets = [decode_record_untrusted(record).queue_offset for record in found.records()]
        assert offsets == list(range(given[0], found.next_offset))
    return found.is_run


def ask_both(bench: Bench, randomly: random.Random) -> bool:
    queue_id = randomly.randrange(2)
    low, high = bench.store.min_offset("T", queue_id), bench.store.max_offset("T", queue_id)
    fields: dict[str, Any] = {
        "queue_id": queue_id,
        "max_msg_nums": randomly.choice((1, 8, 32, 100)),
        "sys_flag": randomly.choice((0, PULL_SUBSCRIPTION, PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET)),
        "subscription": randomly.choice(("*", "B", "A || B", "D")),
    }
    # The first pull leaves a plan, if its kind has none. The next one, from elsewhere, may be taken.
    bench.by_python(header_of(low, **fields))
    asked = header_of(
        randomly.randrange(max(low - 3, 0), high + 3), randomly.randrange(1 << 31), **fields,
        commit_offset=randomly.randrange(high + 9), suspend_timeout_millis=randomly.randrange(99),
    )  # fmt: skip
    before = bench.offsets(queue_id), bench.counts()
    by_core = bench.by_core(asked)
    after = bench.offsets(queue_id), bench.counts()
    if by_core is None:
        assert after == before, "what is not taken changes nothing"
        return False
    assert cut(by_core) == cut(bench.by_python(asked))
    assert bench.offsets(queue_id) == after[0]
    assert list(map(sub, bench.counts(), after[1])) == list(map(sub, after[1], before[1]))
    return True


def test_interleaved_queues_come_whole(bench: Bench) -> None:
    """Small gaps are read along, a large one is not."""
    for number in range(20):
        put(bench.store, queue_id=number % 2, body=b"%d" % number)
        for _ in range({5: 2, 9: 1}.get(number, 0)):
            put(bench.store, "U", body=bytes(3000))
    bench.store.commit()
    bench.by_python(header_of(max_msg_nums=8))
    asked = header_of(1, max_msg_nums=8)
    by_core = bench.by_core(asked)
    assert by_core is not None
    assert cut(by_core) == cut(bench.by_python(asked))
    messages = decode_records_untrusted(cut(by_core)[1])
    assert [message.body for message in messages] == [b"%d" % number for number in range(2, 18, 2)]


# --- what leaves a plan, and what drops it --------------------------------------------------------------------------


def warm(bench: Bench, **fields: Any) -> bytes:
    """A header that the core takes."""
    bench.put_many(10)
    bench.by_python(header_of(max_msg_nums=4, **fields))
    asked = header_of(2, max_msg_nums=4, **fields)
    assert bench.by_core(asked) is not None
    return asked


def change_topic(bench: Bench) -> None:
    bench.parts.topics.put(topic_config("T", 3, perm=2))


def change_group(bench: Bench) -> None:
    bench.parts.groups.put(SubscriptionGroupConfig(group_name="G", consume_enable=False))


def change_setting(bench: Bench) -> None:
    bench.parts.settings_changed({"brokerPermission"})


CHANGES: dict[str, Callable[[Bench], object]] = {
    "topic": change_topic,
    "topic deleted": lambda bench: bench.parts.topics.delete("T"),
    "queue deleted": lambda bench: bench.store.delete_topic("T"),
    "group": change_group,
    "group deleted": lambda bench: bench.parts.groups.delete("G"),
    "forbidden": lambda bench: bench.parts.groups.set_forbidden("G", "T", True),
    "newer subscription": lambda bench: bench.subscribe("A", version=2),
    "broadcasting": lambda bench: bench.subscribe("*", model="BROADCASTING"),
    "last member gone": lambda bench: bench.parts.clients.peer_gone(PEER),
    "offset reset": lambda bench: bench.parts.offsets.assign_reset("G", "T", 0, 5),
    "setting": change_setting,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_drops_the_plans(bench: Bench, change: str) -> None:
    bench.subscribe("*")
    asked = warm(bench, sys_flag=0)
    CHANGES[change](bench)
    assert bench.by_core(asked) is None


class Admits:
    wants_ext = False

    def admit(self, request: object, ext: object, connection: object) -> None: ...


def test_a_service_with_gates_leaves_none() -> None:
    """It asks for none."""
    loop = Loop()
    broker = Broker(BrokerConfig(), loop)
    door, plans = BrokerDoor(broker), broker.pull_plans
    assert plans.plain in door.takers
    wanted: Any = SimpleNamespace(accepts_properties=None, accepts_code=None, codes=None)
    result = SimpleNamespace(next_offset=1, max_offset=2)
    pulled: Any = SimpleNamespace(wanted=wanted, result=result, suggested_broker_id=0)
    assert plans.pays(pulled)
    door.use_gate(GatePlace.FAULTS, Admits())
    assert not plans.pays(pulled)
    door.use_gate(GatePlace.FAULTS, None)
    assert plans.pays(pulled)
    loop.close()


def test_a_signed_pull_is_answered_by_the_core_if_its_signature_is_right(bench: Bench) -> None:
    """Each has a signature of its own."""
    bench.put_many(8)
    user, table = Credentials("alice", "alice-secret"), AuthTable(None)
    table.create_user(UserAccount(username=user.access_key, password=user.secret_key))
    gate = AuthGate(AuthSettings(is_authenticating=True), table, "C", SERVED)
    service, plans = bench.service, bench.parts.pull_plans
    service.use_gate(GatePlace.USERS, gate, gate.admits_at_sight, gate.admits_undecoded)
    service.offer_frames_to(plans.plain, plans.ask)
    plans.takers = service.takers
    peer, passed = StubConnection(), list[bytes]()

    def on_frame(peer: Any, codec: int, peeked: int, header: bytes, body: bytes) -> None:
        passed.append(header)
        service.handle_untrusted(peer, codec, peeked, header, body)

    cutter: Any = FrameCutter(on_frame, peer, service.takers)

    def pull(queue_offset: int, **changed: str) -> tuple[int, bool]:
        """The answer's code, and whether the core gave it."""
        ext = json.loads(header_of(queue_offset, max_msg_nums=1))["extFields"]
        sign(ext, b"", user)
        passed.clear()
        peer.frames.clear()
        cutter.feed_untrusted(encode_frame(Command(code=R.PULL_MESSAGE, opaque=7, ext=ext | changed)))
        (answer,) = FrameReader().feed(b"".join(peer.frames))
        return answer.code, not passed

    refused = ResponseCode.NO_PERMISSION, False
    assert [pull(offset) for offset in range(3)] == [(0, False), (0, True), (0, True)]
    assert pull(3, Signature="AAAA") == refused
    assert pull(3, queueOffset="4") == refused
    assert pull(3) == (0, True)
    table.update_user(UserAccount(username=user.access_key, password="another"))
    assert pull(4) == refused
    plans.forget()


def test_a_heartbeat_without_news_drops_none(bench: Bench) -> None:
    bench.subscribe("*")
    asked = warm(bench, sys_flag=0)
    bench.subscribe("*")
    assert bench.by_core(asked) is not None


def test_plans_are_not_kept_for_long(tmp_path: Path) -> None:
    bench = Bench(tmp_path, kept_ms=0)
    bench.put_many(10)
    bench.by_python(header_of(max_msg_nums=4))
    assert bench.by_core(header_of(max_msg_nums=4)) is None
    bench.close()


@pytest.mark.parametrize("how", ["slave", "members count", "at the end", "second stage", "oneway", "lite pull"])
def test_no_plan(tmp_path: Path, how: str) -> None:
    settings = {"slave": "brokerRole=SLAVE\nbrokerId=1", "members count": "rejectPullConsumerEnable=true"}.get(how, "")
    bench = Bench(tmp_path, settings + "\nenablePropertyFilter=true")
    bench.subscribe("*")
    bench.put_many(10)
    fields: dict[str, Any] = {"max_msg_nums": 32 if how == "at the end" else 4}
    if how == "second stage":
        fields |= {"subscription": "a IS NULL", "expression_type": "SQL92"}
    if how == "lite pull":
        fields["sys_flag"] = PULL_SUBSCRIPTION | PULL_LITE
    header = header_of(**fields)
    if how == "oneway":
        header = header.replace(b'"flag":0', b'"flag":2')
    assert bool(bench.by_python(header)) is (how != "oneway")
    assert bench.by_core(header) is None
    bench.close()


# --- headers --------------------------------------------------------------------------------------------------------

PLAIN = header_of(max_msg_nums=4)
ODD = {
    "twice": PLAIN.replace(b'"queueOffset"', b'"queueOffset":"0","queueOffset"'),
    "escaped": PLAIN.replace(b'"queueOffset"', b'"\\u0071ueueOffset"'),
    "another object": PLAIN.replace(b'"topic"', b'"more":{"commitOffset":"0"},"topic"'),
    "a leading zero": PLAIN.replace(b'"queueOffset":"0"', b'"queueOffset":"00"'),
    "a sign": PLAIN.replace(b'"queueOffset":"0"', b'"queueOffset":"-0"'),
    "nineteen digits": PLAIN.replace(b'"commitOffset":"0"', b'"commitOffset":"9999999999999999999"'),
    "large": PLAIN.replace(b'"flag"', b'"more":"%b","flag"' % (b"x" * 3000)),
}


@pytest.mark.parametrize("spelling", ODD)
def test_an_unusual_header_is_left_to_python(bench: Bench, spelling: str) -> None:
    bench.put_many(10)
    bench.by_python(PLAIN)
    bench.by_python(ODD[spelling])
    assert bench.by_core(PLAIN) is not None
    assert bench.by_core(ODD[spelling]) is None


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        (b'"G"', b'"\\u0047"'), (b'"queueOffset":', b'"queueOffset": '), (b'"queueOffset":', b'"queueOffset" :'),
        (b'"queueOffset":"0"', b'"queueOffset":0'),
    ],
)  # fmt: skip
def test_a_header_may_be_spelled_otherwise(bench: Bench, usual: bytes, other: bytes) -> None:
    bench.put_many(10)
    asked = PLAIN.replace(usual, other)
    expected = bench.by_python(asked)
    assert cut(bench.by_core(asked) or b"") == cut(expected)


def test_numbers_may_be_spelled_without_quotes(bench: Bench) -> None:
    """As Go's client does with some of them, in any order."""
    bench.put_many(10)

    def asked(queue_offset: int) -> bytes:
        return (
            b'{"code":11,"opaque":%d,"extFields":{"queueOffset":%d,"queueId":0,"topic":"T","consumerGroup":"G",'
            b'"commitOffset":0,"maxMsgNums":4,"subscription":"*","sysFlag":4},"flag":0}' % (queue_offset, queue_offset)
        )

    bench.by_python(asked(0))
    assert cut(bench.by_core(asked(3)) or b"") == cut(bench.by_python(asked(3)))


def test_any_bytes_are_survived(bench: Bench) -> None:
    randomly = random.Random(7)
    bench.put_many(10)
    bench.by_python(PLAIN)
    for _ in range(3000):
        changed = bytearray(PLAIN[: randomly.randrange(len(PLAIN) + 1)])
        for _ in range(randomly.randrange(4)):
            if changed:
                changed[randomly.randrange(len(changed))] = randomly.choice(b'"{}:,\\0198x\xff')
        bench.by_core(bytes(changed))


def test_bad_plans_are_refused(bench: Bench) -> None:
    plain = bench.parts.pull_plans.plain
    for wrong in ((1, 2), (None, None, (b"",) * 4, 1, 1, 1, 1, None), (None, None, [b""] * 5, 1, 1, 1, 1, None)):
        with pytest.raises(TypeError):
            plain.keep(PLAIN, 7, 0, 0, wrong)
    with pytest.raises(OverflowError):
        plain.keep(PLAIN, 7, 0, 0, (None, None, (b"",) * 5, 1, 1, 1, 1 << 70, None))
    plain.keep(PLAIN, 7, 0, 0, (None, None, (b"x" * 500,) * 5, 1, 1, 1, 1, None))
    plain.keep(PLAIN, 7, 0, 0, (None, None, (b"",) * 5, 1000, 1, 1, 1, None))
    plain.keep(PLAIN, 7, 0, 0, (None, None, (b"",) * 5, 1, 1, 1, 1, b"abc"))
    assert bench.by_core(PLAIN) is None
