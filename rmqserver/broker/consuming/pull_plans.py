"""Plans by which the core answers pulls (``core.PlainPulls``). The first pull of a kind goes the general way. If that
found messages, and more lie behind them, it leaves a plan for the pulls that follow. Whatever may change an answer
forgets all plans: ``forget``."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from rmqproto.headers.consuming import PULL_COMMIT_OFFSET, PULL_LITE, PullHeader
from rmqserver.broker.consuming.pull import PULL_COUNT_MAX
from rmqserver.config.setting_values import BrokerRole
from rmqserver.core import IS_NATIVE, PlainPulls
from rmqserver.store.log.commit_log import HOT_BYTES

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pull import PullOutcome
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

KEPT_MS = 1000
"""All plans are forgotten so often: the general way sees each consumer, and counts it as one that still reads."""

CODES_MAX = 64
"""A filter of more tags goes the general way, which finds a code in a set."""


class PullPlans:
    """``plain`` is the core's table of plans."""

    def __init__(self, config: BrokerConfig, store: MessageStore, offsets: ConsumerOffsets, stats: BrokerStats):
        self._config = config
        self._store = store
        self._offsets = offsets
        self._stats = stats
        self.plain = PlainPulls(store.log, HOT_BYTES, KEPT_MS)
        self.takers: Sequence[Any] = [self.plain]
        """Those of the service that answers pulls: behind gates that cannot be asked, ``plain`` is not one."""
        self.forget = self.plain.forget

    def ask(self, undecoded: Callable[[Any, int, bytes, bytes], bool] | None) -> None:
        """Has a gate asked before each pull that the core answers, from now on."""
        self.plain.admits = undecoded

    def table_changed(self, put_names: Collection[str] | None) -> None:
        self.forget()

    def pays(self, pulled: PullOutcome) -> bool:
        """Whether the group will soon pull again, and the core can answer then. A slave asks its own state each time;
        only the general way knows the group's members, and properties."""
        wanted, result, config = pulled.wanted, pulled.result, self._config
        return (
            IS_NATIVE
            and self.plain in self.takers
            and result.next_offset < result.max_offset
            and not pulled.suggested_broker_id
            and wanted.accepts_properties is None
            and (wanted.accepts_code is None or (wanted.codes is not None and len(wanted.codes) <= CODES_MAX))
            and config.broker_role is not BrokerRole.SLAVE
            and not config.reject_pull_consumer_enable
        )

    def leave(
        self, raw_header: bytes, opaque: int, header: PullHeader, pulled: PullOutcome, pieces: tuple[bytes, ...]
    ) -> None:
        """Leaves a plan for pulls with a header like this one's, which was answered at once. ``pieces`` are those of
        the answer's header, around the highest, the lowest and the next queue offset and the opaque."""
        queue = self._store.queues.find(header.topic, header.queue_id)
        if queue is None or header.sys_flag & PULL_LITE or header.lite_topic:
            return
        codes = pulled.wanted.codes
        taken = self._taken(header, pulled)
        limits = self._store.plain_limits(min(header.max_msg_nums, PULL_COUNT_MAX), takes_all=codes is None)
        packed = None if codes is None else struct.pack(f"={len(codes)}q", *codes)
        plan = queue, taken, pieces, *limits, packed
        self.plain.keep(raw_header, opaque, header.queue_offset, header.commit_offset, plan)

    def _taken(self, header: PullHeader, pulled: PullOutcome) -> Callable[[int, int, int, int, int], None]:
        """What ``Pulls.pull`` does beside reading."""
        offsets, stats = self._offsets, self._stats
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        commits = bool(header.sys_flag & PULL_COMMIT_OFFSET)
        set_pull_offset = offsets.pull_offset_setter(group, topic, queue_id)
        count_messages = stats.gets[pulled.topic.topic_name, pulled.group.group_name].add

        def taken(elapsed_ms: int, count: int, size_bytes: int, next_offset: int, commit_offset: int) -> None:
            if commits:
                offsets.commit(group, topic, queue_id, commit_offset)
            set_pull_offset(next_offset)
            count_messages(count, size_bytes)
            stats.get_found += 1
            if elapsed_ms > stats.get_time_max_ms:
                stats.get_time_max_ms = elapsed_ms

        return taken
