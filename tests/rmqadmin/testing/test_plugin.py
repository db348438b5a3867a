"""The pytest plug-in as other projects use it, in inner runs of pytest. Each is a process of its own: a run in this
process takes the modules that it imports out of ``sys.modules`` at its end, and later tests fail without them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rmqadmin.testing.rocketmq import RocketMQ
from rmqadmin.testing.server_process import ServerProcess
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RefusedError

pytest_plugins = ["pytester"]

PLUGIN = "rmqadmin.testing.plugin"
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading those that are installed takes seconds."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.slow
def test_a_session_of_tests_shares_a_broker_and_nothing_else(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrocketmq_args = --set autoCreateTopicEnable=false --set 'brokerName=of the ini'")
    pytester.makepyfile(
        """
        import pytest
        from rmqproto.errors import RefusedError

        pids = []

        @pytest.mark.parametrize("name", ["a b/c", "ä" * 200])
        def test_names(rocketmq, rocketmq_server, name):
            pids.append(rocketmq_server.pid)
            assert rocketmq.topic() != rocketmq.topic()
            topic, group = rocketmq.topic(), rocketmq.group()
            rocketmq.send(topic, "text", tags="t", keys=["k"], properties={"p": "v"})
            rocketmq.send(topic, b"bytes")
            first, second = rocketmq.messages(topic)
            assert (first.body, first.tags, first.keys, first.properties["p"]) == (b"text", "t", ["k"], "v")
            assert second.body == b"bytes"
            assert rocketmq.lag(group, topic) == 2

        def test_waits(rocketmq, rocketmq_server):
            assert {*pids} == {rocketmq_server.pid}
            topic = rocketmq.topic(queue_count=4)
            for number in range(40):
                rocketmq.send(topic, str(number))
            assert sorted(int(message.body) for message in rocketmq.messages(topic, 40)) == list(range(40))
            with pytest.raises(AssertionError, match="holds 40 messages after 0 s, not 41"):
                rocketmq.messages(topic, 41, timeout_s=0)

        def test_reset(rocketmq):
            rocketmq.create_topic("fixed")
            rocketmq.send("fixed", "old")
            group = rocketmq.group()
            rocketmq.reset()
            assert "fixed" not in rocketmq.admin.topic_list()
            assert group not in rocketmq.admin.all_groups(rocketmq.broker_addr).subscription_group_table
            rocketmq.create_topic("fixed")
            assert rocketmq.messages("fixed") == []

        def test_snapshots(rocketmq):
            rocketmq.create_topic("kept")
            rocketmq.send("kept", "before")
            rocketmq.snapshot("s")
            rocketmq.send("kept", "after")
            rocketmq.restore("s")
            assert [message.body for message in rocketmq.messages("kept")] == [b"before"]

        def test_faults(rocketmq):
            topic = rocketmq.topic()
            with rocketmq.faults("SEND_MESSAGE:error=SYSTEM_BUSY"), pytest.raises(RefusedError):
                rocketmq.send(topic, "x")
            rocketmq.send(topic, "x")

        def test_arguments_of_the_ini(rocketmq):
            config = rocketmq.admin.broker_config(rocketmq.broker_addr)
            assert (config["autoCreateTopicEnable"], config["brokerName"]) == ("false", "of the ini")
        """
    )
    pytester.runpytest_subprocess("-p", PLUGIN, "-q").assert_outcomes(passed=7)


CODE_UNDER_TEST = """
from contextlib import contextmanager
from threading import Event

from rmqclient import ConsumeFrom, Message, Producer, PushConsumer

def place_order(namesrv, topic):
    with Producer.blocking(namesrv, "shop") as producer:
        producer.send(Message(topic, b"order 7", keys=["order-7"]))

@contextmanager
def billing(namesrv, topic, group):
    came = Event()
    with PushConsumer.blocking(
        namesrv, group, {topic: "*"}, lambda message: came.set(), consume_from=ConsumeFrom.FIRST_OFFSET
    ):
        came.wait()
        yield

def plain_billing(namesrv):
    with billing(namesrv, "orders", "billing"):
        pass

billing_that_is_killed = plain_billing

def fill_a_day(namesrv):
    place_order(namesrv, "orders")
