"""``checkRocksdbCqWriteProgress``: makes brokers compare their consume queues in RocksDB with those in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import EveryMaster
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core import targets
from rmqadmin.core.results import Result, Row, doc, some_failed
from rmqproto.bodies.master import RocksDbProgress
from rmqproto.times import time_range

STATUSES = ("equal", "not equal", "under way", "error")
"""Names for the values of ``CheckRocksdbCqWriteResult.CheckStatus``."""

_ERROR = 3
_MONTH = "-30d"


class QueueCheckRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_addr: Annotated[str, doc("address of its master", wide=True)]
    status: Annotated[str, doc("under way: the broker writes to its log what it finds; or equal, not equal, error")]
    detail: Annotated[str | None, doc("what the broker says about it", sparse=True)]


class CheckedBroker(msgspec.Struct, frozen=True):
    broker_name: str
    broker_addr: str
    progress: RocksDbProgress


class QueueChecks(Result, frozen=True):
    """What brokers answer: they go on comparing."""

    row_type: ClassVar[type[Row]] = QueueCheckRow
    found: list[CheckedBroker]

    def rows(self) -> Sequence[QueueCheckRow]:
        return [
            QueueCheckRow(
                broker_name=one.broker_name,
                broker_addr=one.broker_addr,
                status=STATUSES[one.progress.check_status]
                if 0 <= one.progress.check_status < len(STATUSES)
                else str(one.progress.check_status),
                detail=one.progress.check_result,
            )
            for one in self.found
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            f"{one.broker_name} check error, please check log... errInfo: {one.progress.check_result}"
            if one.progress.check_status == _ERROR
            else f"{one.broker_name} check doing, please wait and get the result from log... \n"
            for one in self.found
        )

    def problem(self) -> str | None:
        said = [one.progress for one in self.found]
        return some_failed([str(one.check_result) if one.check_status == _ERROR else None for one in said], "broker")


def check_rocksdb_cq_write_progress(
    call: Call,
    cluster: EveryMaster = None,
    topic: Annotated[str, Value.TOPIC, typer.Option("-t", "--topic", metavar="TOPIC", help="This topic only.")] = "",
    check_from: Annotated[
        str,
        Value.NUMBER,
        typer.Option("-cf", "--checkFrom", metavar="TIME", help="Messages stored at or after this time."),
    ] = _MONTH,
) -> QueueChecks:
    """The brokers write the result to their logs. mqadmin asks the brokers of all clusters.

    Examples:
      rmqadmin checkRocksdbCqWriteProgress -c DefaultCluster
      rmqadmin checkRocksdbCqWriteProgress -c DefaultCluster -t OrderTopic -cf -1d
    """
    from_ms = time_range(check_from, None, call.now_ms(), "-cf", tell=call.notice).begin_ms or 0
    brokers = targets.named_cluster(call.admin, cluster)
    names = {broker.master_addr: broker.broker_name for broker in brokers if broker.master_addr}
    answers = call.answers.of(lambda addr: call.admin.check_rocksdb_queues(addr, topic.strip(), from_ms), names)
    return QueueChecks([CheckedBroker(names[addr], addr, said) for addr, said in answers.items()])
