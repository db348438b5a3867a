"""``getSyncStateSet``: shows which replicas of a broker are in sync, according to the controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.controller_options import ControllerAddr, EveryBrokerName, OneBrokerName
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import java_bool, java_text
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.replicas import leader_addr
from rmqproto.bodies.replication import ReplicaIdentity, ReplicaSet
from rmqproto.errors import NotFoundError


class ReplicaRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_id: Annotated[int, doc("the id that the controller gave it", key=True)]
    broker_addr: Annotated[str, doc("its address")]
    is_master: Annotated[bool, doc("whether it is the master now", vital=True)]
    in_sync: Annotated[bool, doc("whether it may become the master without losing messages", vital=True)]
    alive: Annotated[bool, doc("whether the controller hears of it")]
    master_epoch: Annotated[int, doc("how often the broker got a master")]
    sync_state_set_epoch: Annotated[int, doc("how often the set of in-sync replicas changed")]


class SyncStates(Result, frozen=True):
    """Replicas, as the controller sees them."""

    row_type: ClassVar[type[Row]] = ReplicaRow
    found: dict[str, ReplicaSet]

    def rows(self) -> Sequence[ReplicaRow]:
        return [
            ReplicaRow(
                broker_name=name,
                broker_id=replica.broker_id,
                broker_addr=replica.broker_address,
                is_master=replica.broker_id == one.master_broker_id,
                in_sync=replica in one.in_sync_replicas,
                alive=replica.alive,
                master_epoch=one.master_epoch,
                sync_state_set_epoch=one.sync_state_set_epoch,
            )
            for name, one in sorted(self.found.items())
            for replica in [*one.in_sync_replicas, *one.not_in_sync_replicas]
        ]

    def mqadmin_text(self) -> str:
        text = ""
        for name in sorted(self.found):
            one = self.found[name]
            text += (
                f"\n#brokerName\t{name}\n#MasterBrokerId\t{java_text(one.master_broker_id)}\n"
                f"#MasterAddr\t{java_text(one.master_address)}\n#MasterEpoch\t{one.master_epoch}\n"
                f"#SyncStateSetEpoch\t{one.sync_state_set_epoch}\n#SyncStateSetNums\t{len(one.in_sync_replicas)}\n"
            )
            text += "".join(f"\nInSyncReplica:\t{_replica_text(replica)}\n" for replica in one.in_sync_replicas)
            text += "".join(f"\nNotInSyncReplica:\t{_replica_text(replica)}\n" for replica in one.not_in_sync_replicas)
        return text


def _replica_text(replica: ReplicaIdentity) -> str:
    """``ReplicaIdentity.toString``."""
    return (
        f"ReplicaIdentity{{brokerName='{replica.broker_name}', brokerId={replica.broker_id}, "
        f"brokerAddress='{replica.broker_address}', alive={java_bool(replica.alive)}}}"
    )


def get_sync_state_set(
    call: Call,
    controller_address: ControllerAddr,
    broker_name: OneBrokerName = None,
    cluster_name: EveryBrokerName = None,
) -> SyncStates:
    """Asks the leading controller. It does not know brokers that run without a controller.

    Examples:
      rmqadmin getSyncStateSet -a 127.0.0.1:9878 -b broker-a
      rmqadmin getSyncStateSet -a 127.0.0.1:9878 -c DefaultCluster --watch
    """
    targets.check_one_of(broker_name, cluster_name)
    if cluster_name is None:
        names = [(broker_name or "").strip()]
    else:
        names = [broker.broker_name for broker in targets.cluster(call.admin, cluster_name)]
    leader = leader_addr(call.admin, controller_address)
    found = call.admin.replica_sets(leader, names).replicas_info_table
    if not found and not call.as_mqadmin:
        raise NotFoundError(
            f"the controller {leader} knows no broker {', '.join(names)}",
            hint="Brokers register with it if enableControllerMode=true.",
        )
    return SyncStates(found)
