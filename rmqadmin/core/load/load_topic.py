"""The topic of a load: whether it may be flooded and, only on request, its creation and deletion."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.names import is_made_by_brokers, topics_of_servers
from rmqadmin.core.topics.routes import writable_queues
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError, RequestTimeoutError, UsageError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_ROUTE_TIMEOUT_S = 10.0
_ASKED_EVERY_S = 0.05


class TopicUse(msgspec.Struct, frozen=True):
    """What a topic has before a load: its messages, and the groups that read it."""

    message_count: int
    groups: list[str]

    def __str__(self) -> str:
        messages = counted(self.message_count, "message")
        groups = f"groups that read it ({', '.join(sorted(self.groups)[:3])})" if self.groups else "no groups"
        return f"{messages} and {groups}"


class LoadTopic:
    """The topic of a load. ``was_made``: this load made it. ``remove`` deletes only such a topic."""

    def __init__(self, admin: AdminClient, name: str, cluster: str | None, queue_nums: int, *, makes: bool):
        self.name = name
        self.was_made = False
        self._admin = admin
        self._cluster = cluster
        self._queue_nums = queue_nums
        self._makes = makes

    def refuse_systems_own(self) -> None:
        """UsageError for topics that belong to brokers, and for retries and dead letters of groups."""
        servers = topics_of_servers(self._admin.cluster_info())
        if is_made_by_brokers(self.name, servers) or self.name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            raise UsageError(f"{self.name} is not a topic for a load: it is RocketMQ's own", hint="Name another.")

    def use(self) -> TopicUse | None:
        """The topic's use; None if there is no such topic."""
        route = targets.find_route(self._admin, self.name)
        if route is None:
            return None
        count, groups = 0, set[str]()
        for broker in route.broker_datas:
            if (addr := broker.master_addr) is not None:
                offsets = self._admin.topic_stats(addr, self.name).offset_table.values()
                count += sum(each.max_offset - each.min_offset for each in offsets)
                groups.update(self._admin.groups_of_topic(addr, self.name))
        return TopicUse(count, sorted(groups))

    def is_to_be_made(self) -> bool:
        """Whether the topic must be made. NotFoundError if it does not exist and may not be made."""
        if targets.find_route(self._admin, self.name) is not None:
            return False
        if not self._makes:
            raise NotFoundError(
                f"there is no topic {self.name}", hint="--create creates it, and --remove deletes it at the end."
            )
        return True

    def make(self) -> None:
        """Makes the topic if necessary."""
        if not self.is_to_be_made():
            return
        addrs = targets.masters(self._admin, None, self.cluster())
        self.was_made = True
        for addr in addrs:
            config = TopicConfig(
                topic_name=self.name, read_queue_nums=self._queue_nums, write_queue_nums=self._queue_nums
            )
            self._admin.create_topic(addr, config)
        end_s = time.monotonic() + _ROUTE_TIMEOUT_S
        while (route := targets.find_route(self._admin, self.name)) is None or len(route.broker_datas) < len(addrs):
            if time.monotonic() > end_s:
                raise RequestTimeoutError(f"the name servers do not know {self.name} after {_ROUTE_TIMEOUT_S:g} s")
            time.sleep(_ASKED_EVERY_S)

    def cluster(self) -> str:
        """The named cluster, or the only one. UsageError if there are several."""
        if self._cluster is not None:
            return self._cluster.strip()
        return targets.only_cluster(self._admin.cluster_info(), "-c")

    def queues(self) -> list[tuple[MessageQueue, str]]:
        """The queues that take messages, with their masters' addresses."""
        return writable_queues(self._admin.topic_route(self.name), self.name)

    def remove(self) -> None:
        """Deletes the topic if this load made it."""
        if not self.was_made:
            return
        cluster = self.cluster()
        for addr in targets.masters(self._admin, None, cluster):
            self._admin.delete_topic_in_broker(addr, self.name)
        for addr in self._admin.namesrv_addrs:
            self._admin.delete_topic_in_namesrv(addr, self.name, cluster)
        self.was_made = False
