"""``doctor`` on real servers in real states: two name servers, brokers that differ, one that registered a dead address,
two of one name, and one that is frozen."""

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rmqadmin.core.health.examination import QUICK_MAX
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.names import dlq_topic
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqadmin.tui.members import ScriptedMember
from tests.support import servers
from tests.support.servers import Fresh, Server, topic_config, until


def test_a_new_server_is_well(run: Rmqadmin, start_standalone: Callable[..., Server]) -> None:
    there = ("-n", start_standalone().namesrv_addr)
    ran = run("-o", "json", "doctor", "--quick", "--all", *there, status=0)
    checks = {item["check"]: item["severity"] for item in ran.items}
    assert checks == {
        "flush": "note", "name-server": "ok", "reachable": "ok", "clock": "ok", "disk": "ok", "access": "ok",
        "versions": "ok",
    }  # fmt: skip
    assert ran.document["summary"]["errors"] == 0
    ignored = run("doctor", "--quick", "--ignore", "flush", *there)
    passed = "8 checks passed; looked at 1 name server, 1 broker, 0 dead-letter queues, 0 groups"
    left_out = "not at topics (--quick), flush (--ignore)"
    assert (ignored.status, ignored.out) == (0, f"0 errors, 0 warnings, 0 notes; {passed}; {left_out}\n")
    assert ran.document["summary"]["left_out"] == ["topics (--quick)"]
    assert run("-o", "json", "doctor", *there).document["summary"]["left_out"] == []


def test_a_name_server_that_is_down_is_a_finding_and_no_failure(rmqadmin: Rmqadmin, server: Server) -> None:
    ran = rmqadmin("doctor", "--quick", "-n", f"127.0.0.1:1;{server.namesrv_addr}", status=1)
    assert ran.out.startswith("error    127.0.0.1:1: cannot connect to 127.0.0.1:1")
    assert "fix: Start it" in ran.out
    assert re.search(r"error: 1 error, \d+ warnings?; the first: 127.0.0.1:1: ", ran.err)
    elsewhere = rmqadmin("doctor", "-c", "NoCluster", status=1)
    assert "error    NoCluster: no name server knows a broker of this cluster" in elsewhere.out
    alone = rmqadmin("-o", "json", "doctor", "-n", "127.0.0.1:1")
    assert (alone.status, [item["severity"] for item in alone.items]) == (1, ["error"])


def test_servers_that_others_reach_and_that_ask_nobody_warn_at_their_start_and_are_found(
    run: Rmqadmin, start_standalone: Callable[..., Server]
) -> None:
    """127.1 is 127.0.0.1, spelled so that it does not look like an address of this machine alone."""
    server = start_standalone("--listen", "127.1")
    ran = run("-o", "json", "doctor", "--quick", "-n", server.namesrv_addr, status=1)
    said = {item["subject"]: item for item in ran.items if item["check"] == "access"}
    assert set(said) == {server.namesrv_addr, "broker-a/0"}
    for item in said.values():
        assert item["severity"] == "warning"
        assert item["what"].startswith("listens on 127.1 and serves anybody")
        assert "authenticationEnabled=true" in item["fix"]
    for service in ("broker", "namesrv"):  # written before the server answers any request
        assert f"event=nobody-is-asked service={service} listen=127.1 " in server.log_tail()


def test_a_broker_that_cannot_be_reached_is_a_finding(run: Rmqadmin, start_standalone: Callable[..., Server]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead_addr = f"127.0.0.1:{free.getsockname()[1]}"
    server = start_standalone("--advertise", dead_addr)
    ran = run("-o", "json", "doctor", "--quick", "-n", server.namesrv_addr, status=1)
    [item] = [item for item in ran.items if item["severity"] == "error"]
    assert (item["check"], item["subject"]) == ("reachable", "broker-a/0")
    assert item["what"].startswith(f"does not answer at {dead_addr}, which it registered: cannot connect")


class Sick:
    """Two name servers. Broker ``a`` registers with both. Each has a broker ``b`` of its own, and the first ``b``
    advertises an address where nobody listens."""

    def __init__(self, stack: ExitStack, work: Path):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.dead_addr = f"127.0.0.1:{free.getsockname()[1]}"
        self.first = stack.enter_context(servers.namesrv(work / "n1"))
        self.second = stack.enter_context(servers.namesrv(work / "n2"))
        self.namesrv_addr = f"{self.first.namesrv_addr};{self.second.namesrv_addr}"
        percent_max = ("--set", "diskMaxUsedSpaceRatio=1", "--set", "autoCreateSubscriptionGroup=false")
        self.a = stack.enter_context(servers.broker(work / "a", self.namesrv_addr, "a", *percent_max))
        advertise = ("--advertise", self.dead_addr, "--flush", "sync")
        self.b1 = stack.enter_context(servers.broker(work / "b1", self.first.namesrv_addr, "b", *advertise))
        self.b2 = stack.enter_context(
            servers.broker(
                work / "b2",
                self.second.namesrv_addr,
                "b",
                "--flush",
                "sync",
                "--set",
                "autoCreateSubscriptionGroup=false",
            )
        )


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sick]:
    with ExitStack() as stack:
        yield Sick(stack, tmp_path_factory.mktemp("sick"))


