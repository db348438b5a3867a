"""Consumer groups, for tools: create, change, delete, list, and forbid topics (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import Any

import msgspec

from rmqproto.bodies.groups import GroupConfigList, SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.bodies.statistics import GroupForbidden
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.tables import (
    AllGroupsAnswer,
    AllGroupsHeader,
    DeleteGroupHeader,
    GroupForbiddenHeader,
    GroupHeader,
)
from rmqproto.names import group_problem
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.broker.admin.paging import page
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.tables.attributes import GROUP_ATTRIBUTES, alter
from rmqserver.config.broker_config import QUEUE_NUMS_MAX
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler

LITE_ATTRIBUTE = "lite.bind.topic"


class GroupAdmin:
    def __init__(self, parts: BrokerParts):
        self._config = parts.config
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._stats = parts.stats

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.upsert,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.upsert_list,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.get,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.get_all,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbidden,
        }

    def upsert(self, request: Request[Any], connection: Connection) -> bytes:
        self.put(loads_untrusted(request.body, SubscriptionGroupConfig))
        return success(request)

    def put(self, wanted: SubscriptionGroupConfig) -> None:
        """Creates the group, or gives it these settings; its attributes carry signs. Raises Refused if its name, queues
        or attributes are not allowed, and TableFull."""
        self._groups.put(self._checked(wanted))

    def upsert_list(self, request: Request[Any], connection: Connection) -> bytes:
        """All or none: every group is checked before the first one is put."""
        wanted = loads_untrusted(request.body, GroupConfigList).group_config_list
        self._groups.put(*[self._checked(group) for group in wanted])
        return success(request)

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

    def get(self, request: Request[GroupHeader], connection: Connection) -> bytes:
        """Asking for an unknown group creates it, if the broker may create groups."""
        found = self._groups.find(request.header.group)
        if found is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return success(request, body=dumps(found))

    def get_all(self, request: Request[AllGroupsHeader], connection: Connection) -> bytes:
        header, table = request.header, self._groups
        groups = page(
            table.all(), table.data_version, self._config, header.group_seq, header.data_version, header.max_group_num
        )
        body = SubscriptionGroups(
            data_version=table.data_version,
            forbidden_table=table.forbidden,
            subscription_group_table=dict(groups),
        )
        return success(request, AllGroupsAnswer(total_group_num=len(table.all())), dumps(body))

    def delete(self, request: Request[DeleteGroupHeader], connection: Connection) -> bytes:
        """An unknown group is not an error. A lite group always loses its offsets."""
        group = request.header.group_name
        found = self._groups.get(group)
        is_lite = found is not None and LITE_ATTRIBUTE in found.attributes
        self._groups.delete(group)
        if request.header.clean_offset or is_lite:
            self._offsets.remove_group(group)
        self._stats.forget_group(group)
        return success(request)

    def forbidden(self, request: Request[GroupForbiddenHeader], connection: Connection) -> bytes:
        """Sets ``readable`` if the request has it, and answers whether the group may read the topic."""
        group, topic, readable = request.header.group, request.header.topic, request.header.readable
        if readable is not None:
            self._groups.set_forbidden(group, topic, not readable)
        is_readable = not self._groups.is_forbidden(group, topic)
        body = GroupForbidden(group=group, readable=is_readable, topic=topic)
        return success(request, body=dumps(body), remark="")
