"""The native core takes plain sends before they become Python objects. What is stored, indexed, counted and answered is
what the service would have done."""

import functools
import json
import lzma
import math
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import SEND_CODES, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.message.record import BatchItem, encode_batch
from rmqproto.wire import header_binary
from rmqproto.wire.command import Command
from rmqproto.wire.frames import frame
from rmqserver import core
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.errors import as_refused
from rmqserver.doors.remoting.sends import SendHandlers
from rmqserver.operation import Refused
from rmqserver.remoting.gate import GatePlace
from rmqserver.remoting.service import Handler, Service
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode, StoreOptions
from rmqserver.store.running_flags import DISK_FULL
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.store.test_message_store import FailingDisk
from tests.support.clock import Clock
from tests.support.golden import FILE
from tests.support.quick import first_is_quick
from tests.support.stub_connection import StubConnection

pytestmark = pytest.mark.skipif(not core.IS_NATIVE, reason="the native core is not built")

TOPICS = {
    "TopicCapture": "SINGLE_TAG", "Tagged": "MULTI_TAG", "NoSuchTopic": "SINGLE_TAG",
    "RMQ_SYS_TRACE_TOPIC": "SINGLE_TAG",
}  # fmt: skip
QUEUE_COUNT = 4
FILES_COMPARED = ("commitlog", "consumequeue", "index")


def topic_config(name: str, filter_type: str = "SINGLE_TAG") -> TopicConfig:
    return TopicConfig(
        topic_name=name, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT, topic_filter_type=filter_type
    )


class Sending(Service):
    def as_refused(self, error: Exception) -> Refused | None:
        return as_refused(error) or super().as_refused(error)


class Broker:
    """``takes``: with a native core before the service."""

    def __init__(
        self, directory: Path, *, takes: bool, flush_mode: FlushMode = FlushMode.ASYNC, file_size: int = 1 << 20
    ):
        self.directory = directory
        options = StoreOptions(
            commit_log_file_size_bytes=file_size, consume_queue_file_size_bytes=20 * 5000, flush_mode=flush_mode,
            index_slot_count=1000, index_unit_count=4000,
        )  # fmt: skip
        self.disk = FailingDisk()
        self.store = MessageStore(directory, options, self.disk, Clock(), background=False)
        self.store.open()
        self.files = ConfigFiles(str(directory / "config"), OsDisk())
        self.parts = parts = self.make_parts()
        self.put_count = 0
        parts.stats.put_times.note = self.note  # type: ignore[method-assign]
        self.play_count = 0
        parts.unique_ids.next = lambda: f"{self.play_count:032X}"  # type: ignore[method-assign]
        for topic, filter_type in TOPICS.items():
            parts.topics.put(topic_config(topic, filter_type))
        sends = SendHandlers(parts.config, self.store, parts.pending, parts.address, parts.unique_ids, parts.sends)
        self.service = Sending("broker", self.handlers(sends))
        if takes:
            self.service.offer_frames_to(sends.plain_sends, sends.ask)
        self.passed: list[bytes] = []
        """Headers of what was not taken."""

    def make_parts(self) -> BrokerAssembly:
        return parts_on(self.store, self.files)

    def handlers(self, sends: SendHandlers) -> dict[int, Handler]:
        return sends.handlers()

    def open_queues(self) -> None:
        """By a send to each, which the service gets."""
        for topic in TOPICS:
            for queue_id in range(QUEUE_COUNT):
                self.play(frame(header_of(b=topic, e=queue_id), b"first"))
        self.passed.clear()

    def play(self, *streams: bytes, peer: StubConnection | None = None) -> list[Command]:
        """The answers to what comes in one round, by opaque."""
        peer = peer or StubConnection()
        self.play_count += 1

        def on_frame(peer: Any, codec: int, peeked: int, header: bytes, body: bytes) -> None:
            self.passed.append(header)
            self.service.handle_untrusted(peer, codec, peeked, header, body)

        cutter = core.FrameCutter(on_frame, peer, self.service.takers)
        for data in streams:
            cutter.feed_untrusted(data)
        self.parts.pending.end_round()
        answers = peer.answers
        peer.frames.clear()
        for answer in answers:
            answer.remark = (answer.remark or "").replace(str(self.directory), "")
        return sorted(answers, key=lambda answer: answer.opaque)

    def note(self, elapsed_us: int, message_count: int) -> None:
        self.put_count += message_count

    def counts(self) -> dict[str, Any]:
        flows = {
            topic: (flow.message_count, flow.request_count, flow.size_bytes)
            for topic, flow in self.parts.stats.puts.items()
        }
        return {"failed": self.parts.stats.put_failed, "put": self.put_count, **flows}

    def close(self) -> dict[str, bytes]:
        """Returns its files."""
        self.files.close()
        self.store.close()
        return {
            str(path.relative_to(self.directory)): path.read_bytes()
            for name in FILES_COMPARED
            for path in sorted((self.directory / name).rglob("*"))
            if path.is_file()
        }


