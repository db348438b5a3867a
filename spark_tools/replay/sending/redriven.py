"""The messages that other jobs of the same ledger root have delivered, so that a second redrive of a queue starts where
the first one stopped. Messages are identified by their origin, whatever their content."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rmqproto.errors import UsageError
from spark_tools.offset_ranges import OffsetRange, OffsetSet
from spark_tools.replay.plans.plan import Plan, load_plan
from spark_tools.replay.sending.ledger import LedgerState, read_ledger

ROOT_LOCK_FILE = ".lock"


def other_jobs_delivered(root: str, plan: Plan, *, strict: bool) -> OffsetSet:
    """Offsets in the plan's ranges that other jobs delivered. With ``strict``, UsageError if another job covers some of
    them and has begun but not ended: it may have sent them, or may send them when it is resumed."""
    found = OffsetSet()
    for name, state in _begun(root):
        if name == plan.job:
            continue
        if strict and state.end is None:
            _refuse_overlap(os.path.join(root, name), name, plan)
        found.update(state.delivered().overlap(plan.ranges))
    return found


def delivered(root: str, ranges: Sequence[OffsetRange]) -> OffsetSet:
    """Offsets in these ranges that any job has delivered. The next redrive leaves them out."""
    found = OffsetSet()
    for _, state in _begun(root):
        found.update(state.delivered().overlap(ranges))
    return found


def _begun(root: str) -> Iterator[tuple[str, LedgerState]]:
    """The jobs that have begun to send, by name."""
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        directory = os.path.join(root, name)
        state = read_ledger(directory) if os.path.isdir(directory) else None
        if state is not None and state.begin is not None:
            yield name, state


def _refuse_overlap(directory: str, name: str, plan: Plan) -> None:
    other = load_plan(directory)
    if other is None or other.target.kind == "file":
        return
    if OffsetSet(other.ranges).overlap(plan.ranges).count:
        raise UsageError(
            f"job {name} has begun to redrive some of these messages and is not finished",
            hint=f"finish it first (--resume --job {name}), or --no-skip-redriven to send them anyway",
        )


@contextmanager
def root_lock(root: str) -> Iterator[None]:
    """A lock that a job holds while it checks other jobs and registers itself."""
    fd = os.open(os.path.join(root, ROOT_LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
