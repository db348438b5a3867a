"""The commands of pages without a test of their own, run in order on this file's own brokers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqadmin.cli.parsing.command_tree import all_commands
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerData, Heartbeat, SubscriptionData, SubscriptionGroupConfig
from rmqproto.bodies.statistics import ConsumerRunningInfo, ProcessQueueInfo
from rmqproto.names import dlq_topic
from rmqproto.wire.fastjson import ObjectMap
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.rmqadmin.pages.page_lines import ROOT, command_lines, run_lines
from tests.support import servers
from tests.support.consumer import TalkingConsumer
from tests.support.quick import first_is_quick
from tests.support.servers import Server, topic_config, until

ELSEWHERE = {
    "docs/changes.md": "commands/export/test_apply.py",
    "docs/contexts.md": "commands/context/test_contexts.py",
    "docs/health.md": "test_health_page.py",
    "docs/dead-letters.md": "test_message_pages.py",
    "docs/messages.md": "test_message_pages.py",
    "docs/tls.md": "test_tls_options.py",
    "docs/sending.md": "test_message_pages.py",
    "docs/spark-archive.md": "needs Spark: commands/replay/test_spark_page.py",
    "docs/spark-replay.md": "needs Spark: commands/replay/test_spark_page.py",
    "docs/spark-tables.md": "needs Spark: commands/replay/test_spark_report.py",
    "docs/shell.md": "prompt/test_script.py",
    "docs/tui.md": "takes the terminal: tui/test_manual.py and tui/test_terminal.py",
    "docs/controller.md": "test_controller_page.py",
    "docs/security.md": "tests/docs/test_security_page.py",
    "docs/commands.md": "shows helps and a schema: test_examples.py",
}
"""Pages whose commands are not run here, and where they are run or why not."""

PAGES = [
    "README.md", "docs/output.md", "docs/topics.md", "docs/testing.md", "docs/testing-faults.md", "docs/stores.md",
    "docs/from-mqadmin.md", "docs/grpc.md", "docs/grpc-clients.md",
    "docs/tasks/group-lags.md", "docs/tasks/queue-stuck.md", "docs/replication.md",
]  # fmt: skip
LOAD = "docs/load.md"
ON_TWO_BROKERS = ["docs/tasks/broker-leaves.md", "docs/tasks/move-topic.md"]


ours = servers.of_module("--test-requests", "on")


@pytest.fixture(scope="module")
def second(ours: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A second broker of the same cluster, ``broker-b``."""
    with servers.broker(
        tmp_path_factory.mktemp("b"), ours.namesrv_addr, "broker-b", "--test-requests", "on"
    ) as running:
        yield running


@pytest.fixture
def admin(ours: Server) -> Iterator[AdminClient]:
    with AdminClient(ours.namesrv_addr, timeout_s=30) as client:
        client.reset_broker(ours.broker_addr)
        yield client