def found(ran_items: list[dict[str, Any]]) -> Mapping[tuple[str, str], str]:
    """The findings by check and subject."""
    return {
        (item["check"], item["subject"]): f"{item['severity']}: {item['what']} -> {item['fix']}" for item in ran_items
    }


@pytest.mark.slow
def test_what_is_wrong_with_servers_and_what_somebody_left_behind(run: Rmqadmin, sick: Sick) -> None:
    topic, group = "SickTopic", "SickGroup"
    with AdminClient(sick.namesrv_addr) as admin:
        admin.create_topic(sick.a.broker_addr, topic_config(topic, 2))
        admin.create_topic(sick.a.broker_addr, TopicConfig(topic_name="ReadOnly", perm=4))
        admin.create_group(sick.a.broker_addr, SubscriptionGroupConfig(group_name=group, consume_enable=False))
        admin.create_topic(sick.a.broker_addr, TopicConfig(topic_name=dlq_topic(group)))
        letters = MessageQueue(dlq_topic(group), "a", 0)
        admin.send_message(sick.a.broker_addr, letters, Message(letters.topic, b"x"))
        until(lambda: {topic, "ReadOnly", dlq_topic(group)} <= set(admin.topic_list()))
        admin.wipe_write_perm(sick.first.namesrv_addr, "a")
        admin.update_broker_config(sick.b2.broker_addr, {"brokerPermission": "4"})
    ran = run("-o", "json", "doctor", "-n", sick.namesrv_addr, "--sample", "0", status=1)
    said = found(ran.items)
    for key, severity, words, fix in (
        (("reachable", "b/0"), "error", sick.dead_addr, "--advertise"),
        (("broker-names", "b/0"), "error", "two brokers of this name and id", "another brokerName"),
        (("permission", "a/0"), "warning", "", ""),
        (("permission", "b/0"), "warning", "permits only R (4)", "-k brokerPermission -v 6"),
        (
            ("groups-everywhere", "b/0"),
            "warning",
            f"lacks 1 group of DefaultCluster, whose clients it refuses: {group}",
            "",
        ),
        (("flush", "DefaultCluster"), "warning", "ASYNC_FLUSH: a/0; SYNC_FLUSH: b/0", "one flushDiskType"),
        (("dead-letters", group), "warning", "has 1 dead letter", f"rmqadmin dlq show {group}"),
    ):
        assert key in said, sorted(said)
        assert said[key].startswith(f"{severity}: ")
        assert words in said[key]
        assert fix in said[key]
    permissions = [item["what"] for item in ran.items if (item["check"], item["subject"]) == ("permission", "a/0")]
    assert permissions[:2] == ["permits only R (4) on 1 topic: ReadOnly", f"lets 1 group consume nothing: {group}"]
    assert permissions[2].startswith(f"no write permission at {sick.first.namesrv_addr}: it was wiped")
    assert "rmqadmin addWritePerm -b a" in [item["fix"] for item in ran.items]
    lacking = [item["what"] for item in ran.items if item["check"] == "topics-everywhere"]
    assert "lacks 2 topics of DefaultCluster, nothing of them is sent there: ReadOnly, SickTopic" in lacking
    order = [item["severity"] for item in ran.items]
    assert order == sorted(order, key=["error", "warning", "note"].index)
    with AdminClient(sick.namesrv_addr) as admin:
        percent = float(admin.broker_runtime_info(sick.a.broker_addr)["commitLogDiskRatio"]) * 100
    assert (("disk", "a/0") in said) == (percent > 10), "Apache takes 10% for a lower limit"


@pytest.mark.slow
def test_the_fixes_that_are_commands_mend_what_they_are_for(run: Rmqadmin, sick: Sick) -> None:
    with AdminClient(sick.first.namesrv_addr) as admin:
        admin.create_topic(sick.a.broker_addr, TopicConfig(topic_name="MendTopic", perm=4))
        admin.create_group(sick.a.broker_addr, SubscriptionGroupConfig(group_name="MendGroup", consume_enable=False))
        until(lambda: "MendTopic" in admin.topic_list())
        admin.wipe_write_perm(sick.first.namesrv_addr, "a")
        admin.update_broker_config(sick.a.broker_addr, {"brokerPermission": "4"})

    def fixes() -> list[str]:
        ran = run("-o", "json", "doctor", "-n", sick.first.namesrv_addr, "--sample", "0")
        mine = [item for item in ran.items if item["check"] == "permission"]
        return [str(item["fix"]) for item in mine if item["subject"] != "b/0"]

    for _ in range(10):  # each finding names one topic or group, and goes when the last of them is mended
        commands = fixes()
        if not commands:
            break
        for command in commands:
            assert command.startswith("rmqadmin ")
            run(*command.split()[1:], "-n", sick.first.namesrv_addr, status=0)
    assert fixes() == []


