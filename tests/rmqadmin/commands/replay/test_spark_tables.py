"""The tables of the ``rocketmq`` source have what the commands print, of a running broker and of its store."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import RequestCode
from rmqproto.errors import NotFoundError, StorageError, UsageError
from rmqproto.names import TRACE_TOPIC, dlq_topic, retry_topic
from rmqproto.trace import AnyRecord, Consumed, Delivered, Published, encode_trace
from spark_tools.schema import kinds_of
from spark_tools.source_options import parse_read_options
from spark_tools.tables.table_reader import TableReader
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqserver.broker.transactions.test_server import ending, send_half
from tests.support import servers
from tests.support.servers import Server, standalone, until
from tests.support.wire import Wire

GROUP, TOPIC, ORIGIN, TRACED = "TableGroup", "TableTopic", "TableOrigin", "7F000001041D4E0E2F2A69B4378A0009"
SETTINGS = ("transactionCheckInterval=3600000", "transactionOpBatchInterval=50", "traceTopicEnable=true")
LIVE, STORED = "live", "stored"


@dataclass(frozen=True)
class Scene:
    """A server with something for each table, and a copy of its store after its end."""

    server: Server
    store: Path

    def rows(self, where: str, table: str, **options: str) -> list[dict[str, Any]]:
        place = {"nameServer": self.server.namesrv_addr} if where == LIVE else {"path": str(self.store)}
        parsed = parse_read_options(place | {"table": table} | options)
        reader = TableReader(parsed, list(kinds_of(table)))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]


def make(admin: AdminClient, server: Server, topic: str, queue_nums: int = 1) -> None:
    admin.create_topic(server.broker_addr, topic_config(topic, queue_nums))
    until(lambda: topic in admin.topic_list())


def send(admin: AdminClient, server: Server, topic: str, queue_id: int = 0, **properties: str) -> str | None:
    message = Message(topic, b"body", keys=properties.pop("key", None), properties=properties)
    return admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", queue_id), message).recall_handle


def trace(admin: AdminClient, server: Server, *records: AnyRecord) -> None:
    message = Message(TRACE_TOPIC, "".join(map(encode_trace, records)).encode(), keys=records[0].message_id)
    admin.send_message(server.broker_addr, MessageQueue(TRACE_TOPIC, "broker-a", 0), message)


def published(message_id: str, *, is_success: bool = True) -> Published:
    return Published(1000, "r", "P", TOPIC, message_id, "", "", "127.0.0.1:1", 4, 3, 0, "0A", is_success)


def fill(admin: AdminClient, server: Server) -> None:
    for topic, queue_nums in ((TOPIC, 2), (ORIGIN, 1), (dlq_topic(GROUP), 1), (retry_topic(GROUP), 1)):
        make(admin, server, topic, queue_nums)
    for group in (GROUP, "ShrunkGroup"):
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    for number in range(5):
        send(admin, server, TOPIC, number % 2)
    admin.update_consumer_offset(server.broker_addr, GROUP, TOPIC, 0, 1)
    admin.update_consumer_offset(server.broker_addr, GROUP, TOPIC, 1, 2)
    send(admin, server, retry_topic(GROUP), UNIQ_KEY="LETTER1")
    for number, told in enumerate(({"error.reason": "no such account"}, {"REPLAY_ROUND": "2"})):
        send(admin, server, dlq_topic(GROUP), UNIQ_KEY=f"LETTER{number + 1}", RETRY_TOPIC=ORIGIN, **told)
    later = str(time.time_ns() // 1_000_000 + 3_600_000)
    strange = {"TIMER_ROLL_TIMES": "9" * 5000}
    handles = [
        send(admin, server, TOPIC, TIMER_DELIVER_MS=later, UNIQ_KEY=f"TIMER{number}", **strange) for number in range(3)
    ]
    admin.connections.request(
        server.broker_addr, RequestCode.RECALL_MESSAGE,
        {"producerGroup": "P", "topic": TOPIC, "recallHandle": str(handles[1])},
    )  # fmt: skip
    trace(admin, server, published(TRACED))
    trace(admin, server, Delivered(1700, "r", GROUP, "R1", TRACED, 1, ""))
    trace(admin, server, Consumed("R1", TRACED, 40, True, "", 0, 1740, GROUP))
    trace(admin, server, published("LOST"))
    trace(admin, server, published("FAILED", is_success=False))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("scene")
    with standalone(directory, *servers.sets(*SETTINGS)) as server, AdminClient(server.namesrv_addr) as admin:
        fill(admin, server)
        trace(admin, server, Delivered(10**25, "r", GROUP, "R2", "STRANGE", 10**12, ""))
        with Wire(server.broker_addr) as wire:
            halves = [send_half(wire, body) for body in (b"committed", b"open", b"also open")]
            assert wire.ask(RequestCode.END_TRANSACTION, ending(halves[0], 8)).code == 0
        yield Scene(server, server.store_dir)


@pytest.fixture(scope="module")
def stopped(scene: Scene) -> Scene:
    """The scene after the server's end."""
    assert scene.server.stop() == 0
    return scene


def ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def test_live_queues_are_those_of_topic_status(scene: Scene, run: Rmqadmin) -> None:
    told = run("-o", "json", "topicStatus", "-n", scene.server.namesrv_addr, "-t", TOPIC).items
    found = [
        {
            "broker_name": row["brokerName"], "queue_id": row["queueId"], "min_offset": row["minOffset"],
            "max_offset": row["maxOffset"], "message_count": row["messageCount"], "unread": row["unread"] or None,
            "last_updated_ms": ms(row["newestTimestamp"]), "topic": None,
        }
        for row in scene.rows(LIVE, "queues", subscribe=f"{TOPIC},{TOPIC}")
    ]  # fmt: skip
    assert found == told
    assert len(found) == 2
    assert {row["topic"] for row in scene.rows(LIVE, "queues")} >= {TOPIC, ORIGIN, dlq_topic(GROUP)}


def test_live_offsets_are_those_of_consumer_progress(scene: Scene, run: Rmqadmin) -> None:
    told = run("-o", "json", "consumerProgress", "-n", scene.server.namesrv_addr, "-g", GROUP).items
    rows = scene.rows(LIVE, "offsets", group=f"{GROUP},{GROUP}")
    found = [
        {
            "topic": row["topic"], "broker_name": row["brokerName"], "queue_id": row["queueId"],
            "broker_offset": row["brokerOffset"], "consumer_offset": row["consumerOffset"],
            "lag_count": row["lagCount"], "unread": row["unread"] or None, "inflight_count": row["inflightCount"],
            "client_id": None, "last_consumed_ms": ms(row["lastConsumedTimestamp"]),
        }
        for row in rows
    ]  # fmt: skip
    assert found == told
    assert [row["lagCount"] for row in rows if row["topic"] == TOPIC] == [2, 0]
    assert GROUP in {row["group"] for row in scene.rows(LIVE, "offsets")}


@pytest.mark.parametrize("where", [LIVE, STORED])
@pytest.mark.parametrize(
    ("table", "option", "kind", "known"),
    [
        ("offsets", "group", "group", GROUP),
        ("deadletters", "group", "group", GROUP),
        ("queues", "subscribe", "topic", TOPIC),
        ("traces", "subscribe", "topic", TRACE_TOPIC),
    ],
)
def test_a_name_that_nobody_knows_is_an_error_while_the_query_is_planned(
    scene: Scene, where: str, table: str, option: str, kind: str, known: str
) -> None:
    wrong = known[:-3] + known[-2:]
    with pytest.raises(NotFoundError) as raised:
        scene.rows(where, table, **{option: f"{known},{wrong}"})
    assert str(raised.value) == f"there is no {kind} {wrong} (did you mean {known}?)"
    assert scene.rows(where, "deadletters", group="ShrunkGroup") == []


