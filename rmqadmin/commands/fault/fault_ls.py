"""``fault ls``: lists the rules by which requests fail."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.own_requests import meant_brokers, own_answer
from rmqproto.bodies.own_requests import FaultState


class FaultRow(Row, frozen=True):
    rule: Annotated[str, doc("which requests go wrong, and how", key=True)]
    hits: Annotated[int, doc("requests that went wrong by it", vital=True)]
    broker_addr: Annotated[str, doc("address of the broker")]


class Faults(Result, frozen=True):
    """The rules, in the order in which they are looked at."""

    row_type: ClassVar[type[Row]] = FaultRow
    found: list[tuple[str, FaultState]]

    def rows(self) -> Sequence[FaultRow]:
        return [FaultRow(rule=state.rule, hits=state.hits, broker_addr=addr) for addr, state in self.found]


def fault_ls(call: Call, broker_addr: BrokerAddr = None, cluster_name: NamedCluster = None) -> Faults:
    """Rules are set by `fault set`, or come with the server (`rmqserver --fault`). Without -b and -c, shows those of
    the only broker.

    Examples:
      rmqadmin fault ls
      rmqadmin fault ls -b 127.0.0.1:10911
    """
    admin = call.admin
    addrs = meant_brokers(admin, broker_addr, cluster_name)
    answers = call.answers.of(lambda addr: own_answer(partial(admin.faults, addr)), addrs)
    return Faults([(addr, state) for addr, states in answers.items() for state in states])
