"""For tests that break a running replay: a broker behind a proxy that can lose acknowledgements and counts sends, dead
letters to redrive, and a count of the messages at the target."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rmqclient.admin import AdminClient
from rmqclient.blocking import BlockingClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import RefusedError
from rmqproto.wire.command import decode_frame_untrusted
from rmqreplay.ledger.ledger import Fence
from rmqreplay.ledger.letters import replay_id
from rmqreplay.plans.plan import Plan, Source, TargetRule, Transform, save_plan
from rmqreplay.sending.delivery import Batch, Outgoing
from rmqreplay.sending.sender import BatchSender, round_robin
from rmqreplay.sending.target import replay_ids_since
from rmqreplay.source.offset_ranges import OffsetRange
from tests.support.processes import free_ports
from tests.support.servers import standalone, topic_config

SENDS = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
SEED_BATCH = 100


@dataclass(frozen=True, slots=True)
class Send:
    """A send that has gone to the broker. ``count``: the topic's sends so far, including this one. ``client``: the
    proxy's end of the sender's connection."""

    topic: str
    count: int
    client: socket.socket


OnSend = Callable[[Send], None]


class Proxy:
    """Forwards whole frames between clients and one broker. ``drop_every`` n drops the answer to every n-th send, which
    the broker has stored. ``delay_s`` delays every send, so that there is time for a fault. ``on_send`` is called after
    each send to the broker; the connection's next send waits until it returns."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.upstream = ("127.0.0.1", 0)
        self.drop_every = 0
        self.delay_s = 0.0
        self.send_counts: Counter[str] = Counter()
        self.dropped_count = 0
        self.on_send: OnSend = lambda send: None
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def calm(self) -> None:
        """Switches faults off and resets the counters."""
        self.drop_every, self.delay_s, self.dropped_count = 0, 0.0, 0
        self.send_counts.clear()
        self.on_send = lambda send: None

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        to_drop: set[int] = set()
        with contextlib.suppress(OSError), client, socket.create_connection(self.upstream) as broker:
            back = threading.Thread(target=self._answers, args=(broker, client, to_drop), daemon=True)
            back.start()
            while frame := _read_frame(client):
                command = decode_frame_untrusted(frame)
                if command.code in SENDS:
                    time.sleep(self.delay_s)
                    topic = command.ext["b"]  # version 2 of the send header has short names
                    with self._lock:
                        self.send_counts[topic] += 1
                        count = self.send_counts[topic]
                        if self.drop_every and count % self.drop_every == 0:
                            to_drop.add(command.opaque)
                broker.sendall(frame)
                if command.code in SENDS:
                    self.on_send(Send(topic, count, client))
            broker.shutdown(socket.SHUT_WR)
            back.join()

    def _answers(self, broker: socket.socket, client: socket.socket, to_drop: set[int]) -> None:
        with contextlib.suppress(OSError):
            while frame := _read_frame(broker):
                if decode_frame_untrusted(frame).opaque in to_drop:
                    self.dropped_count += 1
                else:
                    client.sendall(frame)
            client.shutdown(socket.SHUT_RDWR)


def _read_frame(peer: socket.socket) -> bytes:
    """Empty at the end, also of a client that was killed amid a frame."""
    head = _read(peer, 4)
    rest = _read(peer, struct.unpack(">I", head)[0]) if head else b""
    return head + rest if rest else b""


def _read(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            return b""
        data += more
    return data


@dataclass
class Lab:
    """A broker, its proxy, and jobs on fresh groups and topics."""

    directory: Path
    proxy: Proxy = field(default_factory=Proxy)
    number: int = 0

    def __enter__(self) -> Lab:
        _, port = free_ports()
        self.server = standalone(
            self.directory / "server", "--port", str(port), "--advertise", f"127.0.0.1:{self.proxy.port}"
        )
        self.proxy.upstream = ("127.0.0.1", port)
        self.name_server = self.server.namesrv_addr
        self.broker_addr = f"127.0.0.1:{self.proxy.port}"
        self.admin = AdminClient(self.name_server, timeout_s=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()
        self.server.stop()
        self.proxy.close()

    def job(self, count: int, *, wave_count: int = 1) -> Plan:
        """A plan over ``count`` new dead letters, saved in a ledger directory of its own."""
        self.number += 1
        group, target = f"group-{self.number}", f"target-{self.number}"
        dlq = f"%DLQ%{group}"
        for topic in (dlq, target):
            self.admin.create_topic(self.broker_addr, topic_config(topic, 2))
        queues = [MessageQueue(dlq, "broker-a", number) for number in range(2)]
        for topic in (dlq, target):
            wait_for_route(self.admin, topic)
        self._seed(dlq, queues, count)
        plan = Plan(
            job=f"job-{self.number}", created_ms=time.time_ns() // 10**6, source=Source(name_server=self.name_server),
            ranges=[OffsetRange(queue, *self._bounds(queue)) for queue in queues],
            target=TargetRule(kind="topic", name=target, topics=[target]), transform=Transform(), wave_count=wave_count,
        )  # fmt: skip
        assert plan.offset_count == count
        os.makedirs(self.ledger(plan), exist_ok=True)
        save_plan(self.ledger(plan), plan)
        return plan

    def ledger(self, plan: Plan) -> str:
        return str(self.directory / "ledgers" / plan.job)

    def counts(self, plan: Plan) -> tuple[int, int]:
        """The numbers of missing and doubled messages of the plan at the target."""
        fences = [Fence(plan.target.name, "broker-a", number, 0) for number in range(2)]
        with BlockingClient() as client:
            found = Counter(replay_ids_since(fences, {"broker-a": self.broker_addr}, plan.replay_job, client))
        wanted = {
            replay_id(plan.replay_job, each.queue, offset)
            for each in plan.ranges
            for offset in range(each.start, each.end)
        }
        assert set(found) <= wanted
        return len(wanted - set(found)), sum(found.values()) - len(found)

    def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        return 0, self.admin.max_offset(self.broker_addr, queue.topic, queue.queue_id)

    def _seed(self, dlq: str, queues: list[MessageQueue], count: int) -> None:
        addresses = {"broker-a": self.broker_addr}
        sender = BatchSender(addresses, round_robin(queues), producer_group="seed", send_timeout_s=60)
        text = "RETRY_TOPIC\x01origin\x02KEYS\x01k\x02"
        for start in range(0, count, SEED_BATCH):
            batch = [
                Outgoing("", queues[0], number, dlq, b"x" * 50, text)
                for number in range(start, min(count, start + SEED_BATCH))
            ]
            assert sender.put(Batch(batch), float("inf"), lambda: float("inf"))
            assert [each.answer.value for each in sender.outcomes()] == ["stored"]
        sender.close()


def wait_for_route(admin: AdminClient, topic: str) -> None:
    """Waits until the name server knows a new topic."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            admin.topic_route(topic)
            return
        except RefusedError:
            threading.Event().wait(0.05)
    raise AssertionError(topic)


def kill_once(find: Callable[[Send], list[int]], *, at_send: int, sig: signal.Signals = signal.SIGKILL) -> OnSend:
    """For ``Proxy.on_send``: at the ``at_send``-th send of a topic, signals once the processes that ``find``
    returns."""
    done = threading.Event()

    def on_send(send: Send) -> None:
        if send.count >= at_send and not done.is_set():
            done.set()
            for pid in find(send):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sig)

    return on_send
