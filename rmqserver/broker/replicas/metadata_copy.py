"""What a slave copies from its master besides the log (``SlaveSynchronize``, 5.5.0): topics, groups, offsets, and the
progress of delays and timers.

Offsets and delivery progress refer to a log: a delayed message counts as passed because its copy was put, a half
message because its transaction has ended, a popped one because a check point says so. A slave whose log is shorter
lacks those records. So it applies the master's progress only once its own log, as readers see it, has reached the point
where the master's ended. An Apache slave applies it at once; in its master's place it then never delivers the messages
whose copies only the lost log had."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from rmqproto.bodies.groups import SubscriptionGroups
from rmqproto.bodies.popping import RequestModes
from rmqproto.bodies.replication import HaStatus
from rmqproto.bodies.routes import TopicConfigs
from rmqproto.bodies.statistics import ConsumerOffsetsBody, DelayOffsets
from rmqproto.codes import RequestCode
from rmqproto.errors import ProtocolError, RefusedError
from rmqproto.wire import fastjson
from rmqserver.broker.consuming.pop import assignment
from rmqserver.broker.relays import delay
from rmqserver.broker.replicas.same_log import MasterLink
from rmqserver.store.timers.timer_check import TIMER_CHECK_FIELDS_BYTES, TimerCheckpoint

if TYPE_CHECKING:
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)

LOG_WITHIN_S = 0.5
"""How long a round waits for the connection on which the log comes, and then for the log to reach the needed offset."""

LOG_LOOK_S = 0.01

Take = Callable[[], None]


class _Progress(NamedTuple):
    """The master's progress when its log ended at ``log_end``; calling ``takes`` applies it here. It was received while
    the log came on connection ``ha_link``."""

    log_end: int
    ha_link: int
    takes: tuple[Take, ...]


class MetadataCopy:
    """Makes its requests in Apache's order. Logs one that fails, and goes on with the next."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, timer_store: TimerStore, files: ConfigFiles,
        topics: TopicTable, groups: GroupTable, offsets: ConsumerOffsets, ha_link: Callable[[], int],
    ):  # fmt: skip
        """``ha_link`` returns the number of the connection on which the master's log comes; 0 if there is none."""
        self._ha_link = ha_link
        self._config = config
        self._store = store
        self._disk = store.disk
        self._files = files
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._timer_check_path = timer_store.check_path
        self.topics_known_until: int | None = None
        """Log offset up to which every message is of a topic that the copied table has, or of a deleted one. None until
        the table has been copied."""
        self._waiting: _Progress | None = None
        """Progress that waits for the log. No newer one is asked for meanwhile: a log that is always a little behind
        would never reach any."""

    async def round(self, link: MasterLink, *, is_other_log: bool = False, are_tables_same: bool = False) -> None:
        """Copies everything once, but no topics and groups that are the same as at the last round. Raises OSError if
        the master is gone. If the master's log is another one, progress in it means nothing here."""
        if is_other_log:
            self._waiting = None
        ha_link = 0 if is_other_log or not await self._covered() else await self._linked()
        steps: tuple[tuple[Callable[[MasterLink], Awaitable[Take | None]], bool], ...] = (
            (self._all_topics, False), (self._consumer_offsets, True), (self._delay_offsets, True),
            (self._all_groups, False), (self._request_modes, False), (self._timer_check, True),
        )  # fmt: skip
        takes: list[Take] = []
        for step, is_progress in steps:
            if not (ha_link if is_progress else not are_tables_same):
                continue
            try:
                if (take := await step(link)) is not None:
                    takes.append(take)
            except (RefusedError, ProtocolError) as error:
                log.warning("event=metadata-not-copied what=%s reason=%r", step.__name__[1:], str(error))
        if takes:
            self._waiting = _Progress(await self._log_end(link), ha_link, tuple(takes))
            await self._covered()

    @property
    def is_waiting(self) -> bool:
        """Whether progress that was copied waits for the log."""
        return self._waiting is not None

    async def _covered(self) -> bool:
        """As ``_take_covered``, which it gives LOG_WITHIN_S."""
        with trio.move_on_after(LOG_WITHIN_S):
            while not self._take_covered():
                await trio.sleep(LOG_LOOK_S)
        return not self.is_waiting

    async def _linked(self) -> int:
        """Number of the connection on which the log comes; 0 if there is none within LOG_WITHIN_S."""
        with trio.move_on_after(LOG_WITHIN_S):
            while not self._ha_link():
                await trio.sleep(LOG_LOOK_S)
        return self._ha_link()

    async def _log_end(self, link: MasterLink) -> int:
        """The end of the master's log, asked after everything else."""
        try:
            answer = await link.ask(RequestCode.GET_BROKER_HA_STATUS)
            return fastjson.loads_untrusted(answer.body, HaStatus).master_commit_log_max_offset
        except (RefusedError, ProtocolError) as error:
            log.warning("event=metadata-not-copied what=log_end reason=%r", str(error))
            return 0  # then progress is applied at once, as in Apache's slave

    def _take_covered(self) -> bool:
        """Applies waiting progress that the log has reached; returns False if some still waits. Progress is void if the
        log now comes on another connection: the master may be another one, or have lost the end of its log."""
        waiting = self._waiting
        if waiting is not None and waiting.ha_link == self._ha_link():
            if self._store.confirmed_offset < waiting.log_end:
                return False
            for take in waiting.takes:
                take()
        self._waiting = None
        return True

    async def _all_topics(self, link: MasterLink) -> None:
        known_until = self._store.written_offset
        body = fastjson.loads_untrusted((await link.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body, TopicConfigs)
        if body.data_version != self._topics.data_version:
            for name in self._topics.all().keys() - body.topic_config_table.keys():
                self._offsets.remove_topic(name)  # a new topic of that name is read from its start
            self._topics.take_over(body.topic_config_table, body.data_version)
        self.topics_known_until = known_until

    async def _consumer_offsets(self, link: MasterLink) -> Take:
        answer = await link.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        theirs = fastjson.loads_untrusted(answer.body, ConsumerOffsetsBody)
        return lambda: self._offsets.take_over(theirs)

    async def _delay_offsets(self, link: MasterLink) -> Take | None:
        answer = await link.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        if not answer.body:
            return None
        offsets = msgspec.to_builtins(fastjson.loads_untrusted(answer.body, DelayOffsets))
        return lambda: self._files.save(delay.FILE_NAME, offsets)

    async def _all_groups(self, link: MasterLink) -> None:
        answer = await link.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        body = fastjson.loads_untrusted(answer.body, SubscriptionGroups)
        if body.data_version != self._groups.data_version:
            self._groups.forbidden = body.forbidden_table
            self._groups.take_over(body.subscription_group_table, body.data_version)

    async def _request_modes(self, link: MasterLink) -> None:
        answer = await link.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        modes = fastjson.loads_untrusted(answer.body, RequestModes)
        self._files.save_now(assignment.FILE_NAME, msgspec.to_builtins(modes))

    async def _timer_check(self, link: MasterLink) -> Take | None:
        if not self._config.timer_wheel_enable:
            return None
        body = (await link.ask(RequestCode.GET_TIMER_CHECK_POINT)).body
        if len(body) < TIMER_CHECK_FIELDS_BYTES:
            raise ProtocolError(f"a timer checkpoint of {len(body)} bytes")
        checkpoint = TimerCheckpoint.of_master_untrusted(body)
        return lambda: checkpoint.write_alone(self._disk, self._timer_check_path)
