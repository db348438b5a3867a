"""ACL 1.0 beside the last Apache broker that enforces it, 5.3.2. The same accounts and requests give the same words.
Covers white addresses, default permissions, administrators, and files that change."""

import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import ConsumerGroupHeader
from rmqproto.wire.command import FrameReader
from rmqproto.wire.credentials import Credentials
from tests.rmqserver.auth.plain_acl.test_plain_broker import (
    ADMIN,
    APP,
    FILE,
    GHOST,
    frame,
    heartbeat,
    pull,
    refused,
    send,
)
from tests.rmqserver.auth.plain_acl.test_plain_files import write

from ..cluster import SETTINGS, Cluster
from ..ours import OurRocketMQ
from ..plain_broker import PlainApache

pytestmark = pytest.mark.interop

RELOAD_TIMEOUT_S = 60
PLACE = re.compile(r", org\.apache\.rocketmq\.acl\.[\w.]+\(\w+\.java:\d+\)$")
"""The line of its source that Apache's broker adds to its remarks."""

GUESSED = Credentials(APP.access_key, "guessed-secret")
NONE: Mapping[str, str] = MappingProxyType({})
LEAST = Credentials("least-app", "least-app-secret")
MORE = f"""\
  - accessKey: {LEAST.access_key}
    secretKey: {LEAST.secret_key}
    defaultTopicPerm: SUB
    defaultGroupPerm: SUB
    topicPerms: [Shut=DENY, Orders=PUB]
"""

Asked = tuple[int, Mapping[str, str], bytes]
PULLED = [
    *((topic, "Readers") for topic in ("Orders", "Read", "Other", "Shut", "%RETRY%Strangers")),
    ("Read", "Strangers"),
]
"""If an account has neither permission, Apache's broker names whichever comes first in a hash table."""

QUESTIONS: dict[str, Asked] = {
    **{f"send to {topic}": (R.SEND_MESSAGE_V2, send(topic), b"x")
       for topic in ("Orders", "Read", "Other", "Shut", "RMQ_SYS_TRACE_TOPIC", "%RETRY%Strangers", "%RETRY%Readers")},
    **{f"pull {topic} as {group}": (R.PULL_MESSAGE, pull(topic, group), b"")
       for topic, group in PULLED},
    **{f"subscribe {group} to {topic}": (R.HEART_BEAT, NONE, heartbeat(group, topic))
       for topic, group in (("Read", "Readers"), ("Other", "Readers"), ("Read", "Strangers"))},
    **{f"members of {group}": (
        R.GET_CONSUMER_LIST_BY_GROUP, to_ext(ConsumerGroupHeader(consumer_group=group)), b"")
       for group in ("Readers", "Strangers")},
    "runtime": (R.GET_BROKER_RUNTIME_INFO, NONE, b""),
    "create a topic": (R.UPDATE_AND_CREATE_TOPIC, NONE, b""),
    "delete a topic": (R.DELETE_TOPIC_IN_BROKER, NONE, b""),
    "create a group": (R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, NONE, b""),
    "delete a group": (R.DELETE_SUBSCRIPTIONGROUP, NONE, b""),
    "change the broker": (R.UPDATE_BROKER_CONFIG, NONE, b""),
    "no such code": (99_999, NONE, b""),
}  # fmt: skip

WALKERS: dict[str, tuple[Credentials | None, str]] = {
    "nobody": (None, "127.0.0.1"),
    "unknown": (GHOST, "127.0.0.1"),
    "badly signed": (GUESSED, "127.0.0.1"),
    "an account": (APP, "127.0.0.1"),
    "an account of defaults": (LEAST, "127.0.0.1"),
    "an administrator": (ADMIN, "127.0.0.1"),
    "nobody from a white address": (None, "127.0.0.3"),
    "badly signed from the account's white address": (GUESSED, "127.0.0.4"),
    "unknown from the account's white address": (GHOST, "127.0.0.4"),
    "badly signed from elsewhere": (GUESSED, "127.0.0.5"),
}


@contextmanager
def apache(work: Path) -> Iterator[Cluster]:
    with PlainApache(work, ADMIN) as system:
        yield system


@contextmanager
def ours(work: Path) -> Iterator[Cluster]:
    with OurRocketMQ(work, {**SETTINGS, "aclEnable": "true", "rocketmqHome": str(work)}) as system:
        yield system


def refusal(addr: str, user: Credentials | None, source: str, asked: Asked) -> str:
    """The remark with which the gate refuses; empty if it lets the request pass, whatever its outcome."""
    host, _, port = addr.rpartition(":")
    code, ext, body = asked
    reader = FrameReader()
    with socket.create_connection((host, int(port)), 30, source_address=(source, 0)) as sock:
        sock.sendall(frame(code, ext, user, body))
        while True:
            for answer in reader.feed(sock.recv(1 << 16)):
                if answer.is_answer:
                    return PLACE.sub("", refused(answer))


def walk(addr: str) -> dict[tuple[str, str], str]:
    return {
        (who, what): refusal(addr, *walker, asked)
        for who, walker in WALKERS.items()
        for what, asked in QUESTIONS.items()
    }


def until_refused(addr: str, asked: Asked, words: str) -> None:
    deadline = time.monotonic() + RELOAD_TIMEOUT_S
    while refusal(addr, APP, "127.0.0.1", asked) != words:
        assert time.monotonic() < deadline, "the changed file does not count"
        time.sleep(0.2)


def test_both_refuse_the_same_in_the_same_words(tmp_path: Path) -> None:
    found = {}
    for name, system in (("apache", apache), ("ours", ours)):
        home = tmp_path / name
        write(home, "plain_acl.yml", FILE + MORE)
        with system(home) as running:
            addr, shut = running.broker_addr, QUESTIONS["send to Orders"]
            found[name] = walk(addr)
            write(home, "plain_acl.yml", (FILE + MORE).replace("Orders=PUB|SUB", "Orders=DENY"))
            until_refused(addr, shut, "No permission for topic:Orders")
            write(home, "plain_acl.yml", FILE + MORE)
            until_refused(addr, shut, "")
    differs = {
        key: (words, found["ours"][key]) for key, words in found["apache"].items() if words != found["ours"][key]
    }
    assert differs == {}
    refusals = [words for words in found["apache"].values() if words]
    assert len(set(refusals)) > 8, "Apache's broker enforces it"
