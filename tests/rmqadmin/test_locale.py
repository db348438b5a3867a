"""Names and bodies of any script work in every locale, and bytes that are not text are reported as such."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from tests.rmqadmin.conftest import Terminal, status
from tests.support.servers import Fresh, Server, topic_config, until

PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
KEY = "ключ"


def run(server: Server, *args: str | bytes, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "NAMESRV_ADDR": server.namesrv_addr, **env}
    return subprocess.run([sys.executable, "-m", "rmqadmin", *args], env=environment, capture_output=True, check=False)


@pytest.fixture
def topic(server: Server, admin: AdminClient, fresh: Fresh) -> str:
    """A topic with one message whose key has no Latin letters."""
    name = fresh("LocaleTopic")
    admin.create_topic(server.broker_addr, topic_config(name))
    until(lambda: name in admin.topic_list())
    message = Message(name, "тело".encode(), keys=[KEY])
    admin.send_message(server.broker_addr, MessageQueue(name, "broker-a", 0), message)
    return name


@pytest.mark.parametrize("env", [PLAIN_C, {"PYTHONIOENCODING": "latin-1"}], ids=["C", "latin-1"])
def test_what_is_not_shown_at_a_terminal_is_utf_8_in_every_locale(
    server: Server, topic: str, env: Mapping[str, str]
) -> None:
    """This used to be reported as a defect of the program."""
    args = ("queryMsgByKey", "-t", topic, "-k", KEY.encode())
    table = run(server, *args, env=env)
    assert (table.returncode, KEY.encode() in table.stdout) == (0, True), table.stderr
    document = json.loads(run(server, "-o", "json", *args, env=env).stdout)
    assert document["items"][0]["keys"] == KEY


def test_a_terminal_without_the_letters_shows_the_rest(terminal: Terminal, topic: str) -> None:
    child = terminal("queryMsgByKey", "-t", topic, "-k", KEY, env={"PYTHONIOENCODING": "latin-1"})
    assert status(child) == 0
    assert "????" in str(child.before)


@pytest.mark.parametrize(
    "words", [("topicStatus", "-t"), ("msg", "cat", "any", "--grep"), ("dlq", "show", "any", "--key")]
)
def test_bytes_that_are_no_text_are_named(server: Server, words: tuple[str, ...]) -> None:
    """As a condition, they were taken for one that no message meets."""
    ran = run(server, *words, b"\xff\xfe", env={})
    assert ran.returncode == 2
    assert b"a word of the command line, or a variable of the environment, is not UTF-8" in ran.stderr
