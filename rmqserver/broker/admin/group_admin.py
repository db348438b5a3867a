"""Consumer groups, for tools: create, change, delete, list, and forbid topics (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

import msgspec

from rmqproto.bodies.groups import SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.bodies.statistics import GroupForbidden
from rmqproto.codes import ResponseCode
from rmqproto.headers.tables import AllGroupsHeader
from rmqproto.names import group_problem
from rmqserver.broker.admin.topic_admin import page
from rmqserver.broker.stats import BrokerStats
from rmqserver.broker.tables.attributes import GROUP_ATTRIBUTES, alter
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.config.broker_config import QUEUE_NUMS_MAX, BrokerConfig
from rmqserver.operation import Refused

LITE_ATTRIBUTE = "lite.bind.topic"


class GroupAdmin:
    def __init__(self, config: BrokerConfig, groups: GroupTable, offsets: ConsumerOffsets, stats: BrokerStats):
        self._config = config
        self._groups = groups
        self._offsets = offsets
        self._stats = stats

    def put(self, wanted: SubscriptionGroupConfig) -> None:
        """Creates the group, or gives it these settings; its attributes carry signs. Raises Refused if its name, queues
        or attributes are not allowed, and TableFull."""
        self._groups.put(self._checked(wanted))

    def put_list(self, wanted: list[SubscriptionGroupConfig]) -> None:
        """All or none: every group is checked before the first one is put."""
        self._groups.put(*[self._checked(group) for group in wanted])

    def _checked(self, wanted: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """``wanted`` with the group's present attributes, changed by those of the request, which carry signs."""
        problem = group_problem(wanted.group_name)
        if problem is not None:
            raise Refused(ResponseCode.INVALID_PARAMETER, problem)
        if not 0 <= wanted.retry_queue_nums <= QUEUE_NUMS_MAX:  # those of its retry topic
            remark = f"retryQueueNums {wanted.retry_queue_nums} not in [0, {QUEUE_NUMS_MAX}]"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        found = self._groups.get(wanted.group_name)
        attributes = alter(GROUP_ATTRIBUTES, found.attributes if found is not None else None, wanted.attributes)
        checked: SubscriptionGroupConfig = msgspec.structs.replace(wanted, attributes=attributes)
        return checked

    def get(self, group: str) -> SubscriptionGroupConfig:
        """Asking for an unknown group creates it, if the broker may create groups; otherwise it raises Refused."""
        found = self._groups.find(group)
        if found is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return found

    @property
    def count(self) -> int:
        return len(self._groups.all())

    def get_all(self, header: AllGroupsHeader) -> SubscriptionGroups:
        """One page of the table."""
        table = self._groups
        groups = page(
            table.all(), table.data_version, self._config, header.group_seq, header.data_version, header.max_group_num
        )
        return SubscriptionGroups(
            data_version=table.data_version,
            forbidden_table=table.forbidden,
            subscription_group_table=dict(groups),
        )

    def delete(self, group: str, *, clean_offset: bool) -> None:
        """An unknown group is not an error. A lite group always loses its offsets."""
        found = self._groups.get(group)
        is_lite = found is not None and LITE_ATTRIBUTE in found.attributes
        self._groups.delete(group)
        if clean_offset or is_lite:
            self._offsets.remove_group(group)
        self._stats.forget_group(group)

    def forbidden(self, group: str, topic: str, readable: bool | None) -> GroupForbidden:
        """Sets ``readable`` unless it is None. Returns whether the group may read the topic."""
        if readable is not None:
            self._groups.set_forbidden(group, topic, not readable)
        is_readable = not self._groups.is_forbidden(group, topic)
        return GroupForbidden(group=group, readable=is_readable, topic=topic)
