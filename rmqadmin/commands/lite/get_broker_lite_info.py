"""``getBrokerLiteInfo``: shows brokers' counts of light queues and lite subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, EveryMaster
from rmqadmin.core import targets
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.broker_answers import BrokerAnswer, ask_addrs, mqadmin_error, problem_of
from rmqproto.bodies.lite import BrokerLiteInfo

_LINE = "{:<30} {:<17} {:<10} {:<14} {:<20} {:<17} {:<15} {:<18} {:<15}\n"


class BrokerLiteRow(Row, frozen=True):
    broker_addr: Annotated[str, doc("address of the broker", key=True)]
    store_type: Annotated[str | None, doc("how it keeps consume queues: default (files), RocksDB")] = None
    light_queue_count: Annotated[int | None, doc("light queues that it has")] = None
    light_queue_count_max: Annotated[int | None, doc("light queues that it may have")] = None
    subscription_count: Annotated[int | None, doc("lite topics subscribed to, of all clients together")] = None
    order_info_count: Annotated[int | None, doc("queues that are popped in order now", wide=True)] = None
    consume_queue_count: Annotated[int | None, doc("topics that have consume queues, light ones too", wide=True)] = None
    offset_table_count: Annotated[int | None, doc("topics and groups with committed offsets", wide=True)] = None
    waiting_client_count: Annotated[int | None, doc("clients with lite topics to be offered", wide=True)] = None
    expiry_by_topic: Annotated[
        dict[str, int] | None, doc("parent topics; minutes after which their lite topics go, -1: never", wide=True)
    ] = None
    groups_by_topic: Annotated[dict[str, list[str]] | None, doc("groups bound to each parent topic", wide=True)] = None
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class BrokerLiteInfos(Result, frozen=True):
    """Light queues and lite subscriptions, one row a broker."""

    row_type: ClassVar[type[Row]] = BrokerLiteRow
    found: list[BrokerAnswer[BrokerLiteInfo]]
    show_detail: bool

    def rows(self) -> Sequence[BrokerLiteRow]:
        return [_row(answer) for answer in self.found]

    def problem(self) -> str | None:
        return problem_of(self.found)

    def mqadmin_text(self) -> str:
        heads = ("#Broker", "#Store Type", "#Max LMQ", "#Current LMQ", "#SubscriptionCount", "#OrderInfoCount")
        head = _LINE.format(*heads, "#CQTableSize", "#OffsetTableSize", "#eventMapSize")
        return head + "".join(self._mqadmin_lines(answer) for answer in self.found)

    def _mqadmin_lines(self, answer: BrokerAnswer[BrokerLiteInfo]) -> str:
        info = answer.body
        if info is None:
            return mqadmin_error(answer)
        line = _LINE.format(
            answer.name, info.store_type, info.max_lmq_num, info.current_lmq_num, info.lite_subscription_count,
            info.order_info_count, info.cq_table_size, info.offset_table_size, info.event_map_size,
        )  # fmt: skip
        if not self.show_detail:
            return line
        return f"{line}Topic Meta: {_json(info.topic_meta)}\nGroup Meta: {_json(info.group_meta)}\n\n"


def _json(meta: dict[str, Any]) -> str:
    return msgspec.json.encode({name: meta[name] for name in sorted(meta) if meta[name] is not None}).decode()


def _row(answer: BrokerAnswer[BrokerLiteInfo]) -> BrokerLiteRow:
    info = answer.body
    if info is None:
        return BrokerLiteRow(broker_addr=answer.name, error=answer.error_text)
    return BrokerLiteRow(
        broker_addr=answer.name,
        store_type=info.store_type,
        light_queue_count=info.current_lmq_num,
        light_queue_count_max=info.max_lmq_num,
        subscription_count=info.lite_subscription_count,
        order_info_count=info.order_info_count,
        consume_queue_count=info.cq_table_size,
        offset_table_count=info.offset_table_size,
        waiting_client_count=info.event_map_size,
        expiry_by_topic=info.topic_meta,
        groups_by_topic=info.group_meta,
    )


def get_broker_lite_info(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryMaster = None,
    show_detail: Annotated[
        bool, typer.Option("-d", "--showDetail", help="For --output mqadmin: parent topics and groups too.")
    ] = False,
) -> BrokerLiteInfos:
    """One row a broker. --output wide shows parent topics and their groups. A broker that does not answer has a row
    that says why; the exit status is then 1.

    Examples:
      rmqadmin getBrokerLiteInfo -b 127.0.0.1:10911
      rmqadmin getBrokerLiteInfo -c DefaultCluster --output wide
    """
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    return BrokerLiteInfos(ask_addrs({addr: addr for addr in addrs}, call.admin.broker_lite_info), show_detail)
