"""Redrives of several clusters from one machine, with one state directory. All are named DefaultCluster, and all have a
broker-a."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqreplay.ledger.ledger import LEDGER_FILE, DoneLine, decode_line, encode_line
from rmqreplay.plans.plan import load_plan, save_plan
from tests.rmqadmin.conftest import Ran, Rmqadmin
from tests.support.servers import Server, standalone, topic_config, until

GROUP, ORIGIN = "billing", "orders"
DLQ, RETRY = f"%DLQ%{GROUP}", f"%RETRY%{GROUP}"
COUNT = 5


class Cluster:
    def __init__(self, server: Server, run: Rmqadmin):
        self.server, self._run = server, run

    def __call__(self, *words: str) -> Ran:
        return self._run("-o", "json", *words, "-n", self.server.namesrv_addr)

    def redrive(self, *words: str) -> tuple[int, int]:
        """Redrives, and returns how many were stored and how many left out."""
        ran = self("dlq", "redrive", GROUP, "--execute", *words)
        assert ran.status == 0, ran.err
        summary = ran.document["summary"]
        return summary["stored"], summary["excluded"]

    def told(self) -> tuple[int, int, list[bool], str]:
        """What `dlq ls`, `dlq show` and `check dlq` say of what was redriven and what is left."""
        (row,) = self("dlq", "ls", GROUP).items
        shown = [letter["redriven"] for letter in self("dlq", "show", GROUP).items]
        check = self._run("check", "dlq", "-g", GROUP, "-n", self.server.namesrv_addr)
        return row["redriven"], row["left"], shown, check.out.split(" | ")[0].splitlines()[0]

    def arrived(self, topic: str = RETRY) -> list[int]:
        with AdminClient(self.server.namesrv_addr) as admin:
            found = admin.pull_message(self.server.broker_addr, MessageQueue(topic, "broker-a", 0), 0).messages
        return [json.loads(message.body)["number"] for message in found]

    def retry_another(self) -> None:
        """A message of the group's own in its retry topic."""
        with AdminClient(self.server.namesrv_addr) as admin:
            message = Message(RETRY, b'{"number":-1}', properties={"RETRY_TOPIC": ORIGIN})
            admin.send_message(self.server.broker_addr, MessageQueue(RETRY, "broker-a", 0), message)

    def fill(self, numbers: range, topics: tuple[str, ...] = (DLQ, RETRY, ORIGIN)) -> None:
        """Dead letters with the same keys, unique keys and bodies in every cluster."""
        with AdminClient(self.server.namesrv_addr) as admin:
            for topic in topics:
                admin.create_topic(self.server.broker_addr, topic_config(topic))
                until(lambda topic=topic: topic in admin.topic_list())
            for number in numbers:
                properties = {"RETRY_TOPIC": ORIGIN, "UNIQ_KEY": f"UNIQUE{number:026}"}
                message = Message(
                    DLQ, json.dumps({"number": number}).encode(), keys=f"k{number}", properties=properties
                )
                admin.send_message(self.server.broker_addr, MessageQueue(DLQ, "broker-a", 0), message)


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


NOTHING_SENT = (0, COUNT, [False] * COUNT, f"WARNING - {GROUP}: {COUNT} dead letters")
ALL_SENT = (COUNT, 0, [True] * COUNT)


