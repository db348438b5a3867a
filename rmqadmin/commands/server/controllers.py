"""Controllers: who leads, and what they are told to decide or forget."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change
from rmqadmin.cli.options.command_options import LONG, ControllerAddr, ReplicatedBroker
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import Changes, FieldChange, Step
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import FoundRows, ResultOf, Row, doc
from rmqadmin.core.servers.meant_brokers import controllers_meta, leader_addr
from rmqproto.bodies.replication import ReplicaIdentity, ReplicaSet
from rmqproto.codes import ResponseCode as C
from rmqproto.errors import RefusedError, UsageError
from rmqproto.headers.controller import ControllerMetaAnswer
from rmqproto.java.java_numbers import LONG_MAX, whole_number


class ControllerRow(Row, frozen=True):
    controller_id: Annotated[str, doc("id of the controller", key=True)]
    controller_addr: Annotated[str, doc("its address")]
    is_leader: Annotated[bool, doc("whether it leads the group", vital=True)]


class ControllerFacts(Row, frozen=True):
    group: Annotated[str | None, doc("name of the group of controllers")]
    leader_id: Annotated[str | None, doc("id of the controller that leads; none if there is none now")]
    leader_addr: Annotated[str | None, doc("its address")]


class Controllers(ResultOf[ControllerRow], frozen=True):
    """The controllers of a group."""

    meta: ControllerMetaAnswer

    @property
    def _peers(self) -> list[str]:
        return [peer for peer in self.meta.peers.split(";") if peer]

    def rows(self) -> Sequence[ControllerRow]:
        return [
            ControllerRow(controller_id=name, controller_addr=addr, is_leader=name == self.meta.controller_leader_id)
            for name, _, addr in (peer.partition(":") for peer in self._peers)
        ]

    def summary(self) -> ControllerFacts:
        meta = self.meta
        return ControllerFacts(
            group=meta.group,
            leader_id=meta.controller_leader_id or None,
            leader_addr=meta.controller_leader_address or None,
        )

    def mqadmin_text(self) -> str:
        meta = self.meta
        return (
            f"\n#ControllerGroup\t{java_text(meta.group)}\n#ControllerLeaderId\t{java_text(meta.controller_leader_id)}\n"
            f"#ControllerLeaderAddress\t{java_text(meta.controller_leader_address)}\n"
        ) + "".join(f"#Peer:\t{peer}\n" for peer in self._peers)


def get_controller_meta_data(call: Call, controller_address: ControllerAddr) -> Controllers:
    """One row a controller.

    rmqadmin getControllerMetaData -a 127.0.0.1:9878
    rmqadmin -o json getControllerMetaData -a 127.0.0.1:9878
    """
    return Controllers(controllers_meta(call.admin, controller_address))


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


class Election(FoundRows[MasterRow], frozen=True):
    """The master before and after."""

    def mqadmin_text(self) -> str | None:
        (row,) = self.found
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
    broker_id: Annotated[int, LONG, option("-b", "--brokerId", "The replica's id at the controller.", min=0)],
    broker_name: ReplicatedBroker,
    cluster_name: Annotated[str, Value.CLUSTER, option("-c", "--clusterName", "Cluster name.")],
) -> Election:
    """The controller refuses a replica that is the master already, and one that may not lead. mqadmin 5.5.0 cannot read
    the answer of a 5.5.0 controller: it shows an error although the election was done.

      rmqadmin electMaster -a 127.0.0.1:9878 -bn broker-a -b 2 -c DefaultCluster --dry-run
      rmqadmin electMaster -a 127.0.0.1:9878 -bn broker-a -b 2 -c DefaultCluster --yes
    """
    admin = call.admin
    leader = leader_addr(admin, controller_address)
    replicas, known = _replicas(admin, leader, broker_name)
    before = None if replicas is None else replicas.master_address
    planned = MasterRow(
        cluster=cluster_name,
        broker_name=broker_name,
        master_before=before,
        master_addr=next((one.broker_address for one in known if one.broker_id == broker_id), None),
        master_epoch=None if replicas is None else replicas.master_epoch,
        sync_state_set_epoch=None if replicas is None else replicas.sync_state_set_epoch,
        replica_addrs={one.broker_id: one.broker_address for one in known},
        done=False,
    )
    if call.dry_run:
        return Election([planned])
    call.confirm(
        f"This makes the replica {broker_id} of {broker_name} the master; now it is {before or 'nobody'}.", broker_name
    )
    try:
        answer, body = admin.elect_master(leader, cluster_name, broker_name, broker_id, call.now_ms())
    except RefusedError as error:
        if error.code in (C.CONTROLLER_ELECT_MASTER_FAILED, C.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED):
            error.hint = what_to_do(replicas, broker_name, broker_id)
        raise
    members = body.broker_member_group
    row = msgspec.structs.replace(
        planned,
        master_addr=answer.master_address,
        master_epoch=answer.master_epoch,
        sync_state_set_epoch=answer.sync_state_set_epoch,
        replica_addrs={} if members is None else members.broker_addrs,
        done=True,
    )
    return Election([row])


def _replicas(admin: AdminClient, leader: str, broker_name: str) -> tuple[ReplicaSet | None, list[ReplicaIdentity]]:
    """What the leading controller knows of a broker name, and all its replicas."""
    found = admin.replica_sets(leader, [broker_name]).replicas_info_table.get(broker_name)
    return found, [] if found is None else [*found.in_sync_replicas, *found.not_in_sync_replicas]


def clean_broker_metadata(
    call: Call,
    controller_address: ControllerAddr,
    broker_name: ReplicatedBroker,
    broker_ids: Annotated[
        str | None,
        Value.NAME,
        option("-b", "--brokerControllerIdsToClean", "These replicas only. Default: all.", metavar="ID;..."),
    ] = None,
    cluster_name: Annotated[
        str | None, Value.CLUSTER, option("-c", "--clusterName", "Cluster name; needed without -l.")
    ] = None,
    clean_living_broker: Annotated[
        bool, option("-l", "--cleanLivingBroker", "Also forget replicas that are alive; then all are forgotten.")
    ] = False,
) -> Changes:
    """A forgotten replica cannot register again under its old identity: stop it, delete its brokerIdentity file and
    start it. With -l Apache's controllers ignore -b, so both together are an error.

      rmqadmin cleanBrokerMetadata -a 127.0.0.1:9878 -bn broker-a -c DefaultCluster -b 2 --dry-run
      rmqadmin cleanBrokerMetadata -a 127.0.0.1:9878 -bn broker-a -c DefaultCluster -b 2 --yes
    """
    admin = call.admin
    ids = _parse_ids(broker_ids)
    if not clean_living_broker and cluster_name is None:
        raise UsageError("cleanLivingBroker option is false, clusterName option can not be empty.", hint="Add -c.")
    if clean_living_broker and ids is not None and not call.as_mqadmin:
        raise UsageError(
            "with -l the controller forgets all replicas, not only those of -b", hint="Leave out -b or -l."
        )
    leader = leader_addr(admin, controller_address)
    _, known = _replicas(admin, leader, broker_name)
    gone = [one for one in known if ids is None or clean_living_broker or one.broker_id in ids]
    changes = [FieldChange(f"{broker_name} {one.broker_id}", one.broker_address, None) for one in gone]
    call.confirm(f"This has the controllers forget {len(gone)} of {len(known)} replicas of {broker_name}.", broker_name)

    act = partial(
        admin.clean_broker_data, leader, broker_name, call.now_ms(),
        cluster=cluster_name, broker_ids=ids, also_living=clean_living_broker,
    )  # fmt: skip
    said = f"clear broker {broker_name} metadata from controller success! \n"
    foretold, living = None, [one.broker_id for one in gone if one.alive]
    if living and not clean_living_broker:
        which = broker_name if ids is None else f"[{broker_name},  {living[0]}]"
        remark = f"Broker {which} is still alive, clean up failure"
        foretold = RefusedError(C.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark, address=leader)
    return change(call, [Step(leader, "delete", changes, act, foretold=foretold)], lambda _done: said)


def _parse_ids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(";") if part.strip()]
    found = [number for part in parts if (number := whole_number(part, LONG_MAX)) is not None]
    if not parts or len(found) < len(parts):
        raise UsageError(f"-b {text!r} is not a list of ids", hint="For example -b '1;2'.")
    return found


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
