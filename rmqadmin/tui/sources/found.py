"""What a source returns: rows, which brokers they lack, and in words what else could not be found out. A source raises
an error only if nobody answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from rmqadmin.core import targets
from rmqadmin.tui.memory.cluster import Cluster, ClusterMemory, Lacks
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import NotFoundError, RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

T = TypeVar("T")


class Found(msgspec.Struct, Generic[T], frozen=True):
    """``rows`` by key, in the order of the screen. ``lacks``: brokers that might have had more."""

    rows: dict[str, T]
    lacks: Lacks = {}
    problems: list[str] = []

    def told(self) -> list[str]:
        """What the user should know about these rows."""
        return [*lacks_text(self.lacks), *self.problems]


def lacks_text(lacks: Lacks) -> list[str]:
    """``without broker-b, gone 12 s ago``, one for each broker."""
    return [f"without {name}, {why}" for name, why in lacks.items()]


def read_cluster(admin: AdminClient, memory: ClusterMemory) -> Cluster:
    """Which brokers the name server tells of; those that it told of before are remembered."""
    return memory.see(admin.cluster_info())


def read_askable(admin: AdminClient, memory: ClusterMemory) -> Cluster:
    """The same. NotFoundError if there is no broker that could be asked: then nothing is known, not nothing there."""
    cluster = read_cluster(admin, memory)
    if not cluster.brokers:
        gone = "".join(f"; {name} {memory.gone_text(name)}" for name in cluster.gone)
        raise NotFoundError(f"the name server knows no broker{gone}")
    return cluster


def askable(brokers: Sequence[BrokerData]) -> list[BrokerData]:
    return [broker for broker in brokers if broker.selected_addr()]


def ask_brokers(
    memory: ClusterMemory, brokers: Sequence[BrokerData], ask: Callable[[BrokerData], T]
) -> tuple[list[tuple[BrokerData, T]], Lacks]:
    """The answers, each with its broker, and the brokers that do not answer. Raises the first error if nobody
    answers."""

    def attempt(broker: BrokerData) -> T | RocketMQError:
        try:
            return ask(broker)
        except RocketMQError as error:
            return error

    pairs = list(zip(brokers, targets.ask_each(attempt, brokers), strict=True))
    errors = [(broker, answer) for broker, answer in pairs if isinstance(answer, RocketMQError)]
    if errors and len(errors) == len(pairs):
        raise errors[0][1]
    lacks = {broker.broker_name: memory.gone_text(broker.broker_name) or str(error) for broker, error in errors}
    return [(broker, answer) for broker, answer in pairs if not isinstance(answer, RocketMQError)], lacks


class Tables(msgspec.Struct, Generic[T], frozen=True):
    """One table of every broker, by broker name: of those in ``lacks``, as they were when they last answered. Of those
    in ``unheard``, nothing is known."""

    by_broker: dict[str, T]
    lacks: Lacks
    unheard: list[str]


def read_tables(memory: ClusterMemory, cluster: Cluster, what: str, ask: Callable[[BrokerData], T]) -> Tables[T]:
    """A table of every broker that there is or was. ``what`` names it in the memory."""
    answers, lacks = ask_brokers(memory, cluster.brokers, ask)
    lacks |= {name: memory.gone_text(name) or "gone" for name in cluster.gone}
    found = {broker.broker_name: answer for broker, answer in answers}
    for name, answer in found.items():
        memory.keep(what, name, answer)
    kept = {name: answer for name in lacks if (answer := memory.last(what, name)) is not None}
    return Tables(found | kept, lacks, [name for name in lacks if name not in kept])
