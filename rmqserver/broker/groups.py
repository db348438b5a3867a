"""The consumer groups of this broker and what each may do (``SubscriptionGroupManager``, 5.5.0). Kept in
``config/subscriptionGroup.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.bodies import Body, SubscriptionGroupConfig
from rmqproto.codes import ResponseCode
from rmqproto.names import group_problem, is_system_group
from rmqserver.answer import Refused
from rmqserver.broker.config_table import ConfigTable, from_file

if TYPE_CHECKING:
    from rmqserver.config import BrokerConfig
    from rmqserver.store.config_files import ConfigFiles, Document

FORBIDDEN_MAX = 10_000
"""Pairs of group and topic in the table of what is forbidden; every change copies it."""

FORBIDDEN_READ_BIT = 2
"""Bit number, in the table of what is forbidden, of reading a topic (``PermName.INDEX_PERM_READ``)."""

_BUILT_IN = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
)  # fmt: skip


class _Forbidden(Body, kw_only=True):
    """The part of the file that is no group."""

    forbidden_table: dict[str, dict[str, int]] = {}


class GroupTable(ConfigTable[SubscriptionGroupConfig]):
    """Groups by name."""

    def __init__(self, config: BrokerConfig, files: ConfigFiles, clock_ms: Callable[[], int]):
        super().__init__(files, "subscriptionGroup.json", "subscriptionGroupTable", SubscriptionGroupConfig, clock_ms)
        self._config = config
        self.forbidden: dict[str, dict[str, int]] = {}
        """Group, topic, bits: what the group may not do with the topic."""

    def load(self) -> Document:
        for group in _BUILT_IN:
            self._set(group, SubscriptionGroupConfig(group_name=group))
        document = super().load()
        self.forbidden = from_file(document, _Forbidden, self._file_name).forbidden_table
        self.save()
        return document

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Creates or replaces."""
        self.put_entry(group.group_name, group)

    def delete(self, name: str) -> bool:
        """False if there was none. What it may not read is forgotten with it."""
        self.forbidden = {group: topics for group, topics in self.forbidden.items() if group != name}
        return super().delete(name)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The group; made with the default settings where that is allowed, None where it is not."""
        found = self._entries.get(group)
        if found is not None:
            return found
        if not (self._config.auto_create_subscription_group or is_system_group(group)) or group_problem(group):
            return None
        created = SubscriptionGroupConfig(group_name=group)
        self.put(created)
        return created

    def is_forbidden(self, group: str, topic: str, bit: int = FORBIDDEN_READ_BIT) -> bool:
        return bool(self.forbidden and self.forbidden.get(group, {}).get(topic, 0) & 1 << bit)

    def set_forbidden(self, group: str, topic: str, forbidden: bool, bit: int = FORBIDDEN_READ_BIT) -> None:
        """Refused if the table is full."""
        topics = dict(self.forbidden.get(group, {}))
        if topic not in topics and sum(map(len, self.forbidden.values())) >= FORBIDDEN_MAX:
            remark = f"{FORBIDDEN_MAX} pairs of group and topic are in the table, and no more are taken"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        topics[topic] = topics.get(topic, 0) | 1 << bit if forbidden else topics.get(topic, 0) & ~(1 << bit)
        self.forbidden = {**self.forbidden, group: topics}
        self.changed()

    def other_members(self) -> Document:
        return {"forbiddenTable": self.forbidden}