Make = Callable[..., Broker]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Broker] = []

    def make_one(takes: bool = True, kind: Callable[..., Broker] = Broker, **options: Any) -> Broker:
        broker = kind(tmp_path / str(len(made)), takes=takes, **options)
        made.append(broker)
        broker.open_queues()
        return broker

    yield make_one
    for broker in made:
        broker.close()


PROPERTIES = "UNIQ_KEY\x017F00\x02KEYS\x01k é\x02TAGS\x01t\x02"
FIELDS = {"a": "group", "b": "TopicCapture", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
          "h": "0",           "i": PROPERTIES, "j": "0", "k": "false", "l": "16", "m": "false"}  # fmt: skip


def header_of(code: int = 310, opaque: int = 1, flag: int = 0, **fields: object) -> bytes:
    envelope = {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 453}
    return json.dumps({**envelope, "extFields": {**FIELDS, **fields}}, separators=(",", ":")).encode()


def batch_of(*properties: str) -> bytes:
    return encode_batch([BatchItem(0, b"body", text.encode()) for text in properties])


@functools.cache
def recorded() -> list[tuple[str, bytes]]:
    """The sends of other clients, by their sources."""
    found: list[tuple[str, bytes]] = []
    with lzma.open(FILE, "rt") as lines:
        exchanges = [json.loads(line) for line in lines]
    for line in exchanges:
        data = bytes.fromhex(line["hex"])
        meant = line.get("header") or {}
        if meant.get("code") in SEND_CODES and not meant.get("flag", 0) & 1:
            found.append((line["source"], data))
    return found


def test_what_published_clients_send_is_taken(make: Make) -> None:
    broker = make()
    left = []
    for source, data in recorded():
        broker.passed.clear()
        broker.play(data)
        if broker.passed and b"DELAY" not in data:
            left.append(source.rpartition("/")[0])
    assert left == ["rocketmq-client-go-v2/transaction"]


# --- the same as the service -----------------------------------------------------------------------------------------

VALUES = [
    "true", "false", "1", "0", "TRUE", "", "-1", "-0", "01", "2147483648", "9223372036854775808", "1.0", "é", "中",
    "\\", '"', "a\x01b\x02", "WAIT\x01false\x02", "WAIT\x01\x02", "WAIT\x01true\x02WAIT\x01false\x02", "DELAY\x013\x02",
    "UNIQ_KEY\x01" + 65 * "A" + "\x02", "UNIQ_KEY\x01é\x02", "TAGS\x01中\x02", "KEYS\x01a b\x02", "x\x02", "\x01x\x02",
    "\0", "\U0001f600", "TRAN_MSG\x01true\x02", "Tagged", "Unknown", "%RETRY%g", "3", "4", 0, 3, -1, 2147483648, 1.5,
    True, False, None, [], {},
]  # fmt: skip
BODIES = [
    b"", b"body", bytes(5000), batch_of(PROPERTIES, "", "TAGS\x01é"), batch_of("PRODUCER_SEQ\x01a\x02"),
    batch_of("a\0"), batch_of(PROPERTIES)[:-1], b"\0" * 22,
]  # fmt: skip


