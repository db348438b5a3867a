"""Configurations of brokers, name servers and controllers; and what name servers keep beside routes: key-value tables,
and write permissions of brokers. A changed property is read back, because brokers report success for properties that
they do not understand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change, line_each
from rmqadmin.cli.options.command_options import (
    BrokerName,
    ControllerAddrs,
    Key,
    Masters,
    Namespace,
    Property,
    PropertyValue,
    Replicas,
)
from rmqadmin.cli.options.common_options import option
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqadmin.core.servers.namesrv_tables import WritePerms, change_write_perm, delete_steps, put_steps, require_broker
from rmqadmin.core.servers.server_configs import (
    Configs,
    ReadProperties,
    plan_broker_property,
    plan_property,
    read_configs,
    replica_headings,
)
from rmqclient.addresses import parse_addresses
from rmqproto.wording import counted


def get_broker_config(call: Call, where: Replicas) -> Configs:
    """With -c, shows every master and slave of the cluster.

    rmqadmin getBrokerConfig -b 127.0.0.1:10911
    rmqadmin getBrokerConfig -c DefaultCluster --output wide
    """
    wanted = replica_headings(call.admin, where.broker_addr, where.cluster_name)
    return read_configs(wanted, call.admin.broker_config, as_mqadmin=call.as_mqadmin, mqadmin_end="\n")


def update_broker_config(
    call: Call,
    key: Property,
    value: PropertyValue,
    where: Masters,
    update_all_broker: Annotated[
        str | None, option("-a", "--updateAllBroker", "With -c and any value: slaves too.")
    ] = None,
) -> Changes:
    """Reads the value back: an unknown property, or a value that a broker does not understand, is an error. mqadmin
    calls that a success, and so does --output mqadmin.

      rmqadmin updateBrokerConfig -b 127.0.0.1:10911 -k traceOn -v true
      rmqadmin updateBrokerConfig -b 127.0.0.1:10911 -k brokerPermission -v R --dry-run
      rmqadmin updateBrokerConfig -c DefaultCluster -k fileReservedTime -v 48 --dry-run
    """
    admin, value = call.admin, value.strip()
    find = targets.masters if update_all_broker is None else targets.replicas
    steps = plan_each(
        find(admin, where.broker_addr, where.cluster_name),
        lambda addr: plan_broker_property(admin, addr, key, value, is_checked=not call.as_mqadmin),
    )
    return change(call, steps, line_each("update broker config success, {}\n"))


def get_namesrv_config(call: Call) -> Configs:
    """Shows every name server of -n.

    rmqadmin getNamesrvConfig
    rmqadmin getNamesrvConfig -n '127.0.0.1:9876' --output wide
    """
    wanted = [(addr, f"============{addr}============\n") for addr in call.admin.namesrv_addrs]
    return read_configs(wanted, call.admin.namesrv_config, as_mqadmin=call.as_mqadmin)


def update_namesrv_config(call: Call, key: Property, value: PropertyValue) -> Changes:
    """Changes every name server of -n. An unknown property is an error; mqadmin calls that a success, and so does
    --output mqadmin.

      rmqadmin updateNamesrvConfig -k orderMessageEnable -v true
      rmqadmin updateNamesrvConfig -n '127.0.0.1:9876' -k clusterTest -v false --dry-run
    """
    admin = call.admin
    named = "" if call.namesrv_option is None else f"[{', '.join(admin.namesrv_addrs)}]"
    asked = (admin.namesrv_addrs, admin.namesrv_config, admin.update_namesrv_config)
    return _change_servers(call, "name server", "-n", *asked, key, value, named)


def get_controller_config(call: Call, controller_address: ControllerAddrs) -> Configs:
    """Shows every controller that -a names.

    rmqadmin getControllerConfig -a 127.0.0.1:9878
    rmqadmin getControllerConfig -a '127.0.0.1:9878;127.0.0.1:9878' --output wide
    """
    wanted = [(addr, f"============{addr}============\n") for addr in parse_addresses(controller_address)]
    return read_configs(wanted, call.admin.controller_config, as_mqadmin=call.as_mqadmin)


def update_controller_config(
    call: Call, controller_address: ControllerAddrs, key: Property, value: PropertyValue
) -> Changes:
    """Changes every controller that -a names. An unknown property is an error; mqadmin calls that a success, and so
    does --output mqadmin.

      rmqadmin updateControllerConfig -a 127.0.0.1:9878 -k scanNotActiveBrokerInterval -v 3000
      rmqadmin updateControllerConfig -a 127.0.0.1:9878 -k scanNotActiveBrokerInterval -v 3000 --dry-run
    """
    addrs = parse_addresses(controller_address)
    asked = (addrs, call.admin.controller_config, call.admin.update_controller_config)
    return _change_servers(call, "controller", "-a", *asked, key, value, f"[{', '.join(addrs)}]")


def _change_servers(
    call: Call,
    kind: str,
    flag: str,
    addrs: Sequence[str],
    read: ReadProperties,
    write: Callable[[str, Mapping[str, str]], None],
    key: str,
    value: str,
    named: str,
) -> Changes:
    """Changes one property of servers that are no brokers. ``flag`` names them; ``named`` stands in mqadmin's text."""
    value, listing = value.strip(), call.command.replace("update", "get")

    def plan(addr: str) -> Step:
        return plan_property(
            f"{kind} {addr}", addr, key, value, read=read, write=write, is_checked=not call.as_mqadmin,
            listing=f"rmqadmin {listing} {flag} {addr}", undo=[call.command, flag, addr],
        )  # fmt: skip

    said = f"update {kind} config success!{named}\n{key} : {value}\n"
    return change(call, plan_each(addrs, plan), lambda _done: said)