"""
"""What the examples of the pages test."""


@pytest.mark.slow
@pytest.mark.parametrize(("page", "count"), [("README.md", 1), ("docs/testing.md", 3), ("docs/testing-faults.md", 1)])
def test_the_examples_of_a_page(pytester: pytest.Pytester, page: str, count: int) -> None:
    examples = re.findall(r"^```python\n(def .*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    pytester.makepyfile(CODE_UNDER_TEST + "\n".join(examples))
    pytester.runpytest_subprocess("-p", PLUGIN, "-q").assert_outcomes(passed=count)


@pytest.mark.slow
def test_the_settings_of_the_page(pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs/testing.md").read_text()
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    pytester.makepyprojecttoml(settings)
    pytester.makepyfile(
        """
        def test_what_is_set(rocketmq):
            config = rocketmq.admin.broker_config(rocketmq.broker_addr)
            assert (config["autoCreateTopicEnable"], config["maxMessageSize"]) == ("false", "1048576")
        """
    )
    pytester.runpytest_subprocess("-p", PLUGIN, "-q").assert_outcomes(passed=1)


def test_a_server_that_cannot_start_says_why(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrocketmq_args = --flush never")
    pytester.makepyfile("def test_start(rocketmq): pass")
    result = pytester.runpytest_subprocess("-p", PLUGIN, "-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*rmqserver did not start (exit status 2)*", "*--flush*never*"])


def test_a_path_counts_from_the_file_of_settings(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that were started in a folder of their own did not find the seed."""
    pytester.makeini("[pytest]\nrocketmq_args = --seed seed.yaml")
    (pytester.path / "seed.yaml").write_text("topics: [Seeded]")
    folder = pytester.mkdir("folder")
    (folder / "test_seed.py").write_text('def test(rocketmq): assert "Seeded" in rocketmq.admin.topic_list()')
    monkeypatch.chdir(folder)
    pytester.runpytest_subprocess("-p", PLUGIN, "-q").assert_outcomes(passed=1)


@pytest.mark.slow
def test_each_worker_of_xdist_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pathlib, pytest

        @pytest.mark.parametrize("number", range(8))
        def test_some(rocketmq, rocketmq_server, worker_id, number):
            pathlib.Path(f"{worker_id}-{rocketmq_server.pid}").touch()
            rocketmq.create_topic("same")
            rocketmq.send("same", "x")
        """
    )
    pytester.runpytest_subprocess("-p", PLUGIN, "-p", "xdist", "-q", "-n", "2").assert_outcomes(passed=8)
    found = sorted(path.name for path in pytester.path.glob("gw*-*"))
    assert [name.partition("-")[0] for name in found] == ["gw0", "gw1"]
    assert len({name.partition("-")[2] for name in found}) == 2


def test_who_does_not_use_it_pays_nothing_for_it() -> None:
    script = f"import pytest, sys; before = {{*sys.modules}}; import {PLUGIN}; print(*({{*sys.modules}} - before))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) == {"rmqadmin", "rmqadmin.testing", PLUGIN}


def test_the_installation_names_it_to_pytest() -> None:
    """The entry point has the module's name, so that ``-p`` with that name does not load it a second time."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


@pytest.mark.slow
def test_several_brokers_are_one_to_a_test(tmp_path: Path) -> None:
    with (
        ServerProcess(["--brokers", "2"], tmp_path / "log") as server,
        RocketMQ(server.namesrv_addr, server.broker_addrs, "a test") as rocketmq,
    ):
        topic, group = rocketmq.topic(), rocketmq.group()
        second = rocketmq.broker_addrs[1]

        def send_to_second(body: bytes) -> None:
            rocketmq.admin.send_message(second, MessageQueue(topic, "", 0), Message(topic, body))

        rocketmq.send(topic, "first")
        send_to_second(b"second")
        assert [message.body for message in rocketmq.messages(topic)] == [b"first", b"second"]
        assert rocketmq.lag(group, topic) == 2
        with rocketmq.faults("SEND_MESSAGE:error=SYSTEM_BUSY"), pytest.raises(RefusedError):
            send_to_second(b"refused")
        rocketmq.snapshot("both")
        send_to_second(b"after")
        rocketmq.restore("both")
        assert [message.body for message in rocketmq.messages(topic)] == [b"first", b"second"]
        rocketmq.reset()
        assert topic not in rocketmq.admin.topic_list()