def odd_frame(chance: Random, headers: list[dict[str, Any]], opaque: int) -> bytes:
    """A send as clients do it, with changes."""
    header = json.loads(json.dumps(chance.choice(headers))) | {"opaque": opaque}
    fields = header["extFields"]
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        changed = chance.choice((header, fields, fields, fields))
        name = chance.choice([*changed, "code", "flag", "remark", "e", "f", "m", "i", "queueId", "batch", "x"])
        if chance.random() < 0.2:
            changed.pop(name, None)
        elif chance.random() < 0.4 and isinstance(changed.get(name), str):
            changed[name] += str(chance.choice(VALUES))
        else:
            changed[name] = chance.choice(VALUES)
    for changed in (header, fields):
        members = list(changed.items())
        if chance.random() < 0.3:
            chance.shuffle(members)
        changed.clear()
        changed.update(members)
    codec = chance.choice((0,) * 20 + (1,) * 10)
    if codec:
        data = bytearray(in_binary(header))
    else:
        separators = chance.choice(((",", ":"), (", ", ": "), (" ,\n", "\t:")))
        data = bytearray(json.dumps(header, ensure_ascii=chance.random() < 0.5, separators=separators).encode())
    if chance.random() < 0.1:
        data[chance.randrange(len(data))] = chance.randrange(256)
    if chance.random() < 0.05:
        codec = chance.randrange(3)
    return frame(bytes(data), chance.choice(BODIES), codec)


def in_binary(header: dict[str, Any]) -> bytes:
    """As the binary codec writes the header, with texts for all values. What is no number there becomes one."""
    code, opaque, flag = (
        value if isinstance(value := header.get(name), int) and -(1 << 31) <= value < 1 << 31 else 0
        for name in ("code", "opaque", "flag")
    )
    ext = header.get("extFields")
    ext = {name: str(value) for name, value in ext.items()} if isinstance(ext, dict) else {}
    return header_binary.encode(code & header_binary.CODE_MAX, "GO", 0, opaque, flag, header.get("remark") and "x", ext)


def assert_equal(
    make: Make, seed: int, rounds: int, change: Callable[[Broker, Random], None] = lambda broker, chance: None,
    make_frame: Callable[[Random, list[dict[str, Any]], int], bytes] = odd_frame, **options: Any,
) -> int:  # fmt: skip
    """Returns how many frames were taken. ``change`` is called before each round."""
    chance = Random(seed)
    headers = [json.loads(data[8 : 8 + int.from_bytes(data[5:8], "big")]) for _, data in recorded() if not data[4]]
    native, general = make(takes=True, **options), make(takes=False, **options)
    opaques = count(1)
    sent = 0
    peers = {(broker, host): StubConnection(host) for broker in (native, general) for host in ("127.0.0.1", "::1")}
    for _ in range(rounds):
        host = chance.choice(("127.0.0.1", "::1"))
        frames = [make_frame(chance, headers, next(opaques)) for _ in range(chance.choice((1, 3, 9)))]
        sent += len(frames)
        answers = []
        for broker in (native, general):
            change(broker, Random(seed + sent))
            peer = peers[broker, host]
            random.seed(sent)  # queues for negative queue ids
            for data in frames:
                try:
                    answers.append(broker.play(data, peer=peer))
                except Exception as error:  # what ends a connection
                    answers.append([type(error), str(error)])  # type: ignore[list-item]
        assert answers[: len(frames)] == answers[len(frames) :]
        assert native.counts() == general.counts()
    assert native.close() == general.close()
    assert len(general.passed) == sent
    return sent - len(native.passed)


def test_binary_headers_of_every_size_are_read_as_by_the_service(make: Make) -> None:
    """Cut short at each place, and with each of their sizes changed."""
    whole = in_binary(json.loads(header_of(opaque=1)))
    headers = [whole[:end] for end in range(len(whole) + 1)] + [whole + b"x"]
    headers += [whole[:at] + bytes((255 - whole[at],)) + whole[at + 1 :] for at in range(len(whole))]
    found = []
    for takes in (True, False):
        broker, seen = make(takes), list[Any]()
        for header in headers:
            try:
                seen.append(broker.play(frame(header, b"body", 1)))
            except ProtocolError as error:
                seen.append(str(error))
        found.append((seen, broker.counts(), broker.close()))
    assert found[0] == found[1]


def test_odd_frames_are_stored_counted_and_answered_as_by_the_service(make: Make) -> None:
    assert assert_equal(make, seed=1, rounds=80) > 80


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_many_more_of_them(make: Make, seed: int) -> None:
    assert assert_equal(make, seed, rounds=4000) > 4000


# --- the life of what was taken --------------------------------------------------------------------------------------


def pipelined(*opaques: int, **fields: object) -> bytes:
    return b"".join(frame(header_of(opaque=opaque, **fields), b"body") for opaque in opaques)


