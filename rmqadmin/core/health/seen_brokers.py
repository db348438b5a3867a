"""Brokers that an earlier `doctor` saw and that no name server lists any more. A name server forgets a broker that it
has lost, so only the memory of this machine can miss it.

One file for each set of name servers, in the cache directory; it may be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from rmqadmin.core.health.broker_checks import gone_finding
from rmqadmin.core.health.facts import ClusterFacts
from rmqadmin.core.health.finding import Finding
from rmqadmin.core.own_files import cache_dir, write_private

MISSED_FOR_MS = 24 * 3_600_000
"""How long a broker is missed. Who takes one out on purpose hears of it for a day."""

FILES_MAX = 16
"""How many sets of name servers are remembered, the newest. Test servers, each on a new port, would leave one each."""


class ListedBroker(msgspec.Struct, frozen=True):
    cluster: str
    broker_addr: str
    seen_ms: int


Seen = dict[str, ListedBroker]
"""``broker-a/0`` -> when it was last seen."""


def missing_findings(facts: ClusterFacts, seen: Mapping[str, ListedBroker], now_ms: int) -> Iterator[Finding]:
    """Those of ``seen`` that no name server lists. None while no name server answers: nothing is known then."""
    if not facts.answering:
        return
    listed = {broker.name for broker in facts.brokers}
    addrs = {broker.replica.broker_addr for broker in facts.brokers}
    for name, one in sorted(seen.items()):
        if name not in listed and one.broker_addr not in addrs and now_ms - one.seen_ms < MISSED_FOR_MS:
            yield gone_finding(name, one.broker_addr, one.seen_ms, now_ms)


def read_seen(namesrv_addrs: Sequence[str], cluster: str | None) -> Seen:
    """The brokers seen before, of one cluster or of all."""
    try:
        found = msgspec.json.decode(_path(namesrv_addrs).read_bytes(), type=Seen)
    except (OSError, msgspec.MsgspecError):
        return {}
    return {name: one for name, one in found.items() if cluster is None or one.cluster == cluster}


def remember_seen(namesrv_addrs: Sequence[str], facts: ClusterFacts, now_ms: int) -> None:
    """Adds the brokers that are listed now, and forgets those not seen for a day. Does nothing if it cannot."""
    kept = {name: one for name, one in read_seen(namesrv_addrs, None).items() if now_ms - one.seen_ms < MISSED_FOR_MS}
    for broker in facts.brokers:
        kept[broker.name] = ListedBroker(broker.replica.cluster, broker.replica.broker_addr, now_ms)
    path = _path(namesrv_addrs)
    try:
        write_private(path, msgspec.json.encode(kept).decode())
        by_age = sorted(path.parent.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in by_age[:-FILES_MAX]:
            file.unlink()
    except OSError:
        return


def _path(namesrv_addrs: Sequence[str]) -> Path:
    return cache_dir() / "seen-brokers" / (re.sub(r"[^\w.-]", "_", ",".join(sorted(namesrv_addrs)))[:200] + ".json")
