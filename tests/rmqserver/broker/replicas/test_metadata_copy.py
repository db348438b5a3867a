"""The tables and offsets that a slave copies from its master, from scripted answers."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.replication import HaStatus
from rmqproto.bodies.routes import TopicConfig, TopicConfigs
from rmqproto.bodies.statistics import ConsumerOffsetsBody, DelayOffsets
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.relays import delay
from rmqserver.broker.replicas.metadata_copy import MetadataCopy
from tests.rmqserver.store.conftest import put


class RefusingMaster:
    def __init__(self) -> None:
        self.asked: list[int] = []

    async def ask(self, code: int, *_: object) -> Command:
        self.asked.append(code)
        raise RefusedError(ResponseCode.SYSTEM_ERROR, "not now")


async def test_all_is_asked_for_in_apaches_order_whatever_is_refused(parts: BrokerAssembly) -> None:
    master = RefusingMaster()
    link: Any = master
    await MetadataCopy(
        parts.config, parts.store, parts.timer_store, parts.files, parts.topics, parts.groups, parts.offsets, lambda: 1
    ).round(link)
    assert master.asked == [21, 43, 45, 201, 402, 60]


@dataclass
class TellingMaster:
    """A master that knows one delay level and one group. ``refuses``: request codes."""

    offset: int = 1
    log_end: int = 0
    refuses: set[int] = field(default_factory=set)
    topics: TopicConfigs | None = None
    asked: list[int] = field(default_factory=list)

    async def ask(self, code: int, *_: object) -> Command:
        self.asked.append(code)
        bodies: dict[int, object] = {
            RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetsBody(offset_table={"T@G": {0: self.offset}}),
            RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsets(offset_table={1: self.offset}),
            RequestCode.GET_BROKER_HA_STATUS: HaStatus(master_commit_log_max_offset=self.log_end),
        }
        if self.topics is not None:
            bodies[RequestCode.GET_ALL_TOPIC_CONFIG] = self.topics
        if code in self.refuses or code not in bodies:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "not now")
        return Command(code=0, body=dumps(bodies[RequestCode(code)]))


@dataclass
class Copying:
    parts: BrokerAssembly
    master: TellingMaster = field(default_factory=TellingMaster)
    ha_link: int = 1

    def __post_init__(self) -> None:
        self.copy = MetadataCopy(
            self.parts.config, self.parts.store, self.parts.timer_store, self.parts.files, self.parts.topics,
            self.parts.groups, self.parts.offsets, lambda: self.ha_link,
        )  # fmt: skip

    async def round(self) -> None:
        link: Any = self.master
        await self.copy.round(link)

    @property
    def taken(self) -> tuple[int | None, int | None]:
        """The level's delivered offset, and the group's committed offset."""
        self.parts.files.wait_until_saved()
        delivered = self.parts.files.load(delay.FILE_NAME).get("offsetTable", {}).get("1")
        return delivered, self.parts.offsets.committed("G", "T", 0)


@pytest.fixture
def copying(parts: BrokerAssembly) -> Copying:
    return Copying(parts)


async def test_how_far_things_are_is_taken_when_the_log_is_so_far(copying: Copying, autojump_clock: object) -> None:
    """The copy of a delivered message may not have arrived yet, and the message would be taken for delivered."""
    store = copying.parts.store
    await copying.round()
    assert copying.taken == (1, 1)
    put(store)
    store.commit()
    copying.master = TellingMaster(offset=2, log_end=store.confirmed_offset + 1)
    await copying.round()
    assert copying.taken == (1, 1)
    copying.master.offset, copying.master.asked = 9, []
    await copying.round()
    assert copying.taken == (1, 1)
    assert copying.master.asked == [21, 201, 402], "the first one would never be reached if each took its place"
    put(store)
    store.commit()
    copying.master.log_end = 1 << 40
    await copying.round()
    assert copying.taken == (2, 2)


async def test_of_a_log_that_comes_from_elsewhere_it_means_nothing(copying: Copying, autojump_clock: object) -> None:
    store = copying.parts.store
    copying.master.log_end = 1
    await copying.round()
    copying.ha_link = 0
    put(store)
    store.commit()
    await copying.round()
    assert copying.taken == (None, None), "the log does not come"
    copying.ha_link, copying.master = 2, TellingMaster(offset=5, log_end=store.confirmed_offset)
    await copying.round()
    assert copying.taken == (5, 5)


async def test_a_master_that_does_not_say_how_far_its_log_goes_is_believed(copying: Copying) -> None:
    copying.master.refuses.add(RequestCode.GET_BROKER_HA_STATUS)
    await copying.round()
    assert copying.taken == (1, 1)


async def test_offsets_of_a_topic_that_the_master_has_no_more_go(copying: Copying) -> None:
    """A topic that is made again begins at 0. A group that kept its offset would skip the first messages."""
    copying.parts.topics.put(TopicConfig(topic_name="T"))
    copying.parts.offsets.commit("G", "T", 0, 7)
    copying.master.topics = TopicConfigs(data_version=DataVersion(timestamp=9))
    copying.master.refuses.add(RequestCode.GET_ALL_CONSUMER_OFFSET)
    await copying.round()
    assert copying.parts.topics.get("T") is None
    assert copying.taken[1] is None