BATCH = frame(header_of(320, 9, m="true", i=""), batch_of("", PROPERTIES))
BINARY = frame(in_binary(json.loads(header_of(opaque=5))), b"body", 1)


@pytest.mark.parametrize("end", ["stored", "late", "lost", "write"])
@pytest.mark.parametrize("flush_mode", first_is_quick(FlushMode))
def test_however_a_round_ends_the_answers_are_those_of_the_service(make: Make, flush_mode: FlushMode, end: str) -> None:
    seen = []
    for takes in (True, False):
        broker, peer = make(takes, flush_mode=flush_mode), StubConnection()
        pending = broker.parts.pending
        if end == "write":
            broker.disk.fail.add("pwrite")
        answers = broker.play(
            pipelined(1, 2), BATCH, BINARY, pipelined(3, flag=2), pipelined(4, i=PROPERTIES + "WAIT\x01false\x02"),
            peer=peer,
        )  # fmt: skip
        told_at_once = [answer.opaque for answer in answers]
        assert told_at_once == ([4] if flush_mode is FlushMode.SYNC and end != "write" else [1, 2, 4, 5, 9])
        if end == "stored":
            broker.store.flush()
            pending.settle()
        elif end == "late":
            pending.expire(math.inf, 5, 5)
        elif end == "lost":
            pending.give_up("gone")
        assert len(broker.passed) == (0 if takes else 6)
        seen.append((answers, peer.answers, broker.counts()))
    assert seen[0] == seen[1]


def test_a_change_of_its_topic_is_seen_by_the_next_send(make: Make) -> None:
    broker = make()
    broker.play(pipelined(1))
    assert broker.passed == []
    broker.parts.topics.put(topic_config("TopicCapture", "MULTI_TAG"))
    broker.play(pipelined(2))
    assert len(broker.passed) == 1
    broker.parts.topics.delete("TopicCapture")
    (refused,) = broker.play(pipelined(3, d="0"))
    assert (refused.code, len(broker.passed)) == (ResponseCode.TOPIC_NOT_EXIST, 2)


@pytest.mark.parametrize("what", ["unknown", "full", "queue", "gate"])
def test_what_the_core_leaves_goes_to_the_service_unchanged(make: Make, what: str) -> None:
    broker = make()
    if what == "full":
        broker.store.flags.set(DISK_FULL, "full")
    elif what == "gate":
        broker.service.use_gate(GatePlace.FAULTS, Admits())
    header = header_of(**({"b": "Unknown"} if what == "unknown" else {"e": QUEUE_COUNT} if what == "queue" else {}))
    (answer,) = broker.play(frame(header, b"body"))
    assert broker.passed == [header]
    assert (answer.code == 0) == (what == "gate")


@pytest.mark.parametrize("takes", [True, False])
def test_after_a_refused_batch_nothing_waits_for_an_answer(make: Make, takes: bool) -> None:
    broker = make(takes, flush_mode=FlushMode.SYNC)
    pending, end_offset = broker.parts.pending, broker.store.written_offset
    broker.store.flush()
    pending.settle()
    (refused,) = broker.play(frame(header_of(320, m="true", i=""), batch_of(PROPERTIES)[:-1]))
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert pending.has_settled(end_offset)


class Admits:
    wants_ext = False

    def admit(self, request: object, ext: object, connection: object) -> None: ...


def test_an_answer_that_cannot_be_given_keeps_no_other_from_its_own(make: Make) -> None:
    class Broken(StubConnection):
        def put_out(self, data: bytes) -> None:
            raise ValueError

    broker, peer = make(), StubConnection()
    for each, opaque in ((Broken(), 1), (peer, 2)):
        core.FrameCutter(fail, each, broker.service.takers).feed_untrusted(pipelined(opaque))
    broker.parts.pending.end_round()
    assert [answer.opaque for answer in peer.answers] == [2]


def fail(*args: object) -> None:
    raise AssertionError("it was not taken")


def test_answers_of_a_connection_leave_together(make: Make) -> None:
    class Counting(StubConnection):
        sends = 0

        def put_out(self, data: bytes) -> None:
            self.sends += 1
            self.send(data)

    broker, peer = make(), Counting()
    answers = broker.play(pipelined(*range(100)), BATCH, peer=peer)
    assert (len(answers), peer.sends) == (101, 1)
