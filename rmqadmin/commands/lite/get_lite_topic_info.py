"""``getLiteTopicInfo``: shows the offsets and subscribers of one lite topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.lite_options import MQADMIN_NAME_WIDTH, ParentTopic, time_or
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.mqadmin_text import cut, java_bool
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqadmin.core.servers.broker_answers import BrokerAnswer, ask_brokers, mqadmin_error, problem_of
from rmqproto.bodies.lite import LiteTopicInfo
from rmqproto.names import lite_queue_name

_LINE = "{:<50} {:<14} {:<14} {:<30} {:<12} {:<18} \n"


class LiteTopicRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    min_offset: Annotated[int | None, doc("queue offset of the oldest message")] = None
    max_offset: Annotated[int | None, doc("queue offset that the next message will get")] = None
    last_updated_ms: Annotated[int | None, TIME, doc("when the newest message was stored")] = None
    is_kept_here: Annotated[bool | None, doc("whether the lite topic belongs to this broker")] = None
    subscribers: Annotated[list[str] | None, doc("clients and groups that subscribe to it, as client@group")] = None
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class LiteTopicInfos(Result, frozen=True):
    """A lite topic, one row a broker."""

    row_type: ClassVar[type[Row]] = LiteTopicRow
    parent_topic: str
    lite_topic: str
    found: list[BrokerAnswer[LiteTopicInfo]]
    show_client_id: bool

    def rows(self) -> Sequence[LiteTopicRow]:
        return [_row(answer) for answer in self.found]

    def problem(self) -> str | None:
        return problem_of(self.found)

    def mqadmin_text(self) -> str:
        queue = lite_queue_name(self.parent_topic, self.lite_topic)
        heads = ("#Broker Name", "#MinOffset", "#MaxOffset", "#LastUpdate", "#Sharding", "#SubClientCount")
        lines = [self._mqadmin_lines(answer) for answer in self.found]
        title = f"Lite Topic Info: [{self.parent_topic}] [{self.lite_topic}] [{queue}]\n"
        return title + _LINE.format(*heads) + "".join(lines)

    def _mqadmin_lines(self, answer: BrokerAnswer[LiteTopicInfo]) -> str:
        info = answer.body
        if info is None:
            return mqadmin_error(answer)
        ends, clients = info.topic_offset, _subscribers(info)
        line = _LINE.format(
            cut(answer.name, MQADMIN_NAME_WIDTH),
            ends.min_offset,
            ends.max_offset,
            time_or("-", ends.last_update_timestamp),
            java_bool(info.sharding_to_broker),
            len(clients),
        )
        return line + (f"[{', '.join(clients)}]\n" if self.show_client_id else "")


def _subscribers(info: LiteTopicInfo) -> list[str]:
    return [f"{one.client_id}@{one.group}" for one in info.subscriber or []]


def _row(answer: BrokerAnswer[LiteTopicInfo]) -> LiteTopicRow:
    info = answer.body
    if info is None:
        return LiteTopicRow(broker_name=answer.name, error=answer.error_text)
    return LiteTopicRow(
        broker_name=answer.name,
        min_offset=info.topic_offset.min_offset,
        max_offset=info.topic_offset.max_offset,
        last_updated_ms=info.topic_offset.last_update_timestamp or None,
        is_kept_here=info.sharding_to_broker,
        subscribers=_subscribers(info),
    )


def get_lite_topic_info(
    call: Call,
    parent_topic: ParentTopic,
    lite_topic: Annotated[
        str, Value.NAME, typer.Option("-l", "--liteTopic", metavar="NAME", help="Name of the lite topic.")
    ],
    show_client_id: Annotated[
        bool, typer.Option("-s", "--showClientId", help="For --output mqadmin: name the clients.")
    ] = False,
) -> LiteTopicInfos:
    """One row a broker of the parent topic. A lite topic without messages has the offsets 0.

    Examples:
      rmqadmin getLiteTopicInfo -p SessionTopic -l session-1
      rmqadmin -o json getLiteTopicInfo -p SessionTopic -l session-1
    """
    topic, name = parent_topic.strip(), lite_topic.strip()
    brokers = call.admin.topic_route(topic).broker_datas
    found = ask_brokers(brokers, lambda addr: call.admin.lite_topic_info(addr, topic, name))
    return LiteTopicInfos(topic, name, found, show_client_id)
