"""What name servers keep beside routes: key-value tables, and write permissions of brokers."""

from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change
from rmqadmin.cli.options.command_options import BrokerName, Key, Namespace
from rmqadmin.cli.options.common_options import option
from rmqadmin.core.changes import Changes
from rmqadmin.core.servers.namesrv_tables import WritePerms, change_write_perm, delete_steps, put_steps, require_broker
from rmqproto.wording import counted


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
