"""``getLiteClientInfo``: shows the lite topics that a client has subscribed to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Group
from rmqadmin.cli.options.lite_options import ParentTopic, time_or
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqadmin.core.servers.broker_answers import BrokerAnswer, ask_brokers, mqadmin_error, problem_of
from rmqproto.bodies.lite import LiteClientInfo

_LINE = "{:<30} {:<20} {:<30} {:<30} \n"
_UNKNOWN = "N/A"


class LiteClientRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    lite_topic_count: Annotated[int | None, doc("lite topics that it has subscribed to; none if it is unknown")] = None
    last_access_ms: Annotated[int | None, TIME, doc("when it last spoke of its subscription")] = None
    last_consume_ms: Annotated[int | None, TIME, doc("when it last got messages")] = None
    light_queues: Annotated[list[str] | None, doc("the light queues of its lite topics, at most 1000", wide=True)] = (
        None
    )
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class LiteClientInfos(Result, frozen=True):
    """A client's lite topics, one row a broker."""

    row_type: ClassVar[type[Row]] = LiteClientRow
    title: str
    found: list[BrokerAnswer[LiteClientInfo]]
    show_detail: bool

    def rows(self) -> Sequence[LiteClientRow]:
        return [_row(answer) for answer in self.found]

    def problem(self) -> str | None:
        return problem_of(self.found)

    def mqadmin_text(self) -> str:
        head = _LINE.format("#Broker", "#LiteTopicCount", "#LastAccessTime", "#LastConsumeTime")
        return f"Lite Client Info: {self.title}\n" + head + "".join(self._mqadmin_lines(one) for one in self.found)

    def _mqadmin_lines(self, answer: BrokerAnswer[LiteClientInfo]) -> str:
        info = answer.body
        if info is None:
            return mqadmin_error(answer)
        count = info.lite_topic_count if info.lite_topic_count > 0 else _UNKNOWN
        times = (time_or(_UNKNOWN, info.last_access_time), time_or(_UNKNOWN, info.last_consume_time))
        line = _LINE.format(answer.name, count, *times)
        if not self.show_detail or info.lite_topic_set is None:
            return line
        return f"{line}Lite Topics: [{', '.join(sorted(info.lite_topic_set))}]\n\n"


def _row(answer: BrokerAnswer[LiteClientInfo]) -> LiteClientRow:
    info = answer.body
    if info is None:
        return LiteClientRow(broker_name=answer.name, error=answer.error_text)
    return LiteClientRow(
        broker_name=answer.name,
        lite_topic_count=info.lite_topic_count if info.lite_topic_count >= 0 else None,
        last_access_ms=_known(info.last_access_time),
        last_consume_ms=_known(info.last_consume_time),
        light_queues=info.lite_topic_set,
    )


def _known(time_ms: int) -> int | None:
    return time_ms if time_ms > 0 else None


def get_lite_client_info(
    call: Call,
    parent_topic: ParentTopic,
    group: Group,
    client_id: Annotated[
        str, Value.CLIENT, typer.Option("-c", "--clientId", metavar="CLIENT", help="Id of the client.")
    ],
    show_detail: Annotated[
        bool, typer.Option("-s", "--showDetail", help="For --output mqadmin: name the light queues.")
    ] = False,
) -> LiteClientInfos:
    """One row a broker of the parent topic. --output wide names the light queues.

    Examples:
      rmqadmin getLiteClientInfo -p SessionTopic -g SessionGroup -c 192.168.0.7@1
      rmqadmin getLiteClientInfo -p SessionTopic -g SessionGroup -c 192.168.0.7@1 --output wide
    """
    topic, name, client = parent_topic.strip(), group.strip(), client_id.strip()
    brokers = call.admin.topic_route(topic).broker_datas
    found = ask_brokers(brokers, lambda addr: call.admin.lite_client_info(addr, topic, name, client))
    return LiteClientInfos(f"[{topic}] [{name}] [{client}]", found, show_detail)