@pytest.fixture
def scene(
    ours: Server, server: Server, admin: AdminClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """What the pages name, on an empty broker: ``orders``, which ``billing`` has consumed except for four messages of
    queue 0, by an online member; OrderTopic with the key ORDER-1; a dead letter; files to read. Maps the pages'
    addresses to the real ones."""
    monkeypatch.setattr("time.sleep", _Consumption(admin, ours))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NAMESRV_ADDR", ours.namesrv_addr)
    for topic in ("orders", "OrderTopic", "CopyTopic"):
        admin.create_topic(ours.broker_addr, topic_config(topic, 4))
    for number in range(40):
        message = Message("orders", b'{"order":%d,"type":"refund"}' % number, keys=f"order-{number}")
        admin.send_message(ours.broker_addr, MessageQueue("orders", "broker-a", number % 4), message)
    admin.create_group(ours.broker_addr, SubscriptionGroupConfig(group_name="billing"))
    for queue_id in range(4):
        admin.update_consumer_offset(ours.broker_addr, "billing", "orders", queue_id, 10 if queue_id else 6)
    sent = Message("OrderTopic", b"order", keys="ORDER-1", properties={"region": "eu"})
    for queue_id in (0, 3):
        admin.send_message(ours.broker_addr, MessageQueue("OrderTopic", "broker-a", queue_id), sent)
    dead = topic_config(dlq_topic("billing"))
    admin.create_topic(ours.broker_addr, dead)
    letter = Message(dead.topic_name, b'{"type":"refund"}', properties={"RETRY_TOPIC": "orders"})
    admin.send_message(ours.broker_addr, MessageQueue(dead.topic_name, "broker-a", 0), letter)
    until(lambda: {"orders", dead.topic_name} <= set(admin.topic_list()))
    Path("order.json").write_text('{"order":1}')
    Path("orders.log").write_text("one\ntwo\n")
    consumer = ConsumerData(group_name="billing", subscription_data_set=[SubscriptionData(topic="orders")])
    beat = Heartbeat(client_id="10.0.0.7@4711", consumer_data_set=[consumer])
    queues = {MessageQueue("orders", "broker-a", queue_id): ProcessQueueInfo() for queue_id in range(4)}
    with TalkingConsumer(ours.broker_addr, beat, ConsumerRunningInfo(mq_table=ObjectMap(queues))):
        yield {
            "127.0.0.1:9876": ours.namesrv_addr,
            "127.0.0.1:10911": ours.broker_addr,
            "mq.example:9876": server.namesrv_addr,
            "/data/store": str(ours.store_dir / "snapshots/stopped"),
        }


class _Consumption:
    """Stands in for the pauses of endless commands: in each, billing consumes everything, but every second one is a
    Ctrl-C."""

    def __init__(self, admin: AdminClient, ours: Server):
        self._admin, self._addr = admin, ours.broker_addr
        self._count = 0

    def __call__(self, _seconds: float) -> None:
        self._count += 1
        if self._count % 2 == 0:
            raise KeyboardInterrupt
        for queue_id in range(4):
            end = self._admin.max_offset(self._addr, "orders", queue_id)
            self._admin.update_consumer_offset(self._addr, "billing", "orders", queue_id, end)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_in_their_order(
    run: Rmqadmin, scene: dict[str, str], ours: Server, admin: AdminClient, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    if page == "docs/stores.md":
        admin.save_snapshot(ours.broker_addr, "stopped")  # a store that no broker is running on
    monkeypatch.setenv("NAMESRV_ADDR", scene["127.0.0.1:9876"])
    smaller = {
        "> 1000": "> 3",
        "--from 1048576": "--from 0",
        "--from 120 --to 130": "--from 0",
        "group lag billing": "group lag billing --sample 0",
    }
    said = run_lines(run, page, scene | {"tail -f": "cat"} | smaller, monkeypatch)
    headings = [out.decode().partition("\n")[0].split() for out in said.values()]
    for shown in re.findall(r"^```text\n([A-Z ]+)\n", (ROOT / page).read_text(), re.MULTILINE):
        assert shown.split() in headings, f"{page} shows a table that has another heading now"


@pytest.mark.parametrize("page", first_is_quick(ON_TWO_BROKERS))
def test_the_commands_of_pages_with_two_brokers_and_another_cluster(
    run: Rmqadmin, scene: dict[str, str], second: Server, server: Server, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    """The other cluster is the shared server's."""
    with AdminClient(scene["127.0.0.1:9876"], timeout_s=30) as admin:
        admin.reset_broker(second.broker_addr)
        admin.create_topic(second.broker_addr, topic_config("refunds"))
        admin.create_group(second.broker_addr, SubscriptionGroupConfig(group_name="shipping"))
    monkeypatch.setenv("NAMESRV_ADDR", scene["127.0.0.1:9876"])
    elsewhere = {
        "127.0.0.1:10921": second.broker_addr,
        "127.0.0.1:9877": server.namesrv_addr,
        "-c Other": f"-c {CLUSTER}",
    }
    run_lines(run, page, scene | elsewhere, monkeypatch)


@pytest.mark.slow
def test_the_commands_of_the_page_of_loads(
    run: Rmqadmin, ours: Server, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each for a moment only."""
    monkeypatch.setenv("NAMESRV_ADDR", ours.namesrv_addr)
    moment = {f"bench {what}": f"bench {what} --duration 0.2 --warm-up 0" for what in ("send", "consume", "latency")}
    run_lines(run, LOAD, {"--duration 10": "", "--duration 30": ""} | moment, monkeypatch)
    assert "rmqadmin_bench" in admin.topic_list()


def test_the_page_of_habits_names_every_command_with_an_o_of_its_own() -> None:
    page = (ROOT / "docs/from-mqadmin.md").read_text()
    said = re.findall(r"`(\w+)`", page.partition("It has one in")[2].partition(":")[0])
    own = [(command.entry.name, option) for command in all_commands() for option in command.options]
    assert sorted(said) == sorted(name for name, option in own if option.names[0] == "-o" and not option.is_shared)


def test_every_page_with_commands_is_run_somewhere() -> None:
    pages = {"README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))}
    pages -= {page for page in pages if page.startswith("docs/cn/")}  # have the commands of the English pages
    assert {page for page in pages if command_lines(page)} == {*PAGES, LOAD, *ON_TWO_BROKERS, *ELSEWHERE}
