"""How many messages wait for each topic, counted anew: a crash leaves ``timermetrics`` as it was up to a second before.
Apache counts anew at a time of day (``TimerMessageStore.checkAndReviseMetrics``, 5.5.0)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from rmqproto.java.java_hash import java_hash
from rmqserver.store.timers.log import Unit


def recount(units: Iterable[Unit], topics: Iterable[str], topic_of: Callable[[Unit], str | None]) -> dict[str, int]:
    """By real topic: messages, less recalls. A unit knows only the hash of its topic, so ``topic_of`` reads its message
    where none or several of ``topics`` have that hash; None for a message that is gone. OSError."""
    named: dict[int, set[str]] = {}
    for name in topics:
        named.setdefault(java_hash(name), set()).add(name)
    sure = {topic_hash: next(iter(names)) for topic_hash, names in named.items() if len(names) == 1}
    counts: Counter[str] = Counter()
    for unit in units:
        if (topic := sure.get(unit.topic_hash) or topic_of(unit)) is not None:
            counts[topic] += -1 if unit.is_delete else 1
    return dict(counts)
