"""The consumer groups of this broker and what each may do (``SubscriptionGroupManager``, 5.5.0). Kept in
``config/subscriptionGroup.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.bodies.base import Body
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.names import LIGHT_QUEUE_PREFIX, group_problem, is_system_group
from rmqserver.broker.errors import TableFull
from rmqserver.broker.tables.config_table import ConfigTable, from_file

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles, Document

FORBIDDEN_MAX = 10_000
"""Pairs of group and topic in ``forbidden``. Every change copies the table."""

FORBIDDEN_READ = 1 << 2
"""The bit for reading a topic, in ``forbidden`` (``PermName.INDEX_PERM_READ``)."""

_BUILT_IN = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
)  # fmt: skip


class _Forbidden(Body, kw_only=True):
    """The part of the file that is not a group."""

    forbidden_table: dict[str, dict[str, int]] = {}


class GroupTable(ConfigTable[SubscriptionGroupConfig]):
    """Groups by name."""

    def __init__(self, config: BrokerConfig, files: ConfigFiles, clock_ms: Callable[[], int]):
        super().__init__(files, "subscriptionGroup.json", "subscriptionGroupTable", SubscriptionGroupConfig, clock_ms)
        self._config = config
        self._has_light_queues = config.has_light_queues
        self.forbidden: dict[str, dict[str, int]] = {}
        """By group and topic: the bits of what the group may not do with the topic."""

    def load(self) -> Document:
        for group in _BUILT_IN:
            self._set(group, SubscriptionGroupConfig(group_name=group))
        document = super().load()
        self.forbidden = from_file(document, _Forbidden, self._file.name).forbidden_table
        self.save()
        return document

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """The group, or None. Groups of light queues are not kept: there may be one for every client."""
        found = self._entries.get(name)
        if found is None and self._has_light_queues and name.startswith(LIGHT_QUEUE_PREFIX):
            return SubscriptionGroupConfig(group_name=name)
        return found

    def put(self, *groups: SubscriptionGroupConfig) -> None:
        """Creates or replaces groups, as one change. Raises TableFull."""
        self.put_entries({group.group_name: group for group in groups})

    def delete(self, name: str) -> bool:
        """Returns False if there was no such group. What it may not read is forgotten with it."""
        self.forbidden = {group: topics for group, topics in self.forbidden.items() if group != name}
        return super().delete(name)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The group. An unknown one is created with the default settings; None if that is not allowed."""
        found = self.get(group)
        if found is not None:
            return found
        if not (self._config.auto_create_subscription_group or is_system_group(group)) or group_problem(group):
            return None
        created = SubscriptionGroupConfig(group_name=group)
        self.put(created)
        return created

    def is_forbidden(self, group: str, topic: str) -> bool:
        return bool(self.forbidden and self.forbidden.get(group, {}).get(topic, 0) & FORBIDDEN_READ)

    def set_forbidden(self, group: str, topic: str, forbidden: bool) -> None:
        """Raises TableFull if the table is full."""
        topics = dict(self.forbidden.get(group, {}))
        if topic not in topics and sum(map(len, self.forbidden.values())) >= FORBIDDEN_MAX:
            remark = f"{FORBIDDEN_MAX} pairs of group and topic are in the table, and no more are taken"
            raise TableFull(remark)
        topics[topic] = topics.get(topic, 0) | FORBIDDEN_READ if forbidden else topics.get(topic, 0) & ~FORBIDDEN_READ
        self.forbidden = {**self.forbidden, group: topics}
        self.changed()

    def other_members(self) -> Document:
        return {"forbiddenTable": self.forbidden}
