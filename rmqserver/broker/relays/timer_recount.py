"""Counts anew how many messages wait for each topic: a crash leaves ``timermetrics`` up to a second old. Apache
recounts at a time of day (``TimerMessageStore.checkAndReviseMetrics``, 5.5.0)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from rmqproto.java.java_hash import java_hash
from rmqserver.store.timers.log import Unit


def recount(units: Iterable[Unit], topics: Iterable[str], topic_of: Callable[[Unit], str | None]) -> dict[str, int]:
    """Waiting messages less recalls, by destination topic. A unit holds only the hash of its topic. If none or several
    of ``topics`` have that hash, ``topic_of`` reads the unit's message, or returns None if it is gone. Raises
    OSError."""
    named: dict[int, set[str]] = {}
    for name in topics:
        named.setdefault(java_hash(name), set()).add(name)
    sure = {topic_hash: next(iter(names)) for topic_hash, names in named.items() if len(names) == 1}
    counts: Counter[str] = Counter()
    for unit in units:
        if (topic := sure.get(unit.topic_hash) or topic_of(unit)) is not None:
            counts[topic] += -1 if unit.is_delete else 1
    return dict(counts)
