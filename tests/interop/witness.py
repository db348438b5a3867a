"""A real Java client in a process of its own, as Python calls: each verb of ``java/Witness.java`` is one method here.

A call ends when the witness says so, a consumer is watched until a condition holds, and every wait has a deadline.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from .apache import java_command
from .events import (
    Assigned,
    Done,
    Event,
    Failed,
    Found,
    Member,
    Message,
    Outgoing,
    Progress,
    Pulled,
    Queue,
    Refused,
    Sent,
    Started,
    decoder,
)
from .processes import DIE_WITH_PARENT

DEADLINE_S = 60  # for one call, and for whatever a consumer is watched for
LEAVE_DEADLINE_S = 60
POLL_INTERVAL_S = 0.05
REBALANCE_INTERVAL_MS = 1000  # the client's default is 20 s
SHOWN_EVENTS = 5

T = TypeVar("T")


class CallFailed(Exception):
    """The Java client threw; ``code`` is the broker's response code or -1."""

    def __init__(self, verb: str, failed: Failed):
        super().__init__(f"{verb}: {failed.error}")
        self.code = failed.code


class Call:
    """One running verb and its events so far. Fed by the reader thread, waited for by the test."""

    def __init__(self, id: int, verb: str, changed: threading.Condition):
        self.id, self.verb = id, verb
        self.events: list[Event] = []
        self._changed = changed  # one for all calls: a condition may look at several of them

    def feed(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def until(self, happened: Callable[[Sequence[Event]], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until ``happened(events)``. CallFailed where the call failed first, AssertionError at the deadline."""
        deadline = time.monotonic() + deadline_s
        with self._changed:
            while not happened(self.events):
                if self.events and isinstance(self.events[-1], Failed):
                    raise CallFailed(self.verb, self.events[-1])
                left_s = deadline - time.monotonic()
                if left_s <= 0 or (self.events and isinstance(self.events[-1], Done)):
                    raise AssertionError(
                        f"{self.verb}: no {what} after {deadline_s:g} s; "
                        f"{len(self.events)} events, the last: {self.events[-SHOWN_EVENTS:]}"
                    )
                self._changed.wait(left_s)

    def result(self, deadline_s: float = DEADLINE_S) -> list[Event]:
        """The call's events once it is done."""
        self.until(lambda events: bool(events) and isinstance(events[-1], Done), "end", deadline_s)
        return self.events[:-1]


class Consumer:
    """A member of a group inside the witness. ``stop`` it, or it stays until the witness ends."""

    def __init__(self, witness: Witness, call: Call):
        self._witness, self._call = witness, call
        self._call.until(lambda events: bool(of_type(events, Started)), "start")

    @property
    def client_id(self) -> str:
        return of_type(self._call.events, Started)[0].client_id

    @property
    def messages(self) -> list[Message]:
        """Every delivery so far, in the order of the listener's calls."""
        return of_type(self._call.events, Message)

    def until(self, happened: Callable[[list[Message]], bool], what: str) -> list[Message]:
        """Wait until the deliveries so far satisfy ``happened``, and return them."""
        self._call.until(lambda events: happened(of_type(events, Message)), what)
        return self.messages

    def until_count(self, count: int) -> list[Message]:
        """Wait for that many deliveries."""
        return self.until(lambda messages: len(messages) >= count, f"{count} messages")

    def stop(self) -> list[Message]:
        """Leave the group and return every delivery there was."""
        self._witness.call("stop", call=self._call.id).result(LEAVE_DEADLINE_S)
        self._call.result()
        return self.messages


class Witness:
    """The Java client against one nameserver. ``serialization``: JSON or ROCKETMQ, the form of the request headers."""

    def __init__(
        self,
        namesrv_addr: str,
        home: Path,
        serialization: str = "JSON",
        rebalance_interval_ms: int = REBALANCE_INTERVAL_MS,
    ):
        """With a long ``rebalance_interval_ms`` its consumers share queues anew only when the broker notifies them."""
        home.mkdir(parents=True, exist_ok=True)
        self._calls: dict[int, Call] = {}
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._log = home / "witness.err"
        options = (
            f"-Drocketmq.serialize.type={serialization}",
            f"-Drocketmq.client.rebalance.waitInterval={rebalance_interval_ms}",
            "-Drocketmq.client.rebalance.minInterval=100",  # 1 s by default, by which every consumer starts late
        )
        command = java_command(home, "Witness", namesrv_addr, options=options)
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", DIE_WITH_PARENT, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._reader = threading.Thread(target=self._read, name="witness reader", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End of its standard input: its consumers leave, and it ends. Killed where that takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(LEAVE_DEADLINE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()

    def kill(self) -> None:
        """SIGKILL: a client that vanishes. ``close`` afterwards is still needed."""
        self._process.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = decoder.decode(line)
            self._calls[event.id].feed(event)
        for call in list(self._calls.values()):
            if not call.events or not isinstance(call.events[-1], Done | Failed):
                call.feed(Failed(id=call.id, code=-1, error=f"the witness ended; its log: {self._log}"))

    def call(self, verb: str, **args: Any) -> Call:
        """Start a verb; arguments that are None are left out."""
        call = Call(next(self._ids), verb, self._changed)
        self._calls[call.id] = call
        line = {"id": call.id, "verb": verb, **{name: value for name, value in args.items() if value is not None}}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        return call

    # Topics and groups

    def create_topic(self, topic: str, *, queues: int = 4, perm: int = 6, order: bool = False) -> str:
        self.call("create_topic", topic=topic, queues=queues, perm=perm, order=order).result()
        return topic

    def create_group(self, group: str, *, retry_max_times: int = 16, orderly: bool = False) -> str:
        self.call("create_group", group=group, retryMaxTimes=retry_max_times, orderly=orderly).result()
        return group

    def progress(self, group: str, topic: str) -> dict[int, Progress]:
        return {p.queue_id: p for p in of_type(self.call("progress", group=group, topic=topic).result(), Progress)}

    def members(self, group: str) -> set[str]:
        """Client ids of the connected consumers; CallFailed with code 206 where there are none."""
        return {m.client_id for m in of_type(self.call("members", group=group).result(), Member)}

    def assigned(self, group: str, topic: str, client_id: str) -> set[int]:
        """Queue ids of the topic that the member says it has: its running info, asked for through the broker."""
        events = self.call("assigned", group=group, topic=topic, clientId=client_id).result()
        return {a.queue_id for a in of_type(events, Assigned)}

    # Sending

    def try_send(self, topic: str, messages: Iterable[Outgoing], *, mode: str = "sync") -> list[Sent | Refused]:
        events = self.call("send", topic=topic, mode=mode, messages=[m.as_json() for m in messages]).result()
        return sorted((e for e in events if isinstance(e, Sent | Refused)), key=lambda e: e.index)

    def send(self, topic: str, messages: Iterable[Outgoing], *, mode: str = "sync") -> list[Sent]:
        """The answers in the order of the messages; nothing for ``oneway``. A refusal is an AssertionError."""
        answers = self.try_send(topic, messages, mode=mode)
        assert not of_type(answers, Refused), of_type(answers, Refused)[0]
        return of_type(answers, Sent)

    def send_batch(self, topic: str, messages: Iterable[Outgoing]) -> Sent:
        return of_type(self.call("batch", topic=topic, messages=[m.as_json() for m in messages]).result(), Sent)[0]

    # Consuming

    def consume(
        self,
        group: str,
        topic: str,
        *,
        expression: str | None = None,
        sql: str | None = None,
        orderly: bool = False,
        broadcasting: bool = False,
        instance: str | None = None,
        fail_tag: str | None = None,
        fail_below: int | None = None,
        max_reconsume_times: int | None = None,
        retry_delay_level: int | None = None,
    ) -> Consumer:
        """Join a group. Messages tagged ``fail_tag`` fail while their reconsume times are below ``fail_below``."""
        call = self.call(
            "consume", group=group, topic=topic, expression=expression, sql=sql, orderly=orderly,
            broadcasting=broadcasting, instance=instance, failTag=fail_tag, failBelow=fail_below,
            maxReconsumeTimes=max_reconsume_times, retryDelayLevel=retry_delay_level,
        )  # fmt: skip
        return Consumer(self, call)

    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max: int = 32,
        expression: str = "*",
        block: bool = False,
        group: str | None = None,
        commit: bool = False,
    ) -> tuple[Pulled, list[Message]]:
        """One pull by a pull consumer, which then stays a member of ``group`` for as long as the witness runs."""
        events = self.call(
            "pull",
            topic=topic,
            queueId=queue_id,
            queueOffset=queue_offset,
            max=max,
            expression=expression,
            block=block,
            group=group,
            commit=commit,
        ).result()
        return of_type(events, Pulled)[0], of_type(events, Message)

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Commit one queue's offset for a group that is offline."""
        self.call("commit", group=group, topic=topic, queueId=queue_id, queueOffset=queue_offset).result()

    # Reading

    def read_all(self, topic: str) -> list[Message]:
        """Every message of the topic, in the order of queues and offsets."""
        return of_type(self.call("read_all", topic=topic).result(), Message)

    def until_stored(self, topic: str, count: int) -> list[Message]:
        """``read_all`` until there are ``count`` messages, in a topic that may not exist yet."""
        return eventually(lambda: self.read_all(topic), count)

    def query_key(
        self, topic: str, key: str, *, max: int = 32, begin_ms: int | None = None, end_ms: int | None = None
    ) -> list[Message]:
        """CallFailed with code 208 where there is none."""
        return of_type(
            self.call("query_key", topic=topic, key=key, max=max, begin=begin_ms, end=end_ms).result(), Message
        )

    def query_unique_id(self, topic: str, msg_id: str) -> list[Message]:
        return of_type(self.call("query_unique_id", topic=topic, msgId=msg_id).result(), Message)

    def view(self, topic: str, offset_msg_id: str) -> Message:
        return of_type(self.call("view", topic=topic, msgId=offset_msg_id).result(), Message)[0]

    def offsets(self, topic: str) -> dict[int, Queue]:
        return {q.queue_id: q for q in of_type(self.call("offsets", topic=topic).result(), Queue)}

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        return of_type(
            self.call("search_offset", topic=topic, queueId=queue_id, timestamp=timestamp_ms).result(), Found
        )[0].queue_offset


def of_type(events: Iterable[object], kind: type[T]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


def eventually(read: Callable[[], list[T]], count: int) -> list[T]:
    """What ``read`` returns once that is ``count`` long; a CallFailed before the deadline counts as nothing. For what
    happens behind an answer: the index, a oneway send, a dead letter."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            found = read()
        except CallFailed:
            if time.monotonic() > deadline:
                raise
            found = []
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, f"{len(found)} of {count} after {DEADLINE_S} s: {found[-SHOWN_EVENTS:]}"
        time.sleep(POLL_INTERVAL_S)
