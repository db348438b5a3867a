"""Sends the messages of a file, and knows at every moment what was sent.

All messages of one queue go to one queue, in their order: to the queue of the same broker and number if it exists. So
no queue has more than one pending message, and consecutive messages for different queues are sent at once. An import
can continue however it ended: messages sent after the last save of its progress are found in the target queues by their
unique keys, and are not sent again.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.files.exported_message import ExportedMessage, as_message, queues_for
from rmqadmin.core.messages.importing import progress_file
from rmqadmin.core.messages.importing.progress_file import ImportProgress, QueueEnd, note_finished
from rmqadmin.core.messages.importing.send_lanes import (
    NO_TOPIC,
    REFUSED_SHOWN_MAX,
    Lanes,
    Load,
    QueuesByTopic,
    RefusedRow,
    refused_row,
    target_of,
)
from rmqadmin.core.messages.queue_reading import QueuePlace, pulls
from rmqclient.message import SendResult, SendStatus
from rmqclient.sending import BUSY_CODES, NEVER_CODES, SendRequests
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError, RefusedError, RequestTimeoutError, RocketMQError, UsageError
from rmqproto.message import properties as props
from rmqproto.wire.command import Command

IMPORT_GROUP = "TOOLS_PRODUCER"
SAVE_INTERVAL_S = 1.0
SETTLE_S = 4.0
"""A request that is no longer waited for is stored within this time, or never: no broker lets a request wait longer."""
BUSY_TRIES_MAX = 6
BUSY_PAUSE_S = 0.2
"""The pause before the second try; it doubles before each further one."""
ROUND_COUNT_MAX = 256
ROUND_SIZE_MAX_BYTES = 4 << 20
"""The most that is held in memory at once. These messages are sent at the same time if each goes to another queue."""


class TooManyRefusedError(RocketMQError):
    """So many messages were refused that the rest would probably be refused, too."""


class Importer:
    """One run. ``progress`` is at its beginning, or where an earlier run stopped. ``rate``: the most messages a second.
    ``on_done`` is called for every message."""

    def __init__(
        self,
        admin: AdminClient,
        queues: QueuesByTopic,
        progress: ImportProgress,
        path: Path,
        lanes: Lanes,
        *,
        rate: float | None = None,
        on_done: Callable[[int], None] = lambda count: None,
    ):
        self.progress = progress
        self.weakly_stored_count = 0
        self._admin = admin
        self._queues = queues
        self._addrs = {queue: addr for found in queues.values() for queue, addr in found}
        self._path = path
        self._lanes = lanes
        self._has_sent = False
        self._rate = rate
        self._on_done = on_done
        self._ends = progress.ends_by_queue()
        self._requests: dict[MessageQueue, SendRequests] = {}
        self._present: Counter[str] = Counter()
        self._last_offsets: dict[MessageQueue, int] = {}
        self._saved_at_s = time.monotonic()

    def begin(self) -> None:
        """Saves where the target queues end, before anything is sent."""
        for queue, addr in self._addrs.items():
            self._ends[queue] = self._admin.max_offset(addr, queue.topic, queue.queue_id)
        self.save()

    def go_on(self) -> None:
        """Finds out what an earlier run sent after it last saved its progress. UsageError if the target cannot be the
        one that it sent to."""
        waited_ms = time.time_ns() // 1_000_000 - self.progress.updated_ms
        sleep_until(time.monotonic() + SETTLE_S - waited_ms / 1000)
        for queue, addr in self._addrs.items():
            end = self._admin.max_offset(addr, queue.topic, queue.queue_id)
            begin = self._ends.setdefault(queue, end)
            if end < begin:
                raise UsageError(
                    f"{queue.topic} ends before what the import has sent there: it was made anew",
                    hint="--restart sends everything to it.",
                )
            for pulled in pulls(self._admin, QueuePlace(queue, addr, begin, end), is_exact=True):
                self._present.update(message.properties.get(props.UNIQUE_KEY, "") for message in pulled.messages)

    def run(self, messages: Iterable[ExportedMessage]) -> None:
        """Sends all messages that follow the progress. However it ends, the progress is saved. RefusedError if the
        broker refuses us altogether; ConnectError or RequestTimeoutError if it cannot be reached;
        TooManyRefusedError."""
        began_s, sent_count = time.monotonic(), 0
        try:
            for loads in self._rounds(messages):
                if self._rate:
                    sleep_until(began_s + sent_count / self._rate)
                sent_count += sum(load.encoded is not None for load in loads)
                try:
                    self._send(loads)
                finally:
                    self._note(loads)
                if time.monotonic() - self._saved_at_s >= SAVE_INTERVAL_S:
                    self.save()
        finally:
            self.save()

    @property
    def has_sent(self) -> bool:
        """Whether a message may have been stored, by this run or an earlier one, even if none is certain."""
        return self._has_sent or self.progress.done_count > 0

    def finish(self) -> None:
        """Keeps that the import is complete, if it sent something."""
        if self.progress.sent_count or self.progress.present_count:
            note_finished(self._admin, self._addrs, self._last_offsets, self._path, self.progress)
        else:
            forget(self._path)

    def save(self) -> None:
        self.progress.ends = [
            QueueEnd(queue.topic, queue.broker_name, queue.queue_id, end) for queue, end in self._ends.items()
        ]
        self.progress.updated_ms = time.time_ns() // 1_000_000
        progress_file.save(self._path, self.progress)
        self._saved_at_s = time.monotonic()

    # --- a round -----------------------------------------------------------------------------------------------------

    def _rounds(self, messages: Iterable[ExportedMessage]) -> Iterator[list[Load]]:
        """The remaining messages in order, in a round none of one queue; with a rate, one alone."""
        loads: list[Load] = []
        queues: set[MessageQueue] = set()
        size_bytes, done_count = 0, self.progress.done_count
        for number, found in enumerate(messages, start=1):
            if number <= done_count:
                continue
            load = self._load(number, found)
            is_full = size_bytes + found.size_bytes > ROUND_SIZE_MAX_BYTES or len(loads) == ROUND_COUNT_MAX
            if loads and (is_full or load.queue in queues or (self._rate and queues)):
                yield loads
                loads, queues, size_bytes = [], set(), 0
            loads.append(load)
            size_bytes += found.size_bytes
            if load.queue is not None:
                queues.add(load.queue)
        if loads:
            yield loads

    def _send(self, loads: Sequence[Load]) -> None:
        """Sends all at once, and waits. Whatever error it raises, the outcomes of answered messages are set."""
        failure: RocketMQError | None = None
        again = [load for load in loads if load.encoded is not None]
        while again and failure is None:
            self._admin.permit_change("sending messages")
            try:
                for load in again:
                    self._lanes.put(load)
            except ConnectError as error:
                failure = error
            again = []
            while answers := self._lanes.answers():
                for load, answer in answers:
                    try:
                        load.outcome = self._outcome(load, answer)
                    except RocketMQError as error:
                        failure = failure or error
                    if load.outcome is None:
                        again.append(load)
            if again and failure is None:
                time.sleep(BUSY_PAUSE_S * 2 ** (max(load.tries for load in again) - 1))
        if failure is not None:
            raise failure

    def _outcome(self, load: Load, answer: Command | None) -> SendResult | RefusedRow | None:
        """The outcome in an answer; None if the message must be sent again."""
        try:
            stored = self._lanes.result(load, answer)
            self._has_sent = True
            return stored
        except (ConnectError, RequestTimeoutError):
            self._has_sent = True  # perhaps
            raise
        except RefusedError as error:
            load.tries += 1
            if error.code in BUSY_CODES and load.tries < BUSY_TRIES_MAX:
                return None
            if error.code not in NEVER_CODES:
                raise
            assert load.queue is not None
            why = error.remark or str(error)
            return RefusedRow(number=load.number, message_id=load.message_id, topic=load.queue.topic, reason=why)

    def _note(self, loads: Sequence[Load]) -> None:
        """Records the known outcomes, up to the first message whose outcome is unknown."""
        for load in loads:
            if not load.is_settled:
                return
            # Ctrl-C may come between any two lines. A message recorded as done must not be sent again, and messages
            # before a recorded end are not searched for.
            self.progress.done_count = load.number
            if load.is_present:
                self.progress.present_count += 1
            elif isinstance(load.outcome, RefusedRow):
                self.progress.refused.append(load.outcome)
                if len(self.progress.refused) >= REFUSED_SHOWN_MAX:
                    raise TooManyRefusedError(f"{REFUSED_SHOWN_MAX} messages were refused", hint=load.outcome.reason)
            elif load.outcome is not None:
                queue, offset = load.outcome.queue, load.outcome.queue_offset
                self._ends[queue] = max(self._ends.get(queue, 0), offset + 1)
                self._last_offsets[queue] = offset
                self.progress.sent_count += 1
                self.weakly_stored_count += load.outcome.status is not SendStatus.SEND_OK
            self._on_done(1)

    # --- one message -------------------------------------------------------------------------------------------------

    def _load(self, number: int, found: ExportedMessage) -> Load:
        if self._present and self._present[key := self._unique_key(number, found)]:
            self._present[key] -= 1
            return Load(number=number, is_present=True)
        topic = target_of(found, self.progress.to)
        try:
            queue = self._queue_for(number, found, topic)
            message = as_message(found, queue.topic)
            message.properties = {**message.properties, props.UNIQUE_KEY: self._unique_key(number, found)}
            born_ms = found.born_ms if found.born_ms is not None else time.time_ns() // 1_000_000
            if queue not in self._requests:
                self._requests[queue] = SendRequests(queue, IMPORT_GROUP)
            encoded = self._requests[queue].of_copy(
                message, born_timestamp_ms=born_ms, compression=found.compression_bits
            )
        except UsageError as error:
            return Load(number=number, outcome=refused_row(number, found, topic, str(error)))
        row = refused_row(number, found, topic, "")
        return Load(number=number, queue=queue, addr=self._addrs[queue], encoded=encoded, message_id=row.message_id)

    def _unique_key(self, number: int, found: ExportedMessage) -> str:
        """The message's own unique key. A message without one gets the same key in every run."""
        own = found.properties.get(props.UNIQUE_KEY)
        made = f"{self.progress.digest}:{number}"
        return own or hashlib.sha256(made.encode()).hexdigest()[:32].upper()

    def _queue_for(self, number: int, found: ExportedMessage, topic: str) -> MessageQueue:
        """One of ``queues_for``, in turn. UsageError for a topic none of whose messages can be sent."""
        if topic not in self._queues:
            raise UsageError(NO_TOPIC)
        queues = [queue for queue, _ in self._queues[topic]]
        if found.broker_name is not None and found.queue_id is not None:
            same = MessageQueue(topic, found.broker_name, found.queue_id)
            if same in self._addrs:
                return same
        fitting = queues_for(found, queues)
        return fitting[number % len(fitting)]


def sleep_until(moment_s: float) -> None:
    """Sleeps until a moment of the monotonic clock."""
    left_s = moment_s - time.monotonic()
    if left_s > 0:
        time.sleep(left_s)


def forget(path: Path) -> None:
    """Deletes the progress file."""
    path.unlink(missing_ok=True)