@pytest.mark.slow
def test_a_frozen_broker_costs_one_timeout_and_the_others_are_looked_at(run: Rmqadmin, sick: Sick) -> None:
    with AdminClient(sick.second.namesrv_addr) as admin:
        for at in range(20):
            admin.create_group(sick.a.broker_addr, SubscriptionGroupConfig(group_name=f"Frozen{at}"))
    os.kill(sick.b2.pid, signal.SIGSTOP)
    try:
        began_s = time.monotonic()
        ran = run("-o", "json", "doctor", "-n", sick.second.namesrv_addr, "--timeout", "2", "--sample", "0", "--all")
        took_s = time.monotonic() - began_s
    finally:
        os.kill(sick.b2.pid, signal.SIGCONT)
    said = found(ran.items)
    assert ran.status == 1
    assert said["reachable", "b/0"].startswith("error: ")
    assert "did not answer" in said["reachable", "b/0"]
    assert said["reachable", "a/0"].startswith("ok: ")
    assert ("lag", "Frozen19") in said
    assert took_s < 6 * 2 + 10, "the deadline is six timeouts"


@pytest.mark.slow
@pytest.mark.parametrize("quick", [[], ["--quick"]], ids=["all", "quick"])
def test_a_group_whose_members_differ(run: Rmqadmin, sick: Sick, fresh: Fresh, quick: list[str]) -> None:
    """`--quick` looked at no group, and said that 17 checks had passed."""
    topic, group = fresh("DoctorTopic"), fresh("DoctorGroup")
    with AdminClient(sick.second.namesrv_addr) as admin:
        admin.create_topic(sick.a.broker_addr, topic_config(topic))
        admin.create_group(sick.a.broker_addr, SubscriptionGroupConfig(group_name=group))
        until(lambda: topic in admin.topic_list())
        queue = MessageQueue(topic, "a", 0)
        admin.send_message(sick.a.broker_addr, queue, Message(topic, b"x"))
        admin.update_consumer_offset(sick.a.broker_addr, group, topic, 0, 0)
    with (
        ScriptedMember(sick.a, group, topic, client_id="one", owns=[queue]),
        ScriptedMember(sick.a, group, topic, client_id="two", owns=[], expression="TagA"),
        ScriptedMember(sick.a, group, topic, client_id="three", owns=None),
    ):
        ran = run("-o", "json", "doctor", *quick, "-n", sick.second.namesrv_addr, "--sample", "0.2")
    said = {check: what for (check, subject), what in found(ran.items).items() if subject == group}
    assert said["subscriptions"].startswith("warning: subscriptions differ")
    assert said["members"].startswith("warning: 1 member did not answer")
    assert said["stuck"].startswith("warning: 1 queue did not move in ")
    assert re.search(rf"although messages wait, the oldest for [\w ]+: {topic}/a/0 -> ", said["stuck"])


@pytest.mark.slow
def test_messages_that_were_deleted_before_their_group_consumed_them(
    run: Rmqadmin, start_standalone: Callable[..., Server]
) -> None:
    server = start_standalone(*servers.sets("mappedFileSizeCommitLog=65536", "fileReservedTime=0"))
    topic, group = "ShortKept", "TooSlow"
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic))
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
        until(lambda: topic in admin.topic_list())
        for _ in range(100):
            admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, bytes(4000)))
        admin.update_consumer_offset(server.broker_addr, group, topic, 0, 0)

        def is_deleted() -> bool:
            admin.delete_expired_commit_log(server.broker_addr)
            return admin.min_offset(server.broker_addr, topic, 0) > 0

        until(is_deleted)
        lost = admin.min_offset(server.broker_addr, topic, 0)
    ran = run("-o", "json", "doctor", "-n", server.namesrv_addr, "--sample", "0")
    told = [item["what"] for item in ran.items if (item["check"], item["subject"]) == ("retention", group)]
    assert told == [
        f"has lost {lost} messages, deleted unconsumed: {topic}/broker-a/0",
        f"soon loses messages: they may be deleted at any time now: {topic}/broker-a/0",
    ]
    lag = run("-o", "json", "group", "lag", group, "-n", server.namesrv_addr, "--sample", "0")
    (row,) = lag.items
    assert (row["lag_count"], row["problem"]) == (100, f"{lost} deleted before, deleted at any time now")
    assert row["oldest_waiting_ms"] is not None, "that of the first that is left"


