"""Clients in Java, Go and Node that sign, at a guarded broker of Apache's and at ours, by users and policies and by
ACL 1.0: they send and consume with the least that they need, and with a wrong key they are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.wire.credentials import Credentials
from tests.rmqserver.auth.plain_acl.test_plain_files import write
from tests.support.auth_walk import ROOT

from ..client import Client
from ..cluster import SETTINGS, SYSTEMS, Cluster
from ..events import Outgoing, Refused
from ..other_clients import start
from ..ours import OurRocketMQ
from ..plain_broker import PlainApache
from ..witness import Witness
from .test_auth import GUARDED

pytestmark = pytest.mark.interop

APP, PLAIN_ADMIN = Credentials("app-of-test", "app-secret"), Credentials("operator", "operator-secret")
TOPIC, GROUP = "Signed", "SignedGroup"
BODIES = [b"one", b"two", b"three"]


ACCOUNTS = f"""\
accounts:
  - {{accessKey: {PLAIN_ADMIN.access_key}, secretKey: {PLAIN_ADMIN.secret_key}, admin: true}}
  - accessKey: {APP.access_key}
    secretKey: {APP.secret_key}
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [{TOPIC}=PUB|SUB]
    groupPerms: [{GROUP}=SUB]
"""

PLAIN: dict[str, Callable[[Path], AbstractContextManager[Cluster]]] = {
    "apache": lambda home: PlainApache(home, PLAIN_ADMIN),
    "ours": lambda home: OurRocketMQ(home, {**SETTINGS, "aclEnable": "true", "rocketmqHome": str(home)}),
}
"""Systems with ACL 1.0, by their home, in which ``conf`` is."""


def create_topic_and_group(system: Cluster, admin_user: Credentials) -> None:
    """The retry topic is there before the group: the timers of these clients are too slow for a test."""
    addr = system.broker_addr
    with AdminClient(system.namesrv_addr, admin_user) as admin:
        for topic in (TOPIC, f"%RETRY%{GROUP}"):
            admin.create_topic(addr, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
        admin.create_group(addr, SubscriptionGroupConfig(group_name=GROUP))


def prepare_app(system: Cluster) -> None:
    create_topic_and_group(system, ROOT)
    addr = system.broker_addr
    with AdminClient(system.namesrv_addr, ROOT) as admin:
        admin.create_user(addr, UserAccount(username=APP.access_key, password=APP.secret_key))
        entries = [
            AclEntry(resource=f"Topic:{TOPIC}", actions=["Pub", "Sub", "Get"], decision="Allow"),
            AclEntry(resource=f"Group:{GROUP}", actions=["Sub", "Get"], decision="Allow"),
        ]
        admin.create_acl(addr, AclInfo(subject=f"User:{APP.access_key}", policies=[AclPolicy(entries=entries)]))


# Each starts a client with the keys of the environment.
START: dict[str, Callable[[str, Path], Client]] = {
    "java": Witness, **{name: partial(start, name) for name in ("java4", "go", "node")},
}  # fmt: skip


@pytest.fixture(params=list(START))
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_who_signs_is_served_and_who_guesses_is_not(
    name: str, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {key: value for key, value in GUARDED.items() if key != "autoCreateTopicEnable"}
    with SYSTEMS[name](tmp_path / name, settings) as system:
        prepare_app(system)
        sends_and_consumes(system, client, ROOT, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", list(PLAIN))
def test_of_acl_1_as_well(name: str, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / name, "plain_acl.yml", ACCOUNTS)
    with PLAIN[name](tmp_path / name) as system:
        create_topic_and_group(system, PLAIN_ADMIN)
        sends_and_consumes(system, client, PLAIN_ADMIN, tmp_path, monkeypatch)


def sends_and_consumes(
    system: Cluster, client: str, admin_user: Credentials, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As APP; nothing of another topic, and nothing with another key."""
    monkeypatch.setenv("WITNESS_ACCESS_KEY", APP.access_key)
    monkeypatch.setenv("WITNESS_SECRET_KEY", "guessed")
    with START[client](system.namesrv_addr, work / "guessing") as guessing:
        (refusal,) = guessing.try_send(TOPIC, [Outgoing(body=b"stolen")])
    assert isinstance(refusal, Refused)
    assert client == "node" or re.search("[cC]heck signature failed", refusal.error)  # Node says how often it tried
    with AdminClient(system.namesrv_addr, admin_user) as admin:
        assert admin.max_offset(system.broker_addr, TOPIC, 0) == 0
    monkeypatch.setenv("WITNESS_SECRET_KEY", APP.secret_key)
    with START[client](system.namesrv_addr, work / "signing") as signing:
        sent = signing.send(TOPIC, [Outgoing(body=body) for body in BODIES])
        assert [each.status for each in sent] == ["SEND_OK"] * len(BODIES)
        consumer = signing.consume(GROUP, TOPIC)
        assert sorted(each.body for each in consumer.until_count(len(BODIES))) == sorted(BODIES)
        (elsewhere,) = signing.try_send(f"%RETRY%{GROUP}x", [Outgoing(body=b"x")])
        assert isinstance(elsewhere, Refused)