def test_what_lies_in_queues_that_are_not_read_is_lag(scene: Scene, run: Rmqadmin) -> None:
    shrunk = "ShrunkTopic"
    with AdminClient(scene.server.namesrv_addr) as admin:
        make(admin, scene.server, shrunk, 4)
        send(admin, scene.server, shrunk, 3)
        admin.update_consumer_offset(scene.server.broker_addr, "ShrunkGroup", shrunk, 0, 0)
        admin.create_topic(scene.server.broker_addr, topic_config(shrunk))
        until(lambda: admin.topic_route(shrunk).queue_datas[0].read_queue_nums == 1)
    told = run("-o", "json", "consumerProgress", "-n", scene.server.namesrv_addr, "-g", "ShrunkGroup").items
    rows = scene.rows(LIVE, "offsets", group="ShrunkGroup")
    assert [(row["queueId"], row["lagCount"], row["unread"] or None) for row in rows] == [
        (item["queue_id"], item["lag_count"], item["unread"]) for item in told
    ]
    assert (rows[-1]["queueId"], rows[-1]["unread"]) == (3, True)
    assert [row["queueId"] for row in scene.rows(LIVE, "queues", subscribe=shrunk) if row["unread"]] == [3]


@pytest.mark.parametrize("where", [LIVE, STORED])
def test_traces_are_those_of_query_msg_trace(scene: Scene, run: Rmqadmin, where: str) -> None:
    rows = scene.rows(where, "traces")
    found = [
        {
            "kind": row["kind"], "time_ms": ms(row["timestamp"]), "group": row["group"],
            "client_host": row["clientHost"], "cost_ms": row["costMs"], "outcome": row["outcome"],
        }
        for row in rows
        if row["msgId"] == TRACED
    ]  # fmt: skip
    told = run("-o", "json", "queryMsgTraceById", "-n", scene.server.namesrv_addr, "-i", TRACED).items
    assert found == told
    consumed = next(row for row in rows if row["kind"] == "consumed")
    assert (consumed["topic"], consumed["latencyMs"], consumed["retries"]) == (TOPIC, 700, 1)
    assert {row["msgId"]: row["missing"] for row in rows if row["kind"] == "sent"} == {
        TRACED: False, "LOST": True, "FAILED": False,
    }  # fmt: skip
    strange = next(row for row in rows if row["msgId"] == "STRANGE")
    assert (strange["timestamp"], strange["retries"]) == (None, None), "numbers that no column holds"


@pytest.mark.parametrize("where", [LIVE, STORED])
def test_dead_letters_are_those_of_dlq_show(scene: Scene, run: Rmqadmin, tmp_path: Path, where: str) -> None:
    told = run("-o", "json", "dlq", "show", GROUP, "-n", scene.server.namesrv_addr).items
    ledger = tmp_path / "state/rmqadmin/replay"
    ledger.mkdir(parents=True)
    rows = scene.rows(where, "deadletters", ledger=str(ledger))
    found = [
        {
            "message_id": row["msgId"], "offset_message_id": row["offsetMsgId"], "queue_offset": row["queueOffset"],
            "broker_name": row["brokerName"], "origin_topic": row["originTopic"], "redrives": row["redrives"],
            "redriven": row["redriven"], "stored_ms": ms(row["storeTimestamp"]), "properties": row["properties"],
            "body_size_bytes": row["bodySize"], "reconsume_times": row["reconsumeTimes"],
        }
        for row in rows
    ]  # fmt: skip
    assert found == [{name: item[name] for name in found[0]} for item in told]
    first, second = rows
    assert (first["cause"], first["again"]) == ("no such account", False)
    assert first["firstFailureTimestamp"] <= first["storeTimestamp"], "its retry was stored before"
    assert (second["cause"], second["again"], second["redrives"]) == (None, True, 2)
    assert second["firstFailureTimestamp"] == second["storeTimestamp"]