@pytest.mark.slow
def test_a_broker_that_checks_users_and_whoever_shows_no_key(
    run: Rmqadmin, start_standalone: Callable[..., Server]
) -> None:
    settings = servers.sets(
        "authenticationEnabled=true", "authorizationEnabled=true",
        'initAuthenticationUser={"username":"root","password":"secret-of-root"}',
    )  # fmt: skip
    server = start_standalone(*settings)
    without = run("-o", "json", "doctor", "--quick", "-n", server.namesrv_addr, status=1)
    said = found(without.items)["reachable", "broker-a/0"]
    assert said.startswith("error: does not report its state: ")
    assert "--access-key" in said
    keys = ("-ak", "root", "-sk", "secret-of-root")
    ran = run("-o", "json", "doctor", "--quick", "--all", "-n", server.namesrv_addr, *keys, status=0)
    assert found(ran.items)["access", "broker-a/0"].startswith("ok: checks users and their rights")
    assert run("check", "broker", "-n", server.namesrv_addr).status == 2
    assert run("check", "broker", "-n", server.namesrv_addr, *keys).status == 0
    assert run("check", "disk", "-n", server.namesrv_addr).status == 3


@pytest.mark.slow
def test_a_broker_that_was_killed_is_missed_by_whoever_names_it(run: Rmqadmin, tmp_path: Path) -> None:
    with (
        servers.namesrv(tmp_path / "n") as namesrv,
        servers.broker(tmp_path / "a", namesrv.namesrv_addr, "a"),
        servers.broker(tmp_path / "b", namesrv.namesrv_addr, "b") as killed,
    ):
        there = ("-n", namesrv.namesrv_addr)
        assert run("check", "broker", "-b", "a", "-b", "b", *there).status == 0
        killed.stop(signal.SIGKILL)
        until(lambda: run("check", "broker", "-b", "a", "-b", "b", *there).status == 2)
        assert run("check", "broker", "-b", "a", *there).status == 0
        assert run("check", "disk", "-b", "b", *there).status == 3
        assert run("doctor", "--quick", *there).status == 0, "nobody says that there should be another"


@pytest.mark.slow
def test_a_broker_and_a_name_server_that_died_are_missed_by_the_next_doctor(run: Rmqadmin, tmp_path: Path) -> None:
    """Name servers forget a broker that died, and `-n` named only the name server that lived: all seemed well."""
    with servers.namesrv(tmp_path / "n") as lives, servers.namesrv(tmp_path / "m") as dies:
        both = f"{lives.namesrv_addr};{dies.namesrv_addr}"
        with servers.broker(tmp_path / "a", both, "a"), servers.broker(tmp_path / "b", both, "b") as killed:
            there = ("-n", lives.namesrv_addr)
            assert run("doctor", "--quick", *there).status == 0
            killed.stop(signal.SIGKILL)
            dies.stop(signal.SIGKILL)
            until(lambda: "broker=b" not in (out := run("-o", "name", "clusterList", *there).out) and "b" not in out)
            ran = run("-o", "json", "doctor", "--quick", *there)
            said = found(ran.items)
            assert ran.status == 1
            assert said["reachable", "b/0"].startswith("error: gone ")
            assert said["name-server", dies.namesrv_addr].startswith(
                "warning: a/0 registers there too, but from here: "
            )
            assert ("reachable", "b/0") in found(run("-o", "json", "doctor", "--quick", *there).items), "it stays"


def test_quick_finds_what_readme_promises(run: Rmqadmin, start_standalone: Callable[..., Server]) -> None:
    server = start_standalone()
    there = ("-n", server.namesrv_addr)
    with AdminClient(server.namesrv_addr) as admin:
        for at in range(QUICK_MAX + 3):
            admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=f"group-{at:03}"))
        letters = MessageQueue(dlq_topic("group-001"), "broker-a", 0)
        admin.create_topic(server.broker_addr, TopicConfig(topic_name=letters.topic))
        until(lambda: letters.topic in admin.topic_list())
        admin.send_message(server.broker_addr, letters, Message(letters.topic, b"x"))
        admin.wipe_write_perm(server.namesrv_addr, "broker-a")
    ran = run("-o", "json", "doctor", "--quick", *there)
    said = found(ran.items)
    assert said["dead-letters", "group-001"].startswith("warning: has 1 dead letter, the newest ")
    assert said["permission", "broker-a/0"].startswith(f"warning: no write permission at {server.namesrv_addr}: ")
    assert ran.document["summary"]["looked_at"] == [
        "1 name server", "1 broker", "1 dead-letter queue", f"{QUICK_MAX} of {QUICK_MAX + 3} groups",
    ]  # fmt: skip
    assert (
        f"looked at 1 name server, 1 broker, 1 dead-letter queue, {QUICK_MAX} of"
        in run("doctor", "--quick", *there).out
    )
