"""``electMaster``: makes one replica of a broker the master."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG
from rmqadmin.cli.options.controller_options import ControllerAddr, ReplicatedBroker
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.not_elected import what_to_do
from rmqadmin.core.servers.replicas import leader_addr
from rmqproto.codes import ResponseCode as C
from rmqproto.errors import RefusedError


class MasterRow(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name", wide=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    master_before: Annotated[str | None, doc("address of the master before; none if there was none")]
    master_addr: Annotated[
        str | None, doc("address of the master now; under --dry-run, of the replica that was named", vital=True)
    ]
    master_epoch: Annotated[int | None, doc("how often the broker got a master")]
    sync_state_set_epoch: Annotated[int | None, doc("how often the set of in-sync replicas changed")]
    replica_addrs: Annotated[dict[int, str], doc("addresses of the replicas by broker id")]
    done: Annotated[bool, doc("false under --dry-run", vital=True)]


class Election(Result, frozen=True):
    """The master before and after."""

    row_type: ClassVar[type[Row]] = MasterRow
    row: MasterRow

    def rows(self) -> Sequence[MasterRow]:
        return [self.row]

    def mqadmin_text(self) -> str | None:
        row = self.row
        if not row.done:
            return None
        members = "".join(f"\t#Broker\t{broker_id}\t{addr}\n" for broker_id, addr in row.replica_addrs.items())
        return (
            f"\n#ClusterName\t{row.cluster}\n#BrokerName\t{row.broker_name}"
            f"\n#BrokerMasterAddr\t{java_text(row.master_addr)}\n#MasterEpoch\t{java_text(row.master_epoch)}"
            f"\n#SyncStateSetEpoch\t{java_text(row.sync_state_set_epoch)}\n{members}"
        )


def elect_master(
    call: Call,
    controller_address: ControllerAddr,
    broker_id: Annotated[
        int, LONG, typer.Option("-b", "--brokerId", min=0, help="The replica's id at the controller.")
    ],
    broker_name: ReplicatedBroker,
    cluster_name: Annotated[
        str, Value.CLUSTER, typer.Option("-c", "--clusterName", metavar="CLUSTER", help="Cluster name.")
    ],
) -> Election:
    """The controller refuses a replica that is the master already, and one that may not lead. mqadmin 5.5.0 cannot read
    the answer of a 5.5.0 controller: it shows an error although the election was done.

    Examples:
      rmqadmin electMaster -a 127.0.0.1:9878 -bn broker-a -b 2 -c DefaultCluster --dry-run
      rmqadmin electMaster -a 127.0.0.1:9878 -bn broker-a -b 2 -c DefaultCluster --yes
    """
    admin, name, cluster = call.admin, broker_name.strip(), cluster_name.strip()
    leader = leader_addr(admin, controller_address)
    replicas = admin.replica_sets(leader, [name]).replicas_info_table.get(name)
    known = [] if replicas is None else [*replicas.in_sync_replicas, *replicas.not_in_sync_replicas]
    before = None if replicas is None else replicas.master_address
    if call.dry_run:
        row = MasterRow(
            cluster=cluster,
            broker_name=name,
            master_before=before,
            master_addr=next((one.broker_address for one in known if one.broker_id == broker_id), None),
            master_epoch=None if replicas is None else replicas.master_epoch,
            sync_state_set_epoch=None if replicas is None else replicas.sync_state_set_epoch,
            replica_addrs={one.broker_id: one.broker_address for one in known},
            done=False,
        )
        return Election(row)
    call.confirm(f"This makes the replica {broker_id} of {name} the master; now it is {before or 'nobody'}.", name)
    try:
        answer, body = admin.elect_master(leader, cluster, name, broker_id, call.now_ms())
    except RefusedError as error:
        if error.code in (C.CONTROLLER_ELECT_MASTER_FAILED, C.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED):
            error.hint = what_to_do(replicas, name, broker_id)
        raise
    members = body.broker_member_group
    row = MasterRow(
        cluster=cluster,
        broker_name=name,
        master_before=before,
        master_addr=answer.master_address,
        master_epoch=answer.master_epoch,
        sync_state_set_epoch=answer.sync_state_set_epoch,
        replica_addrs={} if members is None else members.broker_addrs,
        done=True,
    )
    return Election(row)
