"""``getParentTopicInfo``: shows how many lite topics a topic has, and which groups read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.lite_options import MQADMIN_NAME_WIDTH, ParentTopic
from rmqadmin.core.mqadmin_text import cut
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.broker_answers import BrokerAnswer, ask_brokers, mqadmin_error, problem_of
from rmqproto.bodies.lite import ParentTopicInfo

_LINE = "{:<50} {:<8} {:<14} {:<14} {:<100} \n"


class ParentTopicRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    lite_topic_count: Annotated[int | None, doc("lite topics of this topic on the broker", vital=True)] = None
    light_queue_count: Annotated[int | None, doc("light queues of the broker, of all topics")] = None
    expiry_minutes: Annotated[int | None, doc("a lite topic goes so long after its last message; -1: never")] = None
    groups: Annotated[list[str] | None, doc("groups bound to the topic")] = None
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class ParentTopicInfos(Result, frozen=True):
    """A topic's lite topics, one row a broker."""

    row_type: ClassVar[type[Row]] = ParentTopicRow
    parent_topic: str
    found: list[BrokerAnswer[ParentTopicInfo]]

    def rows(self) -> Sequence[ParentTopicRow]:
        return [_row(answer) for answer in self.found]

    def problem(self) -> str | None:
        return problem_of(self.found)

    def mqadmin_text(self) -> str:
        head = _LINE.format("#Broker Name", "#TTL", "#Lite Count", "#LMQ NUM", "#GROUPS")
        lines = [_mqadmin_line(answer) for answer in self.found]
        return f"Parent Topic Info: [{self.parent_topic}]\n" + head + "".join(lines)


def _row(answer: BrokerAnswer[ParentTopicInfo]) -> ParentTopicRow:
    info = answer.body
    if info is None:
        return ParentTopicRow(broker_name=answer.name, error=answer.error_text)
    return ParentTopicRow(
        broker_name=answer.name,
        lite_topic_count=info.lite_topic_count,
        light_queue_count=info.lmq_num,
        expiry_minutes=info.ttl,
        groups=info.groups or [],
    )


def _mqadmin_line(answer: BrokerAnswer[ParentTopicInfo]) -> str:
    info = answer.body
    if info is None:
        return mqadmin_error(answer)
    groups = "null" if info.groups is None else f"[{', '.join(sorted(info.groups))}]"
    name = cut(answer.name, MQADMIN_NAME_WIDTH)
    return _LINE.format(name, info.ttl, info.lite_topic_count, info.lmq_num, groups)


def get_parent_topic_info(call: Call, parent_topic: ParentTopic) -> ParentTopicInfos:
    """One row a broker of the topic. One that refuses has a row that says why; the exit status is then 1.

    Examples:
      rmqadmin getParentTopicInfo -p SessionTopic
      rmqadmin -o json getParentTopicInfo -p SessionTopic
    """
    topic = parent_topic.strip()
    brokers = call.admin.topic_route(topic).broker_datas
    return ParentTopicInfos(topic, ask_brokers(brokers, lambda addr: call.admin.parent_topic_info(addr, topic)))
