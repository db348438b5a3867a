"""Which messages wait for their time, and which are due: the wheel, the timer log and ``timercheck`` together
(``TimerMessageStore``, 5.5.0). It knows log offsets and times; its user reads the messages and puts them.

Everything here follows from the commit log. Two rules on the order of writes keep it so. Units and slots reach the
device before the checkpoint that says how far they go. A time counts as delivered once its copies are on the device.
"""

from __future__ import annotations

import heapq
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rmqproto.errors import StorageError
from rmqserver.store.disk.disk import Disk, make_directory
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.options import TimerOptions, TimerPaths
from rmqserver.store.timers.log import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, TimerLog, Unit
from rmqserver.store.timers.timer_check import (
    FROM_QUEUE,
    NOTE_SLOTS_MAX,
    TIMER_CHECK_SIZE_BYTES,
    DeliveryNote,
    LogState,
    NotedCopy,
    TimerCheckpoint,
    true_checkpoint,
)
from rmqserver.store.timers.wheel import NOTHING, SLOTS_PER_TURN, DueSlot, Slot, TimerWheel

_log = logging.getLogger(__name__)

DUE_SLOTS_MAX = NOTE_SLOTS_MAX
"""Slots under delivery at a time; the next one is opened when one of them is empty."""
Announced = tuple[str, int]
"""Of a message just put: its real topic, and the time of its slot, in ms."""

ANNOUNCED_MAX = 10_000
"""A message whose announcement is dropped is read instead."""

BLANK_SLOTS = 60
LATEST_SLOTS_KEPT = SLOTS_PER_TURN - BLANK_SLOTS
"""No place of these slots is needed for a new timer. Apache's broker delivers no older ones."""


