"""Whether a group pulls a topic or pops it, and which queues each of its clients has (``QueryAssignmentProcessor``,
``MessageRequestModeManager``, 5.5.0). Modes are kept in ``config/messageRequestMode.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from rmqproto.allocate import Strategy, allocate_for_pop, averagely, averagely_by_circle
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.popping import AssignmentRequest, Assignments, QueueAssignment, RequestMode, RequestModes
from rmqproto.codes import PERM_READ, ResponseCode
from rmqproto.names import RETRY_PREFIX
from rmqserver.broker.clients.clients import MESSAGE_MODELS, enum_name
from rmqserver.broker.errors import TableFull
from rmqserver.broker.tables.config_table import from_file
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqproto.bodies.routes import TopicRoute
    from rmqserver.broker.clients.clients import Clients
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles

FILE_NAME = "messageRequestMode.json"
MODES_MAX = 50_000
"""Pairs of topic and group; every change saves all of them."""

PULL, POP = "PULL", "POP"
STRATEGIES: dict[str | None, Strategy] = {"AVG": averagely, "AVG_BY_CIRCLE": averagely_by_circle}


AskRoute = Callable[[str, Callable[["TopicRoute | None"], None]], None]
"""Calls back once with a topic's route, or with None if it is not known."""


class Assigning:
    def __init__(
        self, config: BrokerConfig, files: ConfigFiles, topics: TopicTable, groups: GroupTable, clients: Clients,
        ask_route: AskRoute,
    ):  # fmt: skip
        self._ask_route = ask_route
        self._config = config
        self._files = files
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self.modes: dict[str, dict[str, RequestMode]] = {}
        """By topic and group."""

    def load(self) -> None:
        """Raises StorageError if the file is not ours."""
        loaded = from_file(self._files.load(FILE_NAME), RequestModes, FILE_NAME)
        self.modes = loaded.message_request_mode_map

    # --- modes -------------------------------------------------------------------------------------------------------

    def set_mode(self, mode: RequestMode) -> None:
        """Sets and saves a mode. Raises Refused for a retry topic and for a missing topic or group; TableFull."""
        if mode.topic.startswith(RETRY_PREFIX):
            raise Refused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._topics.get(mode.topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
        if self._groups.find(mode.consumer_group) is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        if mode.mode not in (PULL, POP):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"mode {mode.mode!r} is none of PULL and POP")
        is_new = mode.consumer_group not in self.modes.get(mode.topic, {})
        if is_new and sum(map(len, self.modes.values())) >= MODES_MAX:
            raise TableFull(f"{MODES_MAX} request modes are kept, and no more are taken")
        self.modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self._files.save_now(FILE_NAME, msgspec.to_builtins(RequestModes(message_request_mode_map=self.modes)))

    def mode(self, group: str, topic: str) -> RequestMode:
        """The mode of a group for a topic. Retry topics are pulled, whatever the default is."""
        found = self.modes.get(topic, {}).get(group)
        if found is not None:
            return found
        config = self._config
        is_pop = config.default_message_request_mode == POP and not topic.startswith(RETRY_PREFIX)
        return RequestMode(
            consumer_group=group,
            mode=POP if is_pop else PULL,
            pop_share_queue_num=config.default_pop_share_queue_num if is_pop else 0,
            topic=topic,
        )

    # --- assignment --------------------------------------------------------------------------------------------------

    def query(self, asked: AssignmentRequest, then: Callable[[Assignments], None]) -> None:
        """Calls ``then`` with ``assignments``, once the topic's route is known."""
        self._ask_route(asked.topic, lambda route: then(self.assignments(asked, route)))

    def assignments(self, asked: AssignmentRequest, route: TopicRoute | None) -> Assignments:
        """The client's share of the queues in the topic's route, or without a route, of the queues on this broker. None
        for a topic without queues, a group without clients, and a strategy that is not served."""
        mode = self.mode(asked.consumer_group, asked.topic)
        queues = self._allocate(asked, mode, route)
        if queues is None:
            return Assignments()
        assigned = [QueueAssignment(message_queue=queue, mode=mode.mode) for queue in queues]
        return Assignments(message_queue_assignments=assigned)

    def _allocate(
        self, asked: AssignmentRequest, mode: RequestMode, route: TopicRoute | None
    ) -> list[MessageQueue] | None:
        queues = self._queues(asked.topic, route)
        if not queues:
            return None
        is_broadcast = enum_name(asked.message_model, MESSAGE_MODELS) == "BROADCASTING"
        if is_broadcast or not self._config.server_load_balancer_enable:
            return queues
        group = self._clients.consumers.get(asked.consumer_group)
        strategy = STRATEGIES.get(asked.strategy_name)
        if group is None or strategy is None:
            return None
        client_ids = {client.client_id for client in group.members.values()}
        own_id = asked.client_id or ""
        if mode.mode == POP:
            return allocate_for_pop(strategy, own_id, queues, client_ids, mode.pop_share_queue_num)
        return strategy(own_id, queues, client_ids)

    def _queues(self, topic: str, route: TopicRoute | None) -> list[MessageQueue]:
        """All queues of the topic that can be read."""
        if route is not None:
            places = [(data.broker_name, data.perm, data.read_queue_nums) for data in route.queue_datas]
        else:
            config = self._topics.get(topic)
            own = self._config.broker_name
            places = [(own, config.perm, config.read_queue_nums)] if config is not None else []
        return [
            MessageQueue(topic, broker_name, queue_id)
            for broker_name, perm, queue_nums in places
            if perm & PERM_READ
            for queue_id in range(queue_nums)
        ]
