"""Filters of groups, across heartbeats and restarts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqproto.bodies.groups import SubscriptionData
from rmqproto.filters.message_filter import EVERYTHING
from rmqproto.message.properties import render
from rmqserver.broker.tables import consumer_filters
from rmqserver.broker.tables.consumer_filters import ConsumerFilter, ConsumerFilters
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from tests.rmqserver.store import golden

BORN_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Start:
    """A broker's filters, loaded from a directory."""

    def __init__(self, directory: Path, settings: str = ""):
        self.now_ms = BORN_MS
        self.file = directory / consumer_filters.FILE_NAME
        self.files = ConfigFiles(str(directory), OsDisk())
        self.filters = ConsumerFilters(BrokerConfig.from_properties(settings), self.files, lambda: self.now_ms)
        self.filters.load()

    def beat(self, expression: str, version: int, *, kind: str = "SQL92", topic: str = "T") -> None:
        data = SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)
        self.filters.register("G", [data])

    def got(self, topic: str = "T") -> ConsumerFilter:
        found = self.filters.get(topic, "G")
        assert found is not None
        return found

    def stop(self) -> None:
        self.filters.save()
        self.files.close()


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


def takes(one: ConsumerFilter, **properties: str) -> bool:
    asks = one.wanted.accepts_properties
    return asks is None or asks(render(properties).encode())


def test_filter_is_that_of_the_newest_version(start: Start) -> None:
    start.beat("a > 5", 10)
    assert takes(start.got(), a="6")
    start.beat("a > 50", 9)
    start.beat("a > 50", 10)
    assert takes(start.got(), a="6"), "the same version, or an older one, changes nothing"
    start.beat("a > 50", 11)
    assert not takes(start.got(), a="6")
    start.now_ms += 1
    start.beat("a > 50", 12)
    assert (start.got().data.client_version, start.got().data.born_time) == (12, BORN_MS)


def test_tags_and_nothing_make_no_filter(start: Start) -> None:
    start.beat("A || B", 1, kind="TAG")
    start.beat("", 1)
    assert start.filters.get("T", "G") is None


def test_expression_that_does_not_compile_takes_the_filter_away(start: Start) -> None:
    start.beat("a >", 1)
    assert start.filters.get("T", "G") is None
    start.beat("a > 5", 2)
    start.beat("a >", 3)
    assert start.filters.get("T", "G") is None
    start.beat("x", 4, kind="CLASS")
    assert start.filters.get("T", "G") is None


def test_filter_dies_with_its_subscription_and_comes_back_with_it(start: Start) -> None:
    start.beat("a > 5", 1)
    start.now_ms += 1000
    start.beat("b > 5", 1, topic="Other")
    assert (start.got().data.dead, start.got().data.dead_time) == (True, BORN_MS + 1000)
    start.beat("a > 5", 1)
    assert (start.got().data.dead, start.got().data.dead_time) == (False, 0)
    start.filters.unregister("G")
    start.now_ms += 1000
    start.filters.unregister("G")
    assert start.got().data.dead_time == BORN_MS + 1000, "dead since it died"


def test_dead_filters_are_forgotten_after_a_day(start: Start) -> None:
    start.beat("a > 5", 1)
    start.filters.unregister("G")
    start.now_ms += DAY_MS - 1
    start.filters.save()
    assert start.got().data.dead
    start.now_ms += 1
    start.filters.save()
    assert start.filters.get("T", "G") is None


def test_next_start_finds_it_dead_and_takes_it_back(start: Start, tmp_path: Path) -> None:
    start.beat("a > 5 AND b = '三'", 7)
    start.stop()
    second = Start(tmp_path)
    second.now_ms += 10_000
    assert takes(second.got(), a="6", b="三")
    assert second.got().data.dead
    second.beat("a > 5 AND b = '三'", 7)
    assert not second.got().data.dead


def test_apaches_file_is_read_and_written_as_apache_writes_it(tmp_path: Path) -> None:
    """In the file of a real 5.5.0 the group had left. The group comes back, and nothing else changes."""
    config = golden.unpack("clean", tmp_path) / "config"
    text = (config / consumer_filters.FILE_NAME).read_text()
    start = Start(config)
    found = start.filters.get("NormalTopic", "SqlGroup")
    assert found is not None
    assert takes(found, a="1", name="三")
    data = found.data
    start.now_ms = data.dead_time + 1
    start.filters.register(
        "SqlGroup",
        [SubscriptionData(topic="NormalTopic", sub_string=data.expression, sub_version=data.client_version,
                          expression_type="SQL92")],
    )  # fmt: skip
    start.stop()
    changed = re.sub(r'"deadTime":\d+', '"deadTime":0', text.replace('"dead":true', '"dead":false'))
    assert start.file.read_text() == changed


def test_file_of_another_bloom_filter_is_passed_over(start: Start, tmp_path: Path) -> None:
    start.beat("a > 5", 7)
    start.stop()
    assert Start(tmp_path, "expectConsumerNumUseFilter=64").filters.get("T", "G") is None


def test_expression_of_a_file_that_does_not_compile_is_everything(start: Start, tmp_path: Path) -> None:
    start.beat("a > 5", 7)
    start.stop()
    start.file.write_text(start.file.read_text().replace("a > 5", "a > 5 >"))
    assert Start(tmp_path).got().wanted is EVERYTHING


def test_room_is_bounded(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_filters, "FILTERS_MAX", 2)
    monkeypatch.setattr(consumer_filters, "FILTERS_MAX_CHARS", 20)
    for topic in ("A", "B", "C"):
        subscription = SubscriptionData(topic=topic, sub_string="a > 5", sub_version=1, expression_type="SQL92")
        start.filters.register(topic, [subscription])
    assert [start.filters.get(topic, topic) is not None for topic in ("A", "B", "C")] == [True, True, False]
    start.filters.register("A", [SubscriptionData(topic="A", sub_string="a > 5" + " " * 9, sub_version=2,
                                                  expression_type="SQL92")])  # fmt: skip
    assert start.filters.get("A", "A") is not None
    start.filters.register("A", [SubscriptionData(topic="A", sub_string="a > 5" + " " * 20, sub_version=3,
                                                  expression_type="SQL92")])  # fmt: skip
    assert start.filters.get("A", "A") is None
