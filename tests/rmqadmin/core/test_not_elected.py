"""What a user is told whom no controller obeys."""

from __future__ import annotations

import pytest

from rmqadmin.core.servers.not_elected import what_to_do
from rmqproto.bodies.replication import ReplicaIdentity, ReplicaSet

NAME = "broker-a"


def replica(broker_id: int, *, alive: bool = True) -> ReplicaIdentity:
    return ReplicaIdentity(alive=alive, broker_address=f"h:{broker_id}", broker_id=broker_id, broker_name=NAME)


KNOWN = ReplicaSet(
    in_sync_replicas=[replica(1), replica(2)], not_in_sync_replicas=[replica(3), replica(4, alive=False)],
    master_address="h:1", master_broker_id=1, master_epoch=4,
)  # fmt: skip
MASTERLESS = ReplicaSet(in_sync_replicas=[replica(1, alive=False)], not_in_sync_replicas=[replica(2)])


@pytest.mark.parametrize(
    ("known", "wanted", "told"),
    [
        (None, 2, "The controller knows no broker broker-a: one registers if enableControllerMode=true."),
        (
            KNOWN,
            9,
            "broker-a has no replica 9, but 1 at h:1, 2 at h:2, 3 at h:3, 4 at h:4. In sync and alive: 2 at h:2.",
        ),
        (KNOWN, 4, "The replica 4 at h:4 is not alive: start it. In sync and alive: 2 at h:2."),
        (KNOWN, 3, "The replica 3 is alive and not in sync: `rmqadmin haStatus -b h:1` shows what it lacks."),
        (KNOWN, 2, "`rmqadmin haStatus -b h:1` shows whether the replica 2 is behind. Try again, or stop the master"),
        (MASTERLESS, 1, "The replica 1 at h:1 is not alive: start it. In sync and alive: none."),
        (MASTERLESS, 2, "In sync and alive: none. With enableElectUncleanMaster=true"),
    ],
)
def test_it_says_who_is_alive_and_in_sync(known: ReplicaSet | None, wanted: int, told: str) -> None:
    """It said "Failed to elect a new master", and nothing else."""
    assert told in what_to_do(known, NAME, wanted)