def test_redriven_letters_are_those_of_dlq_show(scene: Scene, run: Rmqadmin, tmp_path: Path) -> None:
    at = ("-n", scene.server.namesrv_addr)
    run("dlq", "redrive", GROUP, *at, "--limit", "1", "--to", f"topic:{ORIGIN}", "--execute", "--yes", status=0)
    told = run("-o", "json", "dlq", "show", GROUP, *at).items
    rows = scene.rows(LIVE, "deadletters", ledger=str(tmp_path / "state/rmqadmin/replay"))
    assert [row["redriven"] for row in rows] == [item["redriven"] for item in told] == [True, False]
    assert [row["redriven"] for row in scene.rows(LIVE, "deadletters")] == [None, None]


@pytest.mark.parametrize("place", ["missing", "other"])
def test_a_directory_without_ledgers_tells_nothing_of_redrives(
    scene: Scene, run: Rmqadmin, tmp_path: Path, place: str
) -> None:
    """It is probably mistyped: every letter would pass for one that nobody has redriven."""
    (tmp_path / "other" / "logs").mkdir(parents=True)
    wrong = str(tmp_path / place)
    with pytest.raises(StorageError, match=wrong):
        scene.rows(LIVE, "deadletters", ledger=wrong)
    for words in (("dlq", "show", GROUP), ("check", "dlq", "-g", GROUP)):
        asked = run(*words, "-n", scene.server.namesrv_addr, "--ledger", wrong)
        assert wrong in asked.out + asked.err


def test_open_halves_and_timers_of_a_broker(scene: Scene) -> None:
    until(lambda: len(scene.rows(LIVE, "halves")) == 2)  # once the op message is written
    assert [bytes.fromhex(row["msgId"]) for row in scene.rows(LIVE, "halves")] == [b"open", b"also open"]
    timers = scene.rows(LIVE, "timers")
    assert [(row["msgId"], row["topic"]) for row in timers] == [("TIMER0", TOPIC), ("TIMER2", TOPIC)]


def test_tables_of_a_store_are_those_of_store_inspect(stopped: Scene, run: Rmqadmin) -> None:
    inspect = ("-o", "json", "store", "inspect", str(stopped.store))
    queues = run(*inspect, "--queues")
    assert [
        {
            "topic": row["topic"], "queue_id": row["queueId"], "min_offset": row["minOffset"],
            "max_offset": row["maxOffset"], "messages": row["messageCount"], "problem": row["problem"],
            "oldest_ms": ms(row["oldestTimestamp"]), "newest_ms": ms(row["newestTimestamp"]),
        }
        for row in stopped.rows(STORED, "queues")
    ] == queues.items  # fmt: skip
    offsets: dict[tuple[str, str], dict[str, int]] = {}
    lags: dict[tuple[str, str], int] = {}
    for row in stopped.rows(STORED, "offsets"):
        key = row["group"], row["topic"]
        offsets.setdefault(key, {})[str(row["queueId"])] = row["consumerOffset"]
        lags[key] = lags.get(key, 0) + row["lagCount"]
    groups = [item for item in run(*inspect, "--groups").items if item["topic"] is not None]
    assert offsets == {(item["group"], item["topic"]): item["offsets"] for item in groups}
    assert lags == {(item["group"], item["topic"]): item["lag_count"] for item in groups}
    halves, timers = stopped.rows(STORED, "halves"), stopped.rows(STORED, "timers")
    summary = queues.document["summary"]
    assert (len(halves), len(timers)) == (summary["half_messages"], summary["timers"]) == (2, 2)
    assert {row["producerGroup"] for row in halves} == {"TransProducerGroup"}
    assert {row["msgId"] for row in timers} == {"TIMER0", "TIMER2"}
    assert min(ms(row["deliverTimestamp"]) or 0 for row in timers) <= summary["next_timer_ms"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"table": "queue"}, "table=queue is none of offsets, queues"),
        ({"table": "queues", "group": "G"}, "option group has no meaning with table=queues"),
        ({"table": "halves", "tags": "a"}, "option tags has no meaning with table=halves"),
        ({"subscribe": "T", "ledger": "/tmp"}, "option ledger needs the option table"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_read_options({"nameServer": "127.0.0.1:9876"} | options)
