"""``getBrokerEpoch``: shows which parts of a replica's log were written under which master."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.controller_options import EveryBrokerName, OneBrokerName
from rmqadmin.core import targets
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.replicas import named_brokers
from rmqproto.bodies.replication import EpochCache


class EpochRow(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name", wide=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_id: Annotated[int, doc("0 is the master", key=True)]
    broker_addr: Annotated[str, doc("its address")]
    epoch: Annotated[int | None, doc("number of the master's term; none of an empty log", key=True)]
    start_offset: Annotated[int | None, doc("commit log offset at which the term begins")]
    end_offset: Annotated[int | None, doc("where it ends; of the last one, where the log ends")]


class AskedEpochs(msgspec.Struct, frozen=True):
    addr: str
    cache: EpochCache

    def terms(self) -> list[tuple[int, int, int]]:
        """Epoch, start and end of each term."""
        found = [(entry.epoch, entry.start_offset, entry.end_offset) for entry in self.cache.epoch_list]
        return [*found[:-1], (*found[-1][:2], self.cache.max_offset)] if found else []


class Epochs(Result, frozen=True):
    """The terms of masters in each replica's log."""

    row_type: ClassVar[type[Row]] = EpochRow
    found: list[AskedEpochs]

    def rows(self) -> Sequence[EpochRow]:
        return [
            EpochRow(
                cluster=one.cache.cluster_name,
                broker_name=one.cache.broker_name,
                broker_id=one.cache.broker_id,
                broker_addr=one.addr,
                epoch=epoch,
                start_offset=start,
                end_offset=end,
            )
            for one in self.found
            for epoch, start, end in _or_unknown(one.terms())
        ]

    def mqadmin_text(self) -> str:
        text = ""
        for one in self.found:
            cache = one.cache
            text += f"\n#clusterName\t{cache.cluster_name}\n#brokerName\t{cache.broker_name}"
            text += f"\n#brokerAddr\t{one.addr}\n#brokerId\t{cache.broker_id}"
            for epoch, start, end in one.terms():
                text += f"\n#Epoch: EpochEntry{{epoch={epoch}, startOffset={start}, endOffset={end}}}"
            text += "\n"
        return text


def _or_unknown(terms: list[tuple[int, int, int]]) -> Sequence[tuple[int | None, int | None, int | None]]:
    return terms or [(None, None, None)]


def get_broker_epoch(call: Call, broker_name: OneBrokerName = None, cluster_name: EveryBrokerName = None) -> Epochs:
    """Asks every replica, master and slaves. Brokers without a controller refuse.

    Examples:
      rmqadmin getBrokerEpoch -b broker-a
      rmqadmin getBrokerEpoch -c DefaultCluster --output wide
    """
    addrs = targets.replicas_of_all(named_brokers(call.admin, broker_name, cluster_name))
    answers = call.answers.of(call.admin.epoch_cache, addrs)
    return Epochs([AskedEpochs(addr, cache) for addr, cache in answers.items()])
