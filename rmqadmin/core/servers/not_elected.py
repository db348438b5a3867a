"""Why a controller has not made a replica the master, and what to do. Apache's controllers only say that they did
not."""

from __future__ import annotations

from collections.abc import Iterable

from rmqproto.bodies.replication import ReplicaIdentity, ReplicaSet


def what_to_do(found: ReplicaSet | None, broker_name: str, broker_id: int) -> str:
    """``found`` is what the controller knew of the broker name when it was asked."""
    if found is None:
        return f"The controller knows no broker {broker_name}: one registers if enableControllerMode=true."
    replicas = [*found.in_sync_replicas, *found.not_in_sync_replicas]
    wanted = next((each for each in replicas if each.broker_id == broker_id), None)
    others = [each for each in found.in_sync_replicas if each.alive and each.broker_id != found.master_broker_id]
    instead = f"In sync and alive: {_listed(others)}."
    if wanted is None:
        return f"{broker_name} has no replica {broker_id}, but {_listed(replicas)}. {instead}"
    if not wanted.alive:
        return f"The replica {broker_id} at {wanted.broker_address} is not alive: start it. {instead}"
    status = f"`rmqadmin haStatus -b {found.master_address or 'ADDRESS'}`"
    if wanted not in found.in_sync_replicas:
        return (
            f"The replica {broker_id} is alive and not in sync: {status} shows what it lacks. {instead} With "
            "enableElectUncleanMaster=true the controller elects it all the same, and what only others have is lost."
        )
    if found.master_address:
        return (
            f"{status} shows whether the replica {broker_id} is behind. Try again, or stop the master: another one is "
            "elected then."
        )
    return f"Try again. {instead}"


def _listed(replicas: Iterable[ReplicaIdentity]) -> str:
    return ", ".join(f"{each.broker_id} at {each.broker_address}" for each in replicas) or "none"
