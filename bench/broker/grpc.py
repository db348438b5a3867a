"""Calls of gRPC, beside Apache's broker with its proxy in the same process: sends, receives, acknowledgements.

The load is ``grpc_load.c``: HTTP/2 as gRPC's C core writes it, whose first call of a connection fills the peer's header
table, while later ones name its entries and spell out what differs: the time and the call's id."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Broker, put_all
from bench.harness.rows import COUNTED_DIGITS, batch_of, send
from bench.harness.servers import FILTERS, standalone
from bench.harness.table import alone, settle
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqserver.doors.grpc.messages import CLASSES, SERVICE, value
from tests.interop.apache_proxy import ApacheWithProxy
from tests.interop.cluster import SETTINGS
from tests.support.grpc_client import GrpcClient

SENT, RECEIVED, GROUP = "grpc_sent", "grpc_received", "grpc_group"
CLIENT_ID = "bench@1@1@1"
RECEIVES_PER_S_MAX = 6000
"""There are messages for so many; more would find none, which is an error."""

RATE_RATIO, CPU_RATIO = 2.0, 1.0
WARM_UPS = 3
"""Runs of Apache's proxy before the first that counts; in its first seconds it compiles."""


@dataclass(frozen=True)
class GrpcRow:
    name: str
    call: str
    connections: int
    window: int
    request: Any


@dataclass(frozen=True)
class Side:
    broker: Broker
    grpc_port: int


def take(extent: Extent) -> list[Figure]:
    """The figures of each row: calls a second, and CPU for each."""
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-grpc-")))
        source = Path(__file__).parents[1] / "harness/grpc_load.c"
        subprocess.run(["gcc", "-O2", "-o", str(folder / "load"), str(source)], check=True)
        sides = [stack.enter_context(ours(folder))]
        if extent.with_apache:
            sides.append(stack.enter_context(apache(folder)))
        for side in sides:
            create(side.broker)
            settle(side.broker)
        if extent.with_apache:
            for row in rows() * WARM_UPS:
                measure(folder, sides[-1], row, extent.seconds)
        for number in range(extent.rounds):
            for row in rows():
                for side in sides if number % 2 == 0 else reversed(sides):
                    with alone(side.broker, [each.broker for each in sides]):
                        for name, found in measure(folder, side, row, extent.seconds):
                            runs.setdefault((name, side.broker.name), []).append(found)
    return list(figures(runs))


def figures(runs: dict[tuple[str, str], list[dict[str, float]]]) -> Iterator[Figure]:
    for name, of_ours in ((name, found) for (name, broker), found in runs.items() if broker == "ours"):
        beside = runs.get((name, "apache"), [])
        errors = sum(int(run["errors"]) for run in of_ours + beside)

        def of(key: str, found: list[dict[str, float]]) -> float | None:
            return statistics.median(run[key] for run in found) if found else None

        for unit, key, bars in (
            ("calls/s", "calls_per_s", {"ratio_at_least": RATE_RATIO}),
            ("us CPU", "cpu_us", {"ratio_at_most": CPU_RATIO}),
            ("us p50", "p50_us", {}),
            ("us p99", "p99_us", {}),
        ):
            yield Figure(name, unit, of(key, of_ours) or 0.0, of(key, beside), "Apache's proxy", errors=errors, **bars)


def rows() -> list[GrpcRow]:
    one = sent(128)
    receive = CLASSES["ReceiveMessageRequest"](
        group={"name": GROUP}, message_queue={"topic": {"name": RECEIVED}, "broker": {"name": "broker-a"}},
        batch_size=32, filter_expression={"type": value("FilterType", "TAG"), "expression": "*"},
        invisible_duration={"seconds": 3600}, long_polling_timeout={"seconds": 5},
    )  # fmt: skip
    return [
        GrpcRow("send 1 x 1, 128 B", "SendMessage", 1, 1, one),
        GrpcRow("send 64 x 1, 128 B", "SendMessage", 64, 1, one),
        GrpcRow("send 4 x 16, 128 B", "SendMessage", 4, 16, one),
        GrpcRow("send 4 x 16, 1 KiB", "SendMessage", 4, 16, sent(1024)),
        GrpcRow("receive 32", "ReceiveMessage", 8, 1, receive),
    ]


def sent(size_bytes: int) -> Any:
    message = CLASSES["Message"](topic={"name": SENT}, body=b"x" * size_bytes, user_properties={"region": "eu"})
    system = message.system_properties
    system.tag, system.message_id = "TagA", f"01000000000000000000{COUNTED_DIGITS}"
    system.keys.append(f"order-{COUNTED_DIGITS}")
    system.body_encoding, system.message_type = value("Encoding", "IDENTITY"), value("MessageType", "NORMAL")
    system.born_timestamp.seconds, system.born_host = 1_700_000_000, "bench"
    return CLASSES["SendMessageRequest"](messages=[message])


