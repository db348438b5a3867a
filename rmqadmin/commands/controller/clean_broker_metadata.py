"""``cleanBrokerMetadata``: makes the controllers forget replicas of a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.controller_options import ControllerAddr, ReplicatedBroker
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out
from rmqadmin.core.servers.replicas import leader_addr
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.java.whole_numbers import whole_number


def clean_broker_metadata(
    call: Call,
    controller_address: ControllerAddr,
    broker_name: ReplicatedBroker,
    broker_ids: Annotated[
        str | None,
        Value.NAME,
        typer.Option("-b", "--brokerControllerIdsToClean", metavar="ID;...", help="These replicas only. Default: all."),
    ] = None,
    cluster_name: Annotated[
        str | None,
        Value.CLUSTER,
        typer.Option("-c", "--clusterName", metavar="CLUSTER", help="Cluster name; needed without -l."),
    ] = None,
    clean_living_broker: Annotated[
        bool,
        typer.Option("-l", "--cleanLivingBroker", help="Also forget replicas that are alive; then all are forgotten."),
    ] = False,
) -> Changes:
    """A forgotten replica cannot register again under its old identity: stop it, delete its brokerIdentity file and
    start it. With -l Apache's controllers ignore -b, so both together are an error.

    Examples:
      rmqadmin cleanBrokerMetadata -a 127.0.0.1:9878 -bn broker-a -c DefaultCluster -b 2 --dry-run
      rmqadmin cleanBrokerMetadata -a 127.0.0.1:9878 -bn broker-a -c DefaultCluster -b 2 --yes
    """
    admin, name = call.admin, broker_name.strip()
    ids = _parse_ids(broker_ids)
    if not clean_living_broker and cluster_name is None:
        raise UsageError("cleanLivingBroker option is false, clusterName option can not be empty.", hint="Add -c.")
    if clean_living_broker and ids is not None and not call.as_mqadmin:
        raise UsageError(
            "with -l the controller forgets all replicas, not only those of -b", hint="Leave out -b or -l."
        )
    leader = leader_addr(admin, controller_address)
    replicas = admin.replica_sets(leader, [name]).replicas_info_table.get(name)
    known = [] if replicas is None else [*replicas.in_sync_replicas, *replicas.not_in_sync_replicas]
    gone = [one for one in known if ids is None or clean_living_broker or one.broker_id in ids]
    changes = [FieldChange(f"{name} {one.broker_id}", one.broker_address, None) for one in gone]
    if not call.dry_run:
        call.confirm(f"This has the controllers forget {len(gone)} of {len(known)} replicas of {name}.", name)

    def act() -> None:
        admin.clean_broker_data(
            leader,
            name,
            call.now_ms(),
            cluster=None if cluster_name is None else cluster_name.strip(),
            broker_ids=ids,
            also_living=clean_living_broker,
        )

    rows = carry_out([Step(leader, "delete", changes, act)], dry_run=call.dry_run)
    return Changes(rows, None if call.dry_run else f"clear broker {name} metadata from controller success! \n")


def _parse_ids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(";") if part.strip()]
    found = [number for part in parts if (number := whole_number(part, LONG_MAX)) is not None]
    if not parts or len(found) < len(parts):
        raise UsageError(f"-b {text!r} is not a list of ids", hint="For example -b '1;2'.")
    return found
