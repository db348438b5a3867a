"""``brokerStatus``: shows what brokers say about their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.results import Result, Row
from rmqadmin.core.servers.broker_state import StatusRow, status_rows
from rmqadmin.options.command_options import BrokerAddr, EveryReplicaToo
from rmqproto.errors import RocketMQError


class BrokerStatus(Result, frozen=True):
    """What brokers say about their state, key by key."""

    row_type: ClassVar[type[Row]] = StatusRow
    info_by_addr: dict[str, dict[str, str]]
    with_addr: bool
    errors: list[str]

    def rows(self) -> Sequence[StatusRow]:
        return [row for addr, info in self.info_by_addr.items() for row in status_rows(addr, info)]

    def mqadmin_text(self) -> str:
        return "".join(
            f"{f'{addr:24} ' if self.with_addr else ''}{name:32}: {info[name]}\n"
            for addr, info in self.info_by_addr.items()
            for name in sorted(info)
        )

    def problem(self) -> str | None:
        return "; ".join(self.errors) or None


def broker_status(call: Call, broker_addr: BrokerAddr = None, cluster_name: EveryReplicaToo = None) -> BrokerStatus:
    """With -c, shows every master and slave of the cluster.

    Examples:
      rmqadmin brokerStatus -b 127.0.0.1:10911
      rmqadmin brokerStatus -c DefaultCluster --output wide
      rmqadmin -o json brokerStatus -b 127.0.0.1:10911
    """
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    if cluster_name is None:
        return BrokerStatus({addrs[0]: call.admin.broker_runtime_info(addrs[0])}, with_addr=False, errors=[])
    found, errors = {}, []
    for addr, answer in zip(addrs, targets.ask_each(lambda addr: _ask(call, addr), addrs), strict=True):
        if isinstance(answer, RocketMQError):
            errors.append(str(answer))
        else:
            found[addr] = answer
    return BrokerStatus(found, with_addr=True, errors=errors)


def _ask(call: Call, addr: str) -> dict[str, str] | RocketMQError:
    try:
        return call.admin.broker_runtime_info(addr)
    except RocketMQError as error:
        return error
