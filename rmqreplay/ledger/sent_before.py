"""The messages that jobs of a ledger root have sent, so that a second redrive of a queue starts where the first one
stopped. Everything that asks whether a message was redriven asks here.

A message was sent by a job if its unique key, queue offset and store time are those in the job's ledger, and the ledger
names no other cluster. Ledgers of earlier versions say neither key nor time. There a message counts only if the job's
plan names its offset message id, which tells the store host; others are counted as unproven if the job had the same
name servers, and its plan counted messages of that time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError, UsageError
from rmqreplay.ledger.ledger import LEDGER_FILE, LedgerState, read_ledger
from rmqreplay.ledger.letter_source import LetterSource
from rmqreplay.ledger.letters import BrokerSeen, Letter, LetterBook, Place, Witness
from rmqreplay.plans.plan import PLAN_FILE, Plan, load_plan
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet, parse_queue_text
from rmqserver.store.disk.disk import storage_error

ROOT_LOCK_FILE = ".lock"
LEDGERS_KEPT_MAX = 256
"""How many ledgers are kept in memory."""
HOLES_MAX = 16
"""How many offsets without a message are passed over in the search for the last letter that is the same."""


@dataclass(slots=True)
class SentBefore:
    """What other jobs have sent of a plan's ranges. ``by_job`` counts it. ``unproven`` counts what jobs of earlier
    versions have sent at the same offsets, perhaps in another cluster; it is not in ``places``."""

    places: OffsetSet = field(default_factory=OffsetSet)
    by_job: dict[str, int] = field(default_factory=dict)
    unproven: dict[str, int] = field(default_factory=dict)


class _Job:
    """One begun job of the root, as the cluster at hand sees it."""

    def __init__(self, root: str, name: str, state: LedgerState, source: LetterSource):
        self.name, self.state = name, state
        self._directory = os.path.join(root, name)
        self._source = source

    @cached_property
    def plan(self) -> Plan | None:
        return load_plan(self._directory)

    @cached_property
    def _book(self) -> LetterBook:
        return self.state.letters()

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(self.plan.selection.ids) if self.plan is not None else frozenset()

    def has(self, place: Place, letter: Letter) -> bool | None:
        """Whether the job has sent this message. None if it may have, and its ledger of an earlier version cannot
        tell."""
        mark = self._book.mark(place)
        if mark is None:
            return False
        if not mark:
            return True if letter.offset_message_id in self._ids else None if self._may_have(letter) else False
        return mark == letter.mark and not self._is_elsewhere(place[0])

    def _may_have(self, letter: Letter) -> bool:
        plan, here = self.plan, self._source.name_servers
        if plan is None or (here and here.isdisjoint((plan.source.name_server or "").split(";"))):
            return False
        oldest_ms, newest_ms = plan.shown.get("oldest_ms"), plan.shown.get("newest_ms")
        return oldest_ms is None or newest_ms is None or oldest_ms <= letter.store_timestamp_ms <= newest_ms

    def sent(self, ranges: Sequence[OffsetRange]) -> tuple[OffsetSet, int]:
        """The offsets that the job has sent, and how many more of which its ledger cannot tell."""
        offsets: dict[MessageQueue, list[int]] = {}
        for each in self.state.delivered().overlap(ranges):
            offsets.setdefault(each.queue, []).extend(range(each.start, each.end))
        found, unproven = OffsetSet(), 0
        for queue, of_queue in offsets.items():
            same, told = self._same_until(queue, of_queue)
            found.update(OffsetSet.of_offsets((queue, offset) for offset in of_queue[:same]))
            unproven += 0 if told else len(of_queue) - same
        return found, unproven

    def _same_until(self, queue: MessageQueue, offsets: Sequence[int]) -> tuple[int, bool]:
        """How many of the offsets, from the first on, still have the message that was sent; and whether the ledger can
        tell it for the others. Queues only grow at their end, so that the message before one that is the same is the
        same."""
        told = True

        def is_same(count: int) -> bool:
            nonlocal told
            for offset in reversed(offsets[max(0, count - HOLES_MAX) : count]):
                letter = self._source.letter((queue, offset))
                if letter is not None:
                    has = self.has((queue, offset), letter)
                    told = told and has is not None
                    return bool(has)
            return False

        return _last(is_same, len(offsets)), told

    def _is_elsewhere(self, queue: MessageQueue) -> bool:
        """Whether the job sent messages of another cluster whose queue has the same messages: a copy of the store."""
        begin = self.state.begin
        then = begin.brokers.get(queue.broker_name, BrokerSeen()) if begin is not None else BrokerSeen()
        now = self._source.broker(queue)
        if then.cluster and now.cluster and then.cluster != now.cluster:
            return True
        if not then.addresses or not now.addresses or not set(then.addresses).isdisjoint(now.addresses):
            return False
        return self._is_unknown_here  # another address: after a fail-over or a move, what was sent is here

    @cached_property
    def _is_unknown_here(self) -> bool:
        plan = self.plan
        if plan is None or plan.target.name_server is not None:
            return False
        return self._source.lacks_job(plan.replay_job, self.state.first_fences())

    def may_be_of(self, ranges: Sequence[OffsetRange]) -> bool:
        """Whether the plan covers messages of these ranges. It does not if the last of each queue that it was planned
        with is not what the queue has there."""
        plan = self.plan
        if plan is None or plan.target.kind == "file" or not OffsetSet(plan.ranges).overlap(ranges).count:
            return False
        queues = {each.queue for each in ranges}
        asked = {text: one for text, one in plan.witnesses.items() if parse_queue_text(text) in queues}
        same = [_is_there(self._source, text, witness) for text, witness in asked.items()]
        return not asked or any(is_same is not False for is_same in same)


def _last(holds: Callable[[int], bool], count: int) -> int:
    """The highest number up to ``count`` for which it holds, if it holds for all below; 0 if for none."""
    if not count or holds(count):
        return count
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _is_there(source: LetterSource, queue: str, witness: Witness) -> bool | None:
    """Whether the queue has this message where it was; None if it has none there any more. False if the queue has not
    come that far, which no queue does that had the message."""
    place = parse_queue_text(queue), witness.queue_offset
    letter = source.letter(place)
    if letter is not None:
        return letter.mark == witness.mark
    return None if witness.queue_offset < source.bounds(place[0])[1] else False


def changed_queue(plan: Plan, source: LetterSource) -> str | None:
    """A queue of the source whose messages are not those that the plan was made with; None if there is none."""
    return next((text for text, one in plan.witnesses.items() if _is_there(source, text, one) is False), None)


def sent_before(root: str, plan: Plan, source: LetterSource, *, strict: bool) -> SentBefore:
    """What other jobs have sent of the plan's ranges. With ``strict``, UsageError if another job covers some of them
    and has begun but not ended: it may have sent them, or may send them when it is resumed."""
    jobs = [job for job in _begun(root, source) if job.name != plan.job]
    for job in jobs:
        if strict and job.state.end is None and job.may_be_of(plan.ranges):
            raise UsageError(
                f"job {job.name} has begun to redrive some of these messages and is not finished",
                hint=f"finish it first (--resume --job {job.name}), or --no-skip-redriven to send them anyway",
            )
    return _sent_by(jobs, plan.ranges)


def sent_of_ranges(root: str, ranges: Sequence[OffsetRange], source: LetterSource) -> SentBefore:
    """What any job has sent of the ranges. The next redrive leaves it out."""
    return _sent_by(_begun(root, source), ranges)


def sent_of_letters(root: str, letters: Mapping[Place, Letter], source: LetterSource) -> set[Place]:
    """Those of the letters that any job has sent. The next redrive leaves them out."""
    jobs = list(_begun(root, source))
    return {place for place, letter in letters.items() if any(job.has(place, letter) for job in jobs)}


def check_root(root: str) -> None:
    """StorageError for a directory that cannot be read, or that holds anything but jobs: it was probably mistyped, and
    nothing would count as sent."""
    try:
        names = os.listdir(root)
    except OSError as error:
        raise storage_error(error, "read", root) from None
    if names and not any(os.path.exists(os.path.join(root, name, PLAN_FILE)) for name in names):
        raise StorageError(f"{root} has other files and no job of a replay", hint="name the directory of all jobs")


def _sent_by(jobs: Iterable[_Job], ranges: Sequence[OffsetRange]) -> SentBefore:
    found = SentBefore()
    for job in jobs:
        places, unproven = job.sent(ranges)
        found.places.update(places)
        if places.count:
            found.by_job[job.name] = places.count
        if unproven:
            found.unproven[job.name] = unproven
    return found


def _begun(root: str, source: LetterSource) -> Iterator[_Job]:
    """The jobs that have begun to send, by name."""
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        directory = os.path.join(root, name)
        state = _ledger(directory) if os.path.isdir(directory) else None
        if state is not None and state.begin is not None:
            yield _Job(root, name, state, source)


def _ledger(directory: str) -> LedgerState:
    """The job's state, read once as long as its file stays the same: dashboards ask every few seconds."""
    try:
        found = os.stat(os.path.join(directory, LEDGER_FILE))
    except OSError:
        return read_ledger(directory)
    return _unchanged(directory, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(LEDGERS_KEPT_MAX)
def _unchanged(directory: str, inode: int, size_bytes: int, changed_ns: int) -> LedgerState:
    return read_ledger(directory)


@contextmanager
def root_lock(root: str) -> Iterator[None]:
    """A lock that a job holds while it checks other jobs and registers itself. StorageError."""
    path = os.path.join(root, ROOT_LOCK_FILE)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise storage_error(error, "write", path) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