def test_what_was_redriven_in_one_is_not_in_the_other(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    """The same names, offsets, keys and unique keys: the second cluster's letters were left out, and nobody ever sent
    them."""
    one, two = (Cluster(servers.enter_context(standalone(tmp_path / name)), run) for name in ("one", "two"))
    for cluster in (one, two):
        cluster.fill(range(COUNT))
    assert one.redrive() == (COUNT, 0)
    assert one.told()[:3] == ALL_SENT
    assert two.told() == NOTHING_SENT
    assert two.redrive("--limit", "2") == (2, 0)
    assert two.redrive("--limit", "2") == (2, 0), "the next two"
    assert two.told()[:3] == (4, 1, [True] * 4 + [False])
    assert two.redrive() == (1, 4)
    assert [cluster.arrived() for cluster in (one, two)] == [[*range(COUNT)]] * 2
    assert (one.redrive(), two.redrive()) == ((0, COUNT), (0, COUNT))
    assert one.told()[3].startswith("OK - "), "nothing is left"


def test_a_cluster_that_is_made_anew_at_the_same_address(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    """Its letters, and a plan that was made before."""
    first = servers.enter_context(standalone(tmp_path / "first"))
    old = Cluster(first, run)
    old.fill(range(COUNT))
    assert old("dlq", "redrive", GROUP, "--job", "planned").status == 0
    assert old.redrive() == (COUNT, 0)
    ports = [first.ready[name].rpartition(":")[2] for name in ("namesrv_addr", "broker_addr")]
    first.stop()
    again = standalone(tmp_path / "again", "--namesrv-port", ports[0], "--port", ports[1])
    anew = Cluster(servers.enter_context(again), run)
    anew.fill(range(COUNT))
    assert anew.told() == NOTHING_SENT
    for words in (("--execute",), ("--resume",)):
        refused = anew("dlq", "redrive", *words, "--job", "planned")
        assert refused.status == 2
        assert "has other messages than those that job planned was planned with" in refused.err
    assert anew.arrived() == []
    assert anew.redrive() == (COUNT, 0)


@pytest.mark.slow
def test_a_store_copied_before_and_one_that_has_moved(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    """All letters are the same in the copies. Where the redriven messages are, they were redriven."""
    with standalone(tmp_path / "first") as server:
        Cluster(server, run).fill(range(COUNT))
    shutil.copytree(tmp_path / "first" / "store", tmp_path / "before")
    with standalone(tmp_path / "first") as server:
        assert Cluster(server, run).redrive() == (COUNT, 0)
    shutil.copytree(tmp_path / "first" / "store", tmp_path / "moved")
    moved, before = (
        Cluster(servers.enter_context(standalone(tmp_path / f"{name}-run", "--data", tmp_path / name)), run)
        for name in ("moved", "before")
    )
    assert moved.told()[:3] == ALL_SENT
    assert moved.redrive() == (0, COUNT)
    assert moved.arrived() == [*range(COUNT)]
    before.retry_another()
    assert before.told() == NOTHING_SENT
    assert before.redrive() == (COUNT, 0)
    assert before.told()[:3] == ALL_SENT
    assert moved.told()[:3] == ALL_SENT
    assert before.arrived() == [-1, *range(COUNT)]


def as_an_earlier_version(directory: Path, **shown: Any) -> None:
    """Takes from a job what earlier versions did not write."""
    plan = load_plan(str(directory))
    assert plan is not None
    save_plan(str(directory), msgspec.structs.replace(plan, witnesses={}))
    lines = [decode_line(line) for line in (directory / LEDGER_FILE).read_bytes().splitlines(keepends=True)]
    with (directory / LEDGER_FILE).open("wb") as file:
        for line in lines:
            assert line is not None
            file.write(encode_line(msgspec.structs.replace(line, marks={}) if isinstance(line, DoneLine) else line))


@pytest.mark.slow
def test_ledgers_of_an_earlier_version(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    """Such a ledger does not say whose letters it lists: none is left out silently, and none is sent again silently."""
    one, two = (Cluster(servers.enter_context(standalone(tmp_path / name)), run) for name in ("one", "two"))
    for cluster in (one, two):
        cluster.fill(range(COUNT))
    assert one.redrive("--job", "old") == (COUNT, 0)
    as_an_earlier_version(tmp_path / "state" / "rmqadmin" / "replay" / "old")
    assert one.told() == two.told() == NOTHING_SENT
    assert two.redrive() == (COUNT, 0)
    refused = one("dlq", "redrive", GROUP, "--execute")
    assert refused.status == 2
    assert "Perhaps some were sent before, by old (5 messages)" in refused.err
    assert one.arrived() == [*range(COUNT)]
    assert one.redrive("--yes") == (COUNT, 0)


def test_an_old_ledger_whose_plan_names_offset_message_ids(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    """The dashboard's plans do. Such an id holds the store host."""
    one, two = (Cluster(servers.enter_context(standalone(tmp_path / name)), run) for name in ("one", "two"))
    for cluster in (one, two):
        cluster.fill(range(COUNT))
    ids = [row["offset_message_id"] for row in one("dlq", "show", GROUP).items]
    assert one.redrive("--job", "old", *(word for each in ids for word in ("--id", each))) == (COUNT, 0)
    as_an_earlier_version(tmp_path / "state" / "rmqadmin" / "replay" / "old")
    assert one.told()[:3] == ALL_SENT
    assert two.told() == NOTHING_SENT
    assert one.redrive() == (0, COUNT)


def test_a_job_goes_on_where_it_was_planned(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    """A second dry run under the same name, in another cluster, takes the place of the first one's plan."""
    one, two = (Cluster(servers.enter_context(standalone(tmp_path / name)), run) for name in ("one", "two"))
    for cluster in (one, two):
        cluster.fill(range(COUNT))
        assert cluster("dlq", "redrive", GROUP, "--job", "job").status == 0
    refused = one("dlq", "redrive", "--execute", "--job", "job")
    assert refused.status == 2
    assert f"job job was planned for {two.server.namesrv_addr}" in refused.err
    assert (one.arrived(), two.arrived()) == ([], [])
    assert two("dlq", "redrive", "--execute", "--job", "job").status == 0
    assert (one.arrived(), two.arrived()) == ([], [*range(COUNT)])
    assert one("dlq", "redrive", GROUP, "--job", "job").status == 2, "it has begun"


@pytest.mark.slow
def test_a_plan_of_a_cluster_made_anew_with_fewer_letters(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    first = servers.enter_context(standalone(tmp_path / "first"))
    old = Cluster(first, run)
    old.fill(range(COUNT))
    assert old("dlq", "redrive", GROUP, "--job", "planned").status == 0
    ports = [first.ready[name].rpartition(":")[2] for name in ("namesrv_addr", "broker_addr")]
    first.stop()
    again = standalone(tmp_path / "again", "--namesrv-port", ports[0], "--port", ports[1])
    anew = Cluster(servers.enter_context(again), run)
    anew.fill(range(2))
    assert anew("dlq", "redrive", "--execute", "--job", "planned").status == 2
    assert anew.arrived() == []


@pytest.mark.slow
def test_another_directory_of_ledgers(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    cluster = Cluster(servers.enter_context(standalone(tmp_path / "one")), run)
    cluster.fill(range(COUNT))
    own = ("--ledger", str(tmp_path / "own"))
    assert cluster.redrive(*own) == (COUNT, 0)
    assert cluster.told() == NOTHING_SENT
    (row,) = cluster("dlq", "ls", GROUP, *own).items
    assert (row["redriven"], row["left"]) == (COUNT, 0)
    assert [letter["redriven"] for letter in cluster("dlq", "show", GROUP, *own).items] == [True] * COUNT
    assert run("check", "dlq", "-g", GROUP, "-n", cluster.server.namesrv_addr, *own).status == 0


def test_a_damaged_ledger_hides_no_dead_letter(run: Rmqadmin, servers: ExitStack, tmp_path: Path) -> None:
    cluster = Cluster(servers.enter_context(standalone(tmp_path / "one")), run)
    cluster.fill(range(COUNT))
    assert cluster.redrive("--job", "job") == (COUNT, 0)
    ledger = tmp_path / "state" / "rmqadmin" / "replay" / "job" / LEDGER_FILE
    ledger.write_bytes(b"x" + ledger.read_bytes())
    ran = cluster("dlq", "ls", GROUP)
    assert (ran.status, ran.items[0]["messages"], ran.items[0]["redriven"]) == (1, COUNT, None)
    assert "line 1 is damaged" in ran.items[0]["error"]
    shown = cluster("dlq", "show", GROUP)
    assert (len(shown.items), shown.items[0]["redriven"]) == (COUNT, None)
    assert run("check", "dlq", "-g", GROUP, "-n", cluster.server.namesrv_addr).status == 3
    assert cluster("dlq", "redrive", GROUP, "--execute").status != 0
    assert cluster.arrived() == [*range(COUNT)]
