"""Remembers brokers and their last answers. A broker that the nameserver no longer lists is gone but not forgotten: it
stays in lists, and sums say that they lack it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.groups.lag import KeptSettings, KnownHeads
from rmqadmin.core.servers.broker_state import Replica, replicas_of
from rmqadmin.core.units import elapsed
from rmqproto.bodies.routes import BrokerData, ClusterInfo, TopicConfigs

T = TypeVar("T")

Lacks = dict[str, str]
"""Names of the brokers missing from an answer, and why: ``gone 12 s ago``, or the error."""

TOPIC_TABLES = "topics"
"""The key under which the tables of all topics are kept, one of each broker."""


class SeenBroker(msgspec.Struct, frozen=True):
    """One broker process. ``gone_since_ms``: when the nameserver last listed it; None while it does."""

    replica: Replica
    gone_since_ms: int | None = None

    @property
    def order(self) -> tuple[str, str, int]:
        return self.replica.cluster, self.replica.broker_name, self.replica.broker_id


class Cluster(msgspec.Struct, frozen=True):
    """What the nameserver lists now, and what it listed before. ``seen`` has every broker process by ``NAME/ID``, or,
    if it is gone and another has its id, by ``NAME/ID at ADDRESS``.
    ``gone`` has the names of brokers without any process left, and since when."""

    info: ClusterInfo
    brokers: list[BrokerData]
    seen: dict[str, SeenBroker]
    gone: dict[str, int]


class ClusterMemory:
    """The memory of a cluster. Any thread may use it. ``now_ms`` is the clock of the dashboard."""

    def __init__(self, now_ms: Callable[[], int]):
        self.heads = KnownHeads()
        self.settings = KeptSettings()
        self.now_ms = now_ms
        self._seen: dict[str, SeenBroker] = {}
        self._last_ms: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self._brokers: list[BrokerData] = []
        self._answers: dict[tuple[str, str], tuple[Any, int]] = {}
        """By question and broker, with the time."""
        self._places: dict[str, set[str]] = {}
        self._lock = Lock()

    # --- brokers -----------------------------------------------------------------------------------------------------

    def see(self, info: ClusterInfo) -> Cluster:
        """Takes the nameserver's latest list. A process that has taken another id, or another address under its old id,
        is not gone. One whose id another process of its set has taken is gone, unless it is listed under another: it
        stays as ``NAME/ID at ADDRESS``."""
        now_ms = self.now_ms()
        present = {one.name: one for one in replicas_of(info, None)}
        addrs = {one.broker_addr for one in present.values()}
        with self._lock:
            listed_addrs = {one.replica.broker_addr for one in self._seen.values() if one.gone_since_ms is None}
            for key, known in list(self._seen.items()):
                addr = known.replica.broker_addr
                gone = SeenBroker(known.replica, known.gone_since_ms or self._last_ms.get(key))
                if key in present:
                    if addr not in addrs and present[key].broker_addr in listed_addrs:
                        self._seen[f"{key} at {addr}"] = gone
                elif addr in addrs:
                    del self._seen[key]
                else:
                    self._seen[key] = gone
            for key, replica in present.items():
                self._seen[key] = SeenBroker(replica)
                self._last_ms[key] = now_ms
            seen = dict(sorted(self._seen.items(), key=lambda item: item[1].order))
            here = {one.broker_name for one in present.values()}
            self._gone = {
                one.replica.broker_name: one.gone_since_ms
                for one in seen.values()
                if one.gone_since_ms is not None and one.replica.broker_name not in here
            }
            self._brokers = [broker for broker in targets.all_brokers(info) if broker.selected_addr()]
            return Cluster(info, self._brokers, seen, dict(self._gone))

    @property
    def brokers(self) -> list[BrokerData]:
        """The brokers that the nameserver listed last and that can be asked."""
        return self._brokers

    @property
    def clusters(self) -> list[str]:
        """The clusters of ``brokers``."""
        return sorted({broker.cluster for broker in self._brokers if broker.cluster is not None})

    @property
    def seen(self) -> dict[str, SeenBroker]:
        """Every broker process, present or gone, by ``NAME/ID``."""
        with self._lock:
            return dict(self._seen)

    def forget(self, key: str) -> None:
        """Forgets a broker that is gone for good."""
        with self._lock:
            known = self._seen.pop(key, None)
            if known is not None and not any(
                one.replica.broker_name == known.replica.broker_name for one in self._seen.values()
            ):
                name = known.replica.broker_name
                self._gone.pop(name, None)
                self._answers = {place: kept for place, kept in self._answers.items() if place[1] != name}
                for names in self._places.values():
                    names.discard(name)

    def gone_text(self, broker_name: str) -> str | None:
        """``gone 12 s ago``; None for a broker that is present or was never seen."""
        with self._lock:
            since_ms = self._gone.get(broker_name)
        return None if since_ms is None else gone_text(since_ms, self.now_ms())

    # --- answers -----------------------------------------------------------------------------------------------------

    def keep(self, what: str, broker_name: str, answer: Any) -> None:
        """Keeps the latest answer of a broker to a question."""
        with self._lock:
            self._answers[what, broker_name] = answer, self.now_ms()

    def young(self, what: str, broker_name: str, age_max_ms: int, ask: Callable[[], T]) -> T:
        """The latest answer of a broker to a question, or, if that is older than ``age_max_ms``, a new one, which is
        kept."""
        with self._lock:
            kept: tuple[T, int] | None = self._answers.get((what, broker_name))
        if kept is not None and 0 <= self.now_ms() - kept[1] <= age_max_ms:
            return kept[0]
        answer = ask()
        self.keep(what, broker_name, answer)
        return answer

    def last(self, what: str, broker_name: str) -> Any:
        """The latest answer of a broker to a question, or None."""
        with self._lock:
            return self._answers.get((what, broker_name), (None, 0))[0]

    # --- places of topics --------------------------------------------------------------------------------------------

    def lost_of(self, topic: str, broker_names: set[str]) -> Lacks:
        """The brokers that had a topic and are gone. ``broker_names`` are those in its current route."""
        with self._lock:
            known = self._places.setdefault(topic, set())
            known |= broker_names
            known |= {name for name in self._gone if self._had(name, topic)}
            lost = {name: self._gone[name] for name in known - broker_names if name in self._gone}
        return {name: gone_text(since_ms, self.now_ms()) for name, since_ms in sorted(lost.items())}

    def _had(self, broker_name: str, topic: str) -> bool:
        """By the broker's last answer, which has all of its topics."""
        tables: TopicConfigs | None = self._answers.get((TOPIC_TABLES, broker_name), (None, 0))[0]
        return tables is not None and topic in tables.topic_config_table


def gone_text(since_ms: int, now_ms: int) -> str:
    return f"gone {elapsed(now_ms - since_ms)} ago"
