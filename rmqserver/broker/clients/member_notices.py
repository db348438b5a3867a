"""Tells the members of a group to share the queues anew (``DefaultConsumerIdsChangeListener``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode
from rmqproto.headers.consuming import ConsumerGroupHeader

if TYPE_CHECKING:
    from rmqserver.broker.clients.clients import ConsumerGroup
    from rmqserver.broker.tables.consumer_filters import ConsumerFilters
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.config.broker_config import BrokerConfig


class MemberNotices:
    def __init__(self, config: BrokerConfig, groups: GroupTable, consumer_filters: ConsumerFilters):
        self._config = config
        self._groups = groups
        self._consumer_filters = consumer_filters

    def tell(self, group: ConsumerGroup) -> None:
        """Tells every member, unless notices are switched off for the broker or the group, or the group is
        broadcasting. When a group has lost its last member, its filters become dead."""
        if not group.members:
            self._consumer_filters.unregister(group.group)
            return
        found = self._groups.get(group.group)
        is_wanted = found is None or found.notify_consumer_ids_changed_enable
        if not is_wanted or group.is_broadcasting or not self._config.notify_consumer_ids_changed_enable:
            return
        header = ConsumerGroupHeader(consumer_group=group.group)
        for client in group.members.values():
            client.peer.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