def measure(folder: Path, side: Side, row: GrpcRow, seconds: float) -> Iterator[tuple[str, dict[str, float]]]:
    """Name and figures; two of each for receives, whose messages are then acknowledged. RuntimeError if the load
    cannot go on."""
    files = []

    def file(data: bytes) -> None:
        files.append(folder / f"part-{len(files)}")
        files[-1].write_bytes(data)

    names = [f"{row.name}, {row.connections} x {row.window}" if "x" not in row.name else row.name]
    for block in header_blocks(row.call):
        file(block)
    file(row.request.SerializeToString())
    if row.call == "ReceiveMessage":
        fill(side.broker, seconds)
        names.append(f"acknowledge, {row.connections} x 16")
        for block in header_blocks("AckMessage"):
            file(block)
        file(CLASSES["AckMessageRequest"](group={"name": GROUP}, topic={"name": RECEIVED}).SerializeToString())
    with told(side):
        command = [folder / "load", side.grpc_port, side.broker.pid, row.connections, row.window, seconds, *files]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{side.broker.name}, {row.name}: {done.stderr.strip()}")
    return zip(names, map(json.loads, done.stdout.splitlines()), strict=True)


def header_blocks(call: str) -> tuple[bytes, bytes]:
    """The header blocks of a connection's first call, and of all later ones (RFC 7541, nothing of it Huffman-coded)."""
    named = {
        ":path": f"/{SERVICE}/{call}", ":authority": "127.0.0.1:8081", "te": "trailers",
        "content-type": "application/grpc", "user-agent": "grpc-c++/1.60.0 grpc-c/37.0.0 (linux; chttp2)",
        "grpc-accept-encoding": "identity, deflate, gzip", "grpc-timeout": "30S", "x-mq-client-id": CLIENT_ID,
        "x-mq-language": "CPP", "x-mq-client-version": "5.1.2", "x-mq-protocol": "v2", "x-mq-namespace": "",
        "authorization": f"MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature={'5d' * 20}",
        "x-mq-date-time": f"20261128T01{COUNTED_DIGITS}Z", "x-mq-request-id": f"5a8e0c12-0000-0000-00{COUNTED_DIGITS}",
    }  # fmt: skip
    first = later = b"\x83\x86"  # :method POST, :scheme http
    for at, (name, said) in enumerate(named.items()):
        index = 62 + len(named) - 1 - at
        first += b"\x40" + _text(name) + _text(said)
        later += b"\x0f" + bytes([index - 15]) + _text(said) if COUNTED_DIGITS in said else bytes([0x80 | index])
    return first, later


def _text(text: str) -> bytes:
    size = len(text)
    return (bytes([size]) if size < 127 else bytes([127, size - 127])) + text.encode()


@contextmanager
def told(side: Side) -> Iterator[None]:
    """Says the settings of a producer and consumer, and keeps the stream open."""
    settings = CLASSES["Settings"](client_type=value("ClientType", "SIMPLE_CONSUMER"))
    settings.subscription.group.name = GROUP
    entry = settings.subscription.subscriptions.add()
    entry.topic.name, entry.expression.expression, entry.expression.type = RECEIVED, "*", value("FilterType", "TAG")
    with GrpcClient(f"127.0.0.1:{side.grpc_port}", CLIENT_ID) as client:
        stream = client.open("Telemetry", deadline="")
        stream.send(CLASSES["TelemetryCommand"](settings=settings))
        next(stream)
        yield


def create(broker: Broker) -> None:
    with AdminClient(broker.namesrv_addr) as admin:
        for topic in (SENT, RECEIVED):
            config = TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)
            admin.create_topic(broker.address, config)
        admin.create_group(broker.address, SubscriptionGroupConfig(group_name=GROUP))


def fill(broker: Broker, seconds: float) -> None:
    frames = [send(RECEIVED, batch_of(32, 128), batch=True, queue_id=queue_id) for queue_id in range(4)]
    put_all(broker, frames * round(RECEIVES_PER_S_MAX * (seconds + 0.5) / 4))


@contextmanager
def ours(folder: Path) -> Iterator[Side]:
    with standalone(folder / "ours", settings=FILTERS) as broker:
        yield Side(broker, broker.port)


@contextmanager
def apache(folder: Path) -> Iterator[Side]:
    settings = {key: text for key, text in SETTINGS.items() if key != "mappedFileSizeTimerLog"}
    server = ApacheWithProxy(folder / "apache", settings)
    with server:
        broker = Broker("apache", server.ports[1], server.broker_pid, server.namesrv_addr)
        yield Side(broker, int(server.grpc_addr.rpartition(":")[2]))
