"""What a source returns: rows, the brokers missing from them, and other problems in words. A source only raises an
error if nobody answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.tui.memory.cluster import Cluster, ClusterMemory, Lacks
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import NotFoundError, RocketMQError

T = TypeVar("T")


class Found(msgspec.Struct, Generic[T], frozen=True):
    """``rows`` by key, in the order of the screen. ``lacks``: brokers that may have more. ``note``: what the rows do
    not say by themselves."""

    rows: dict[str, T]
    lacks: Lacks = {}
    problems: list[str] = []
    note: str = ""

    def told(self) -> list[str]:
        """The problems of these rows, in words."""
        return [*lacks_text(self.lacks), *self.problems]


def lacks_text(lacks: Lacks) -> list[str]:
    """``without broker-b, gone 12 s ago``, one for each broker."""
    return [f"without {name}, {why}" for name, why in lacks.items()]


def read_cluster(admin: AdminClient, memory: ClusterMemory) -> Cluster:
    """Reads the brokers that the nameserver lists. Those that it listed before are remembered."""
    return memory.see(admin.cluster_info())


def read_askable(admin: AdminClient, memory: ClusterMemory) -> Cluster:
    """As ``read_cluster``. NotFoundError if no broker can be asked: the contents are then unknown, not empty."""
    cluster = read_cluster(admin, memory)
    if not cluster.brokers:
        gone = "".join(f"; {name} {memory.gone_text(name)}" for name in cluster.gone)
        raise NotFoundError(f"the name server knows no broker{gone}")
    return cluster


def askable(brokers: Sequence[BrokerData]) -> list[BrokerData]:
    return [broker for broker in brokers if broker.selected_addr()]


def asked(admin: AdminClient, memory: ClusterMemory, replica: Replica | None) -> list[Replica]:
    """One process of a broker, or one of each broker: its master, if it has one."""
    if replica is not None:
        return [replica]
    found: dict[str, Replica] = {}
    for one in read_askable(admin, memory).seen.values():
        if one.gone_since_ms is None:
            found.setdefault(one.replica.broker_name, one.replica)
    return list(found.values())


class _Named(Protocol):
    @property
    def broker_name(self) -> str: ...


B = TypeVar("B", bound=_Named)


def ask_brokers(memory: ClusterMemory, brokers: Sequence[B], ask: Callable[[B], T]) -> tuple[list[tuple[B, T]], Lacks]:
    """Asks brokers. Returns the answers with their brokers, and the brokers that do not answer. Raises the first error
    if none answers."""

    def attempt(broker: B) -> T | RocketMQError:
        try:
            return ask(broker)
        except RocketMQError as error:
            return error

    pairs = list(zip(brokers, ask_each(attempt, brokers), strict=True))
    errors = [(broker, answer) for broker, answer in pairs if isinstance(answer, RocketMQError)]
    if errors and len(errors) == len(pairs):
        raise errors[0][1]
    lacks = {broker.broker_name: memory.gone_text(broker.broker_name) or str(error) for broker, error in errors}
    return [(broker, answer) for broker, answer in pairs if not isinstance(answer, RocketMQError)], lacks


class Tables(msgspec.Struct, Generic[T], frozen=True):
    """A table of each broker, by broker name. Tables of brokers in ``lacks`` are their last answers. Brokers in
    ``unheard`` have never answered."""

    by_broker: dict[str, T]
    lacks: Lacks
    unheard: list[str]


def read_tables(memory: ClusterMemory, cluster: Cluster, what: str, ask: Callable[[BrokerData], T]) -> Tables[T]:
    """Reads a table of every broker, present or gone. ``what`` names the table in the memory."""
    answers, lacks = ask_brokers(memory, cluster.brokers, ask)
    lacks |= {name: memory.gone_text(name) or "gone" for name in cluster.gone}
    found = {broker.broker_name: answer for broker, answer in answers}
    for name, answer in found.items():
        memory.keep(what, name, answer)
    kept = {name: answer for name in lacks if (answer := memory.last(what, name)) is not None}
    return Tables(found | kept, lacks, [name for name in lacks if name not in kept])
