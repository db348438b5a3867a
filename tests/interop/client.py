"""A real client in a process of its own, driven by Python calls: JSON lines go to it and come from it
(``java/Witness.java``).

A call ends when the program says so, a consumer is watched until a condition holds, and every wait has a deadline.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from rmqadmin.testing.server_process import DIE_WITH_PARENT

from .events import Done, Event, Failed, Message, Outgoing, Refused, Sent, Started, decoder

# The deadline of one call, and of each wait for a consumer. A Java consumer that has missed a new topic's route asks
# again after 30 s, and rebalances after 20 s more.
DEADLINE_S = 150
LEAVE_DEADLINE_S = 60
POLL_INTERVAL_S = 0.05
SHOWN_EVENTS = 5

T = TypeVar("T")


class CallFailed(Exception):
    """The client threw; ``code`` is the broker's response code or -1."""

    def __init__(self, verb: str, failed: Failed):
        super().__init__(f"{verb}: {failed.error}")
        self.code = failed.code


class Call:
    """One running verb and its events so far. The reader thread adds them, the test waits for them."""

    def __init__(self, id: int, verb: str, changed: threading.Condition):
        self.id, self.verb = id, verb
        self.events: list[Event] = []
        self.ended: Done | Failed | None = None
        """How the call ended. Deliveries may still come behind it: Go's consumer leaves while its listeners run."""
        self.on_message: Callable[[Message], None] | None = None
        """Gets each delivery instead of the call, which then keeps none."""
        self._changed = changed  # one for all calls, since a condition may look at several

    def feed(self, event: Event) -> None:
        if self.on_message is not None and isinstance(event, Message):
            self.on_message(event)
            return
        with self._changed:
            if isinstance(event, Done | Failed):
                self.ended = event
            else:
                self.events.append(event)
            self._changed.notify_all()

    def until(self, happened: Callable[[Sequence[Event]], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Waits until ``happened(events)``. CallFailed if the call failed first, AssertionError at the deadline."""
        self._until(lambda: happened(self.events), what, deadline_s)

    def _until(self, happened: Callable[[], bool], what: str, deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        with self._changed:
            while not happened():
                if isinstance(self.ended, Failed):
                    raise CallFailed(self.verb, self.ended)
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self.ended is not None:
                    raise AssertionError(
                        f"{self.verb}: no {what} after {deadline_s:g} s; "
                        f"{len(self.events)} events, the last: {self.events[-SHOWN_EVENTS:]}"
                    )
                self._changed.wait(left_s)

    def result(self, deadline_s: float = DEADLINE_S) -> list[Event]:
        """The call's events once it is done."""
        self._until(lambda: isinstance(self.ended, Done), "end", deadline_s)
        return self.events


class Consumer:
    """A member of a group inside the client program. It stays until ``stop`` or until the program ends."""

    def __init__(self, client: Client, call: Call):
        self._client, self._call = client, call
        self._call.until(lambda events: bool(of_type(events, Started)), "start")

    @property
    def client_id(self) -> str:
        return of_type(self._call.events, Started)[0].client_id

    @property
    def messages(self) -> list[Message]:
        """Every delivery so far, in the order of the listener's calls."""
        return of_type(self._call.events, Message)

    def until(self, happened: Callable[[list[Message]], bool], what: str) -> list[Message]:
        """Waits until the deliveries so far satisfy ``happened``, and returns them."""
        self._call.until(lambda events: happened(of_type(events, Message)), what)
        return self.messages

    def until_count(self, count: int) -> list[Message]:
        """Waits for that many deliveries."""
        return self.until(lambda messages: len(messages) >= count, f"{count} messages")

    def stop(self) -> list[Message]:
        """Leaves the group and returns every delivery."""
        self._client.call("stop", call=self._call.id).result(LEAVE_DEADLINE_S)
        self._call.result()
        return self.messages


class Client:
    """A program that speaks JSON lines, and the verbs that all such programs have. Its files go under ``home``."""

    def __init__(self, command: Sequence[str], home: Path):
        home.mkdir(parents=True, exist_ok=True)
        self._calls: dict[int, Call] = {}
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._log = home / "witness.err"
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", DIE_WITH_PARENT, *command],
                env={**os.environ, "HOME": str(home)},
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
        """Ends its standard input: its consumers leave, and it exits. A program that takes too long is killed."""
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
        """Sends SIGKILL: the client vanishes. ``close`` is still needed afterwards."""
        self._process.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = decoder.decode(line)
            self._calls[event.id].feed(event)
        for call in list(self._calls.values()):
            if call.ended is None:
                call.feed(Failed(id=call.id, code=-1, error=f"the witness ended; its log: {self._log}"))

    def call(self, verb: str, *, on_message: Callable[[Message], None] | None = None, **args: Any) -> Call:
        """Starts a verb; arguments that are None are left out."""
        call = Call(next(self._ids), verb, self._changed)
        call.on_message = on_message
        self._calls[call.id] = call
        line = {"id": call.id, "verb": verb, **{name: value for name, value in args.items() if value is not None}}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        return call

    # Sending

    def try_send(self, topic: str, messages: Iterable[Outgoing], *, mode: str = "sync") -> list[Sent | Refused]:
        events = self.call("send", topic=topic, mode=mode, messages=[m.as_json() for m in messages]).result()
        return sorted((e for e in events if isinstance(e, Sent | Refused)), key=lambda e: e.index)

    def send(self, topic: str, messages: Iterable[Outgoing], *, mode: str = "sync") -> list[Sent]:
        """The answers in the order of the messages; none for ``oneway``. AssertionError if a message is refused."""
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
        pop_batch: int | None = None,
        on_message: Callable[[Message], None] | None = None,
    ) -> Consumer:
        """Joins a group. Messages tagged ``fail_tag`` fail while their reconsume times are below ``fail_below``. With
        ``pop_batch`` a Java member of a group in mode POP pops that many messages at once. ``on_message`` gets each
        delivery in the reader's thread, and the consumer then keeps none."""
        call = self.call(
            "consume", group=group, topic=topic, expression=expression, sql=sql, orderly=orderly,
            broadcasting=broadcasting, instance=instance, failTag=fail_tag, failBelow=fail_below,
            maxReconsumeTimes=max_reconsume_times, retryDelayLevel=retry_delay_level, popBatch=pop_batch,
            on_message=on_message,
        )  # fmt: skip
        return Consumer(self, call)


def of_type(events: Iterable[object], kind: type[T]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


def eventually(read: Callable[[], list[T]], count: int) -> list[T]:
    """Waits until ``read`` returns ``count`` items, and returns them. A CallFailed before the deadline is ignored. For
    effects that follow an answer: the index, a oneway send, a dead letter."""
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
