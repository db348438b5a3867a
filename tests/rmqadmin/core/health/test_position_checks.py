"""A broker's own read positions beyond the ends of what they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts
from rmqadmin.core.health.position_checks import position_findings, with_positions
from rmqadmin.core.servers.broker_state import Replica
from rmqclient.admin import AdminClient
from rmqproto.bodies.statistics import DelayOffsets
from rmqproto.errors import RefusedError
from rmqproto.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, revive_topic


class Broker:
    """Answers as a broker with these delay offsets, committed offsets and ends of queues does."""

    def __init__(self, delays: Mapping[int, int], committed: Mapping[tuple[str, int], int], ends: Mapping[Any, int]):
        self.delays, self.committed, self.ends = delays, committed, ends

    def delay_offsets(self, addr: str) -> DelayOffsets:
        return DelayOffsets(offset_table=dict(self.delays))

    def consumer_offset(self, addr: str, group: str, topic: str, queue_id: int) -> int | None:
        return self.committed.get((topic, queue_id))

    def max_offset(self, addr: str, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), 0)


def found(broker: Any, info: Mapping[str, str]) -> list[str]:
    replica = Replica("DefaultCluster", "broker-a", 0, "127.0.0.1:1", dict(info))
    facts = ClusterFacts(namesrvs=[], brokers=[BrokerFacts(replica=replica, asked_ms=0, answered_ms=0)])
    return [one.what for one in position_findings(with_positions(cast(AdminClient, broker), facts))]


def test_positions_within_their_logs_are_well() -> None:
    ends = {(SCHEDULE_TOPIC, 2): 5, (TRANSACTION_HALF_TOPIC, 0): 7}
    broker = Broker({3: 5, 4: 0}, {(TRANSACTION_HALF_TOPIC, 0): 7}, ends)
    assert found(broker, {"timerOffsetBehind": "0"}) == []


def test_each_position_beyond_an_end_is_named() -> None:
    revive = revive_topic("DefaultCluster")
    broker = Broker({3: 6}, {(TRANSACTION_HALF_TOPIC, 0): 8, (revive, 7): 1}, {(SCHEDULE_TOPIC, 2): 5})
    assert found(broker, {"timerOffsetBehind": "-1200"}) == [
        "delayed messages come late or never: it reads on from beyond the end of delay level 3 (6 of 5)",
        f"half messages are not asked about: it reads on from beyond the end of {TRANSACTION_HALF_TOPIC}/0 (8 of 0)",
        "messages that POP consumers did not acknowledge do not come back: it reads on from beyond the end of "
        f"{revive}/7 (1 of 0)",
        "timers are lost: it reads on from beyond the end of the timer topic (by 1,200)",
    ]


def test_what_a_broker_refuses_to_tell_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RefusedError(16, "no")

    broker = Broker({}, {}, {})
    for name in ("delay_offsets", "consumer_offset"):
        monkeypatch.setattr(broker, name, refuse)
    assert found(broker, {}) == []
