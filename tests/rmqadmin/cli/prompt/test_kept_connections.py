"""Connections outlive the lines of a shell, whatever its commands do with them."""

import socket
from collections.abc import Iterator

import pytest

from rmqadmin.cli.call import Call
from rmqadmin.cli.invocation import Invocation, Session
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.prompt.command_lines import CommandLines
from rmqadmin.commands.tui import _settings
from rmqadmin.core.contexts.context_store import ContextStore
from rmqclient import blocking
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.names import dlq_topic
from tests.rmqadmin.cli.prompt.conftest import RunLine, opened, runner
from tests.rmqadmin.conftest import CLUSTER
from tests.support.forwarder import Forwarder
from tests.support.servers import Fresh, Server, topic_config, until

LINES = [
    "topicList", "dlq ls", "dlq show {group}", "dlq redrive {group} --to topic:{topic}", "doctor --quick",
    "check broker", "check lag", "group lag {group} --sample 0", "msg cat {topic}", "printMsg -t {topic}",
    "sendMessage -t {topic} -p x", "consumerProgress", "updateTopic -c {cluster} -t {topic} -r 1 -w 1",
]  # fmt: skip
REPLAY_LINES = ["spark-replay --dlq {group} --to topic:{topic}", "spark-replay --dlq {group} --to topic:{topic}nosuch"]


@pytest.fixture
def names(server: Server, admin: AdminClient, fresh: Fresh) -> dict[str, str]:
    """A group with a dead letter, and a topic to send it to."""
    group, topic = fresh("KeptGroup"), fresh("KeptTopic")
    admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    for name in (dlq_topic(group), topic):
        admin.create_topic(server.broker_addr, topic_config(name))
    admin.update_consumer_offset(server.broker_addr, group, topic, 0, 0)
    dead = Message(dlq_topic(group), b"dead", properties={"RETRY_TOPIC": topic})
    admin.send_message(server.broker_addr, MessageQueue(dead.topic, "broker-a", 0), dead)
    until(lambda: {dlq_topic(group), topic} <= set(admin.topic_list()))
    return {"group": group, "topic": topic, "cluster": CLUSTER}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ports that this process looked up for new connections of any kind. One connection serves all threads: how
    many they need otherwise depends on how fast the server is."""
    monkeypatch.setattr(blocking, "CONNECTIONS_MAX", 1)
    found: list[str] = []
    look_up = socket.getaddrinfo

    def noted(host: object, port: object, *args: object, **kwargs: object) -> object:
        found.append(str(port))
        return look_up(host, port, *args, **kwargs)  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    return found


@pytest.mark.parametrize("lines", [LINES, REPLAY_LINES], ids=["most", "spark-replay"])
def test_no_command_opens_a_connection_that_is_there(
    line: RunLine, names: dict[str, str], made: list[str], lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if lines is REPLAY_LINES:
        pytest.importorskip("pyspark")
        monkeypatch.setattr("spark_tools.replay.entry.find_java", lambda home: None)  # no Java is started
    texts = [text.format(**names) for text in lines]
    statuses = [line(text).status for text in texts]
    for text, status in zip(texts, statuses, strict=True):
        finds_faults = text.startswith(("doctor", "check"))  # other tests leave faults that these commands report
        assert status in ([5] if "nosuch" in text else [0, 1, 2] if finds_faults else [0]), text
    assert made
    made.clear()
    for text in texts:
        line(text)
    assert made == []


def test_a_redrive_opens_what_sends_and_nothing_else(
    line: RunLine, names: dict[str, str], server: Server, made: list[str]
) -> None:
    """One pipeline to the broker and the route to its own permits. Everything else goes over kept connections."""
    redrive = "dlq redrive {group} --to topic:{topic} --execute --yes --no-skip-redriven".format(**names)
    assert line(redrive).status == 0
    made.clear()
    assert line(redrive).status == 0
    broker_port = server.broker_addr.rpartition(":")[2]
    assert made.count(broker_port) == 1
    assert len(made) <= 2
    assert line("topicStatus -t {topic}".format(**names)).out.split().count("2")


# --- lending ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def shell(environment: None, server: Server) -> Iterator[tuple[CommandLines, Session, Forwarder]]:
    """A shell on a nameserver whose connections are counted."""
    with Forwarder() as far:
        far.to = server.namesrv_addr
        with opened(CommonOptions(namesrv_addr=far.address)) as commands:
            assert commands.before.session is not None
            yield commands, commands.before.session, far


def call_in(session: Session) -> Call:
    return Call("tui", session.filled(CommonOptions()), invocation=Invocation(session=session))


def test_feeds_of_a_dashboard_have_connections_of_their_own_which_stay_when_it_ends(
    shell: tuple[CommandLines, Session, Forwarder],
) -> None:
    _, session, far = shell
    settings = _settings(call_in(session), lambda text: None, read_only=True)
    for _ in range(3):
        feeds = [settings.make_client(read_only=True) for _ in range(2)]
        assert feeds[0].connections is not feeds[1].connections
        for feed in feeds:
            assert feed.topic_list()
        for feed in feeds:
            feed.stop()
            feed.close()
    assert far.connection_count == 2


def test_what_was_given_back_is_not_disturbed_by_who_had_it(shell: tuple[CommandLines, Session, Forwarder]) -> None:
    """A dialog that is closed after its change stops its client a second time."""
    _, session, far = shell
    call = call_in(session)
    first = call.new_client(AdminClient, read_only=True)
    assert first.topic_list()
    first.close()
    second = call.new_client(AdminClient, read_only=True)
    first.close()
    first.cancel()
    third = call.new_client(AdminClient, read_only=True)
    assert second.connections is first.connections
    assert third.connections is not first.connections
    assert second.topic_list()
    assert far.connection_count == 1


def test_an_address_that_is_none_costs_no_connection(
    shell: tuple[CommandLines, Session, Forwarder], capfd: pytest.CaptureFixture[str]
) -> None:
    commands, _, far = shell
    run = runner(commands, capfd)
    assert run("topicList").status == 0
    assert run("topicList -n non:sense").status == 2
    assert run("topicList").status == 0
    assert far.connection_count == 1


def test_connections_lent_for_a_context_that_was_left_are_closed(
    shell: tuple[CommandLines, Session, Forwarder],
) -> None:
    _, session, far = shell
    call = call_in(session)
    lent = call.new_client(AdminClient, read_only=True)
    assert lent.topic_list()
    ContextStore().add("far", {"namesrv_addr": far.address})
    session.use_context("far")
    lent.close()
    again = call_in(session).new_client(AdminClient, read_only=True)
    assert again.connections is not lent.connections
    assert again.topic_list()
    assert far.connection_count == 2
