"""What a row is about, by the placeholders in the help of commands, for ``DashboardScreen.selected``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rmqadmin.core.health.finding import Subject, SubjectKind

if TYPE_CHECKING:
    from rmqadmin.core.servers.broker_state import Replica
    from rmqadmin.tui.memory.cluster import SeenBroker
    from rmqproto.bodies.base import MessageQueue


def of_replica(replica: Replica) -> dict[str, str]:
    return {"HOST:PORT": replica.broker_addr, "BROKER": replica.broker_name, "CLUSTER": replica.cluster}


def of_queue(queue: MessageQueue) -> dict[str, str]:
    return {"TOPIC": queue.topic, "BROKER": queue.broker_name, "QUEUE": str(queue.queue_id)}


def of_subject(subject: Subject, seen: Mapping[str, SeenBroker]) -> dict[str, str]:
    """``seen``: the brokers by ``NAME/ID``."""
    match subject.kind:
        case SubjectKind.BROKER:
            return of_replica(seen[subject.name].replica) if subject.name in seen else {}
        case SubjectKind.BROKER_SET:
            of_set = [one.replica for key, one in seen.items() if subject.name in (key, one.replica.broker_name)]
            return of_replica(of_set[0]) if of_set else {}
        case SubjectKind.NAME_SERVER:
            return {}
        case SubjectKind.TOPIC:
            return {"TOPIC": subject.name}
        case SubjectKind.QUEUE:
            group, _, queue = subject.name.rpartition(": ")
            topic, broker_name, queue_id = queue.rsplit("/", 2)
            return {"GROUP": group, "TOPIC": topic, "BROKER": broker_name, "QUEUE": queue_id}
        case _:
            return {"GROUP": subject.name}