class TimerStore:
    """``load`` it first. Then ``enqueue`` waiting messages; ``due`` returns the slots whose time has come; ``note``
    gets the messages put for them, before the log is written; call ``prepare_checkpoint`` from time to time.

    The user sets ``queue_offset``: the timer topic's queue is taken in up to there.
    """

    def __init__(self, paths: TimerPaths, options: TimerOptions, disk: Disk, cache: FileCache):
        self.wheel = TimerWheel(paths.wheel, disk, options.precision_ms)
        self.log = TimerLog(paths.log, options.log_file_size_bytes, disk, cache)
        self.queue_offset = 0
        self._paths = paths
        self._disk = disk
        self.precision_ms = options.precision_ms
        self._roll_window_slots = roll_window_slots(options.roll_window_slots)
        self._waiting_times: list[int] = []
        """A heap of the times of slots that hold something and are not open yet."""
        self._due: dict[int, DueSlot] = {}
        self._opened_time = -1
        """Slots up to here were opened and take nothing more: a message for one of them is due at once."""
        self._known: set[int] = set()
        """Log offsets of messages that have units already, though the queue is read again from a place before them."""
        self.saved = TimerCheckpoint()
        """What the file says, or will say once the prepared work has run."""
        self._saved_state: tuple[int, int, int] = (0, 0, 0)
        self._done_count = 0
        self._done_times: list[int] = []
        """The times of slots that are done while an earlier one is not."""
        self._kept_id: str | None = None
        self._announced: dict[int, Announced] = {}

    @property
    def check_path(self) -> str:
        return self._paths.check

    # -- start

    def load(self, log: LogState, *, clean: bool) -> None:
        """Loads wheel and timer log. StorageError or OSError for files that cannot be used."""
        self._check_no_snapshots()
        self.log.segments.load(is_derived=True)
        found = TimerCheckpoint.read(self._disk, self._paths.check)
        self.saved = saved = true_checkpoint(found, log, self.log, self.precision_ms)
        is_of_this_log = saved.queue_offset == found.queue_offset
        note = None if clean or not is_of_this_log else DeliveryNote.read(self._disk, self._paths.check)
        since = saved.read_time_ms // self.precision_ms
        self.wheel.load(since, is_new=saved.log_position == 0)
        self._tell(found, since)
        self._opened_time = since - 1
        self.queue_offset = saved.queue_offset
        if note is not None:
            note = note.settled(log.end_offset)
            self._opened_time = max(self._opened_time, note.opened_time)
            self.queue_offset = max(self.queue_offset, note.queue_offset)
        if not self._disk.is_file(self._paths.wheel):
            self._link_what_waits(since)
        self._set_slots_anew(log)
        for time, position in note.slots.items() if note is not None else ():
            if (slot := self.wheel.slot(time)).last_position != NOTHING:
                self._due[time] = DueSlot(slot, self.log, position)
        waiting = self.wheel.slots_since(self._opened_time + 1)
        self._waiting_times = [slot.time for slot in waiting if slot.last_position != NOTHING]
        self._saved_state = self._state
        if self._disk.is_file(self._paths.check):
            self.note()

    def _tell(self, found: TimerCheckpoint, since: int) -> None:
        """Says so if timers wait that the file called delivered."""
        delivered = found.read_time_ms // self.precision_ms
        waiting = self.wheel.count_since(since) - self.wheel.count_since(delivered) if delivered > since else 0
        if waiting > 0:
            _log.warning(
                "event=timers-held-back messages=%d from=%d to=%d", waiting, found.read_time_ms, self.saved.read_time_ms
            )

    def _check_no_snapshots(self) -> None:
        """Refuses a store of an Apache broker with timerWheelSnapshotFlush=true: it keeps the wheel in separate
        files."""
        directory, _, name = self._paths.wheel.rpartition("/")
        found = self._disk.listdir(directory) if self._disk.is_directory(directory) else []
        for each in found:
            if each.startswith(f"{name}.") and each.removeprefix(f"{name}.").isdecimal():
                raise StorageError(
                    f"{directory}/{each}: a snapshot of the timer wheel, which this server does not read",
                    hint="let Apache's broker deliver the timers first, then start it once with "
                    "timerWheelSnapshotFlush=false, stop it, and remove the snapshots",
                )

    def _link_what_waits(self, since: int) -> None:
        """Makes the slots from ``since`` on anew from the timer log before the checkpoint: the wheel's file is gone."""
        for unit in self.log.scan(self.log.segments.min_offset):
            if unit.position >= self.saved.log_position:
                break
            if (time := self.time_of(unit.slot_time_ms)) >= since:
                self._link(self.wheel.slot(time), unit.position, is_delete=unit.is_delete)
        if waiting_count := self.wheel.count_since(since):
            _log.warning("event=timer-wheel-made-anew path=%s messages=%d", self._paths.wheel, waiting_count)

    def _set_slots_anew(self, log: LogState) -> None:
        """Ends the timer log at its first damaged unit, or where its messages are missing from the log. Rebuilds slots
        that point behind that end, and links units that no slot knows yet."""
        segments = self.log.segments
        start = end = max(self.saved.log_position, segments.min_offset)
        next_log_offset = log.offset_at(self.queue_offset)
        for unit in self.log.scan(start):
            if unit.log_offset + unit.message_size_bytes > log.end_offset:
                break
            end = unit.position + unit.size_bytes
            if next_log_offset is not None and unit.log_offset >= next_log_offset:
                self._known.add(unit.log_offset)
            slot = self.wheel.slot(self.time_of(unit.slot_time_ms))
            if slot.last_position < unit.position:
                self._link(slot, unit.position, is_delete=unit.is_delete)
        self.log.end_at(end)
        torn = [slot for slot in self.wheel.slots_since(0) if slot.last_position >= end]
        for slot in torn:
            self.wheel.put(Slot(slot.time))
        if torn:
            times = {slot.time for slot in torn}
            _log.warning("event=timer-slots-mended count=%d", len(torn))
            for unit in self.log.scan(max(min(slot.first_position for slot in torn), segments.min_offset)):
                if (time := self.time_of(unit.slot_time_ms)) in times:
                    self._link(self.wheel.slot(time), unit.position, is_delete=unit.is_delete)

    # -- taking in

    def time_of(self, ms: int) -> int:
        return ms // self.precision_ms

    def announce(self, log_offset: int, topic: str, out_ms: int) -> None:
        """The message put at that log offset is for ``topic`` and waits for ``out_ms``. It then need not be read when
        it is taken in."""
        if len(self._announced) >= ANNOUNCED_MAX:
            self._announced.clear()
        self._announced[log_offset] = topic, out_ms

    def announced(self, log_offset: int) -> Announced | None:
        """Returns what was announced of a message, and forgets it."""
        return self._announced.pop(log_offset, None)

    def is_known(self, log_offset: int) -> bool:
        """Whether the message already has a unit: after a crash, reading the queue starts before some that have."""
        if not self._known or log_offset not in self._known:
            return False
        self._known.discard(log_offset)
        return True

    def enqueue(
        self, log_offset: int, size_bytes: int, topic_hash: int, out_ms: int, now_ms: int, *, is_delete: bool = False
    ) -> bool:
        """Makes the message at that log offset wait in the slot of ``out_ms``, to be delivered after it. False, with
        nothing done, if that time has passed; a recall (``is_delete``) still counts until its slot is opened."""
        write_time = max(self.time_of(now_ms), self._opened_time + 1)
        due_time = self.time_of(out_ms)
        if is_delete and due_time > self._opened_time:
            write_time = min(write_time, due_time)
        if due_time < write_time:
            return False
        magic = MAGIC_DEFAULT | (MAGIC_DELETE if is_delete else 0)
        delay = due_time - write_time
        if delay >= self._roll_window_slots:
            magic |= MAGIC_ROLL
            excess = delay - self._roll_window_slots
            is_near = excess < self._roll_window_slots // 3
            delay = self._roll_window_slots // 2 if is_near else self._roll_window_slots
        slot = self.wheel.slot(write_time + delay)
        position = self.log.append(
            slot.last_position, magic, write_time * self.precision_ms, delay * self.precision_ms, log_offset,
            size_bytes, topic_hash,
        )  # fmt: skip
        if slot.last_position == NOTHING:
            heapq.heappush(self._waiting_times, slot.time)
        self._link(slot, position, is_delete=is_delete)
        return True

    def _link(self, slot: Slot, position: int, *, is_delete: bool) -> None:
        """Makes the unit at that position of the timer log the slot's newest."""
        time, first, _, count = slot
        self.wheel.put(Slot(time, position if first == NOTHING else first, position, count + (-1 if is_delete else 1)))

    def has_places(self, now_ms: int) -> bool:
        """False while something is so late that a new timer may need its place: the broker was down for days. Then
        ``enqueue`` nothing."""
        oldest = min(
            [time for time, slot in self._due.items() if not slot.is_done] + self._waiting_times[:1], default=0
        )
        return not oldest or oldest >= self.time_of(now_ms) - LATEST_SLOTS_KEPT

    def load_of(self, out_ms: int) -> int:
        """Messages in the slot of that time."""
        return self.wheel.slot(self.time_of(out_ms)).message_count

    # -- what is due

    def due(self, now_ms: int) -> list[DueSlot]:
        """The slots whose time has passed, oldest first; at most DUE_SLOTS_MAX. Each stays until it is done."""
        for time in [time for time, slot in self._due.items() if slot.is_done]:
            del self._due[time]
            self._done_count += 1
            self._done_times.append(time)
        last = self.time_of(now_ms) - 1
        waiting = self._waiting_times
        while waiting and waiting[0] <= last and len(self._due) < DUE_SLOTS_MAX:
            self._opened_time = time = heapq.heappop(waiting)
            self._due[time] = DueSlot(self.wheel.slot(time), self.log)
        if not waiting or waiting[0] > last:
            self._opened_time = max(self._opened_time, last)
        while self._done_times and self._done_times[0] < self.read_time:
            self.wheel.forget(self._done_times.pop(0))
        return list(self._due.values())

    @property
    def read_time(self) -> int:
        """Everything in earlier slots was delivered."""
        return min((time for time, slot in self._due.items() if not slot.is_done), default=self._opened_time + 1)

    def late_ms(self, now_ms: int) -> int:
        """For how long the first slot that is not delivered has been due; up to a slot if everything is in time."""
        self.due(now_ms)
        return max(now_ms - self.read_time * self.precision_ms, 0)

    @property
    def next_due_ms(self) -> int | None:
        """When the next slot must be opened; None if none waits."""
        return (self._waiting_times[0] + 1) * self.precision_ms if self._waiting_times else None

    @property
    def waiting_count(self) -> int:
        """Messages that wait or are being delivered."""
        return self.wheel.count_since(self.read_time)

    def waiting_units(self) -> Iterator[Unit]:
        """The units not passed yet, and each recall of a slot that is not done, because it still counts. Any thread,
        while nothing is taken in or delivered. OSError."""
        starts = {time: slot.next_position for time, slot in self._due.items() if not slot.is_done}
        slots = [slot for slot in self.wheel.slots_since(self.read_time) if slot.last_position != NOTHING]
        waiting = [slot for slot in slots if slot.time > self._opened_time or slot.time in starts]
        return self._units_of(waiting, starts)

    def _units_of(self, slots: Sequence[Slot], starts: Mapping[int, int]) -> Iterator[Unit]:
        for slot in slots:
            start = starts.get(slot.time, 0)
            for unit in self.log.chain(slot.last_position):
                if unit.is_recall or unit.position >= start:
                    yield unit

    # -- to the device

    def note(self, deliveries: Sequence[NotedCopy] = ()) -> None:
        """Call it when ``deliveries`` are appended to the log and not written yet. If this process is killed, before or
        after the write, the next one then knows which of them are in the log. A message that was due at once is noted
        before ``queue_offset`` passes it. OSError."""
        self.log.write()
        self.wheel.write()
        if self._kept_id is None:
            self._make_check_file()
            self._kept_id = self._disk.kept_id(self._paths.check)
        from_queue = [delivery.passed - 1 for delivery in deliveries if delivery.slot_time == FROM_QUEUE]
        queue_offset = min([self.queue_offset, *from_queue])
        slots = {time: slot.next_position for time, slot in self._due.items() if not slot.is_done}
        note = DeliveryNote(self._kept_id, self._opened_time, queue_offset, slots, deliveries)
        note.write(self._disk, self._paths.check)

    def _make_check_file(self) -> None:
        if not self._disk.is_file(self._paths.check):
            make_directory(self._disk, os.path.dirname(self._paths.check))
            self._disk.open(self._paths.check, create_size_bytes=TIMER_CHECK_SIZE_BYTES)

    @property
    def _state(self) -> tuple[int, int, int]:
        return self.queue_offset, self.log.end_position, self._done_count

    @property
    def is_used(self) -> bool:
        """Whether a timer message ever came."""
        return bool(self.queue_offset or self.log.end_position)

    @property
    def is_changed(self) -> bool:
        """Whether a checkpoint would tell of anything but the passing of time."""
        return self._state != self._saved_state

    def checkpoint(self) -> TimerCheckpoint:
        """The checkpoint of the present state."""
        return replace(
            self.saved,
            read_time_ms=self.read_time * self.precision_ms,
            log_position=self.log.end_position,
            queue_offset=self.queue_offset,
            master_queue_offset=self.queue_offset,
        )

    def prepare_checkpoint(self, now_ms: int) -> Callable[[], None]:
        """Writes units and slots; returns work for a thread, which brings them to the device, and then the checkpoint.
        The work may run once everything delivered so far is on the device."""
        self.log.write()
        self.wheel.write()
        self._saved_state = self._state
        self.saved = saved = self.checkpoint()
        saved.version_timestamp_ms = now_ms
        saved.version_counter += 1
        bases = self.log.take_changed_bases()

        def work() -> None:
            self.log.sync(bases)
            self.wheel.sync()
            self._disk.sync_directory(os.path.dirname(self._paths.wheel))
            self._make_check_file()
            saved.write(self._disk, self._paths.check)
            self._disk.sync_directory(os.path.dirname(self._paths.check))

        return work

    def stop(self, newest_ms: int) -> None:
        """For a clean end, before the last checkpoint: removes delivered messages from the slots that the next broker,
        ours or Apache's, looks at, so that it delivers only the rest. These are the slots behind ``read_time`` and, if
        the clock was set back since, those behind ``newest_ms``, the store time of the log's last record."""
        since = min(self.read_time, self.time_of(newest_ms))
        if since < self.read_time:
            self.wheel.write()
            self.wheel.load(since)  # forgotten slots are still in the file
        rest = {time: due for time, due in self._due.items() if not due.is_done}
        for slot in self.wheel.slots_since(since):
            if slot.time <= self._opened_time and slot.last_position != NOTHING:
                due = rest.get(slot.time)
                if due is None:
                    self.wheel.put(Slot(slot.time))
                elif due.next_position > slot.first_position:
                    self._cut_slot(slot, due.next_position)

    def _cut_slot(self, slot: Slot, first_position: int) -> None:
        """Makes the slot begin at ``first_position``. Recalls before it are written again, behind the rest."""
        recalls = [
            unit for unit in self.log.chain(slot.last_position) if unit.position < first_position and unit.is_delete
        ]
        self.log.write()
        self.log.begin_chain_at(first_position)
        count = sum(-1 if unit.is_delete else 1 for unit in self.log.chain(slot.last_position))
        self.wheel.put(Slot(slot.time, first_position, slot.last_position, count))
        for unit in reversed(recalls):
            last = self.wheel.slot(slot.time)
            again = self.log.append(
                last.last_position, unit.magic, unit.write_time_ms, unit.delay_ms, unit.log_offset,
                unit.message_size_bytes, unit.topic_hash,
            )  # fmt: skip
            self._link(last, again, is_delete=unit.is_delete)

    def delete_expired(self, log_min_offset: int) -> int:
        """Removes timer log files whose messages have all left the commit log; returns how many."""
        count = 0
        segments = self.log.segments
        while len(segments.bases) > 1:
            last = self.log.last_unit_of(segments.bases[0])
            if last is None or last.log_offset >= log_min_offset:
                break
            segments.delete_first()
            count += 1
        return count


def roll_window_slots(wanted: int) -> int:
    """The roll window that the wheel has room for, as Apache clamps timerRollWindowSlot."""
    return wanted if 2 <= wanted <= LATEST_SLOTS_KEPT else LATEST_SLOTS_KEPT