def update_kv_config(
    call: Call,
    namespace: Namespace,
    key: Key,
    value: Annotated[str, option("-v", "--value", "The value.", metavar="TEXT")],
) -> Changes:
    """Changes every name server of -n. updateOrderConf writes the namespace ORDER_TOPIC_CONFIG.

    rmqadmin updateKvConfig -s MY_NAMESPACE -k colour -v green
    rmqadmin updateKvConfig -s MY_NAMESPACE -k colour -v green --dry-run
    """
    steps = put_steps(call.admin, namespace.strip(), key, value.strip())
    return change(call, steps, lambda _done: "create or update kv config to namespace success.\n")


def delete_kv_config(call: Call, namespace: Namespace, key: Key) -> Changes:
    """Changes every name server of -n. As in mqadmin, a missing key is not an error.

    rmqadmin deleteKvConfig -s MY_NAMESPACE -k colour
    rmqadmin deleteKvConfig -s MY_NAMESPACE -k colour --dry-run
    """
    namespace = namespace.strip()
    steps = delete_steps(call.admin, namespace, key)
    call.confirm(
        f"This deletes the key {key} from the namespace {namespace} of {counted(len(steps), 'name server')}.", key
    )
    return change(call, steps, lambda _done: "delete kv config from namespace success.\n")


def wipe_write_perm(call: Call, broker_name: BrokerName) -> WritePerms:
    """Producers switch to other brokers when they next ask for their routes, which they do every 30 s. Consumers keep
    reading.

      rmqadmin wipeWritePerm -b broker-a --dry-run
      rmqadmin wipeWritePerm -b broker-a --yes
    """
    if not call.as_mqadmin:
        require_broker(call.admin, broker_name)
    call.confirm(f"This takes the write permission from all topics of the broker {broker_name}.", broker_name)
    return change_write_perm(call.admin, broker_name, may_write=False, dry_run=call.dry_run)


def add_write_perm(call: Call, broker_name: BrokerName) -> WritePerms:
    """Every topic of the broker becomes readable and writable, whatever it was before it was wiped.

    rmqadmin addWritePerm -b broker-a
    rmqadmin addWritePerm -b broker-a --dry-run
    """
    if not call.as_mqadmin:
        require_broker(call.admin, broker_name)
    return change_write_perm(call.admin, broker_name, may_write=True, dry_run=call.dry_run)
