"""``brokerStatus``: shows what brokers say about their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, EveryReplicaToo
from rmqadmin.core import targets
from rmqadmin.core.results import Result, Row
from rmqadmin.core.servers.broker_answers import BrokerAnswer, ask_addrs, problem_of
from rmqadmin.core.servers.broker_state import StatusRow, status_rows


class BrokerStatus(Result, frozen=True):
    """What brokers say about their state, key by key."""

    row_type: ClassVar[type[Row]] = StatusRow
    answers: list[BrokerAnswer[dict[str, str]]]
    with_addr: bool

    @property
    def info_by_addr(self) -> dict[str, dict[str, str]]:
        return {answer.name: answer.body for answer in self.answers if answer.body is not None}

    def rows(self) -> Sequence[StatusRow]:
        return [row for addr, info in self.info_by_addr.items() for row in status_rows(addr, info)]

    def mqadmin_text(self) -> str:
        return "".join(
            f"{f'{addr:24} ' if self.with_addr else ''}{name:32}: {info[name]}\n"
            for addr, info in self.info_by_addr.items()
            for name in sorted(info)
        )

    def problem(self) -> str | None:
        return problem_of(self.answers)


def broker_status(call: Call, broker_addr: BrokerAddr = None, cluster_name: EveryReplicaToo = None) -> BrokerStatus:
    """With -c, shows every master and slave of the cluster.

    Examples:
      rmqadmin brokerStatus -b 127.0.0.1:10911
      rmqadmin brokerStatus -c DefaultCluster --output wide
      rmqadmin -o json brokerStatus -b 127.0.0.1:10911
    """
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    answers = ask_addrs({addr: addr for addr in addrs}, call.admin.broker_runtime_info)
    return BrokerStatus(answers, with_addr=cluster_name is not None)
