"""Java, Go and Node clients that sign, at a guarded broker of Apache's and at ours, by users and policies and by ACL
1.0. They send and consume with the fewest rights that they need. With a wrong key they are refused."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.wire.credentials import Credentials
from tests.rmqserver.auth.plain_acl.test_plain_files import write
from tests.support.auth_walk import ROOT
from tests.support.servers import topic_config

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
BODIES = [b"one", b"two", b"three"]

# Each starts a client with the keys in the environment.
START: dict[str, Callable[[str, Path], Client]] = {
    "java": Witness, **{name: partial(start, name) for name in ("java4", "go", "node")},
}  # fmt: skip
TOPICS = {client: f"Signed-{client}" for client in START}
GROUPS = {client: f"SignedGroup-{client}" for client in START}

ACCOUNTS = f"""\
accounts:
  - {{accessKey: {PLAIN_ADMIN.access_key}, secretKey: {PLAIN_ADMIN.secret_key}, admin: true}}
  - accessKey: {APP.access_key}
    secretKey: {APP.secret_key}
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [{", ".join(f"{topic}=PUB|SUB" for topic in TOPICS.values())}]
    groupPerms: [{", ".join(f"{group}=SUB" for group in GROUPS.values())}]
"""

PLAIN: dict[str, Callable[[Path], AbstractContextManager[Cluster]]] = {
    "apache": lambda home: PlainApache(home, PLAIN_ADMIN),
    "ours": lambda home: OurRocketMQ(home, {**SETTINGS, "aclEnable": "true", "rocketmqHome": str(home)}),
}
"""Systems with ACL 1.0, made from their home folder, which contains ``conf``."""


def create_topics_and_groups(system: Cluster, admin_user: Credentials) -> None:
    """Creates the retry topics before the groups, because the timers of these clients are too slow for a test."""
    addr = system.broker_addr
    with AdminClient(system.namesrv_addr, admin_user) as admin:
        for topic in (*TOPICS.values(), *(f"%RETRY%{group}" for group in GROUPS.values())):
            admin.create_topic(addr, topic_config(topic))
        for group in GROUPS.values():
            admin.create_group(addr, SubscriptionGroupConfig(group_name=group))


def prepare_app(system: Cluster) -> None:
    create_topics_and_groups(system, ROOT)
    addr = system.broker_addr
    with AdminClient(system.namesrv_addr, ROOT) as admin:
        admin.create_user(addr, UserAccount(username=APP.access_key, password=APP.secret_key))
        entries = [
            *(AclEntry(resource=f"Topic:{topic}", actions=["Pub", "Sub", "Get"], decision="Allow")
              for topic in TOPICS.values()),
            *(AclEntry(resource=f"Group:{group}", actions=["Sub", "Get"], decision="Allow")
              for group in GROUPS.values()),
        ]  # fmt: skip
        admin.create_acl(addr, AclInfo(subject=f"User:{APP.access_key}", policies=[AclPolicy(entries=entries)]))


@pytest.fixture(scope="module", params=list(SYSTEMS))
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One guarded system for all clients; each client has its own topic and group."""
    settings = {key: value for key, value in GUARDED.items() if key != "autoCreateTopicEnable"}
    with SYSTEMS[request.param](tmp_path_factory.mktemp(request.param), settings) as system:
        prepare_app(system)
        yield system


@pytest.fixture(scope="module", params=list(PLAIN))
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same system with ACL 1.0."""
    home = tmp_path_factory.mktemp(f"plain-{request.param}")
    write(home, "plain_acl.yml", ACCOUNTS)
    with PLAIN[request.param](home) as system:
        create_topics_and_groups(system, PLAIN_ADMIN)
        yield system


@pytest.mark.parametrize("client", list(START))
def test_who_signs_is_served_and_who_guesses_is_not(
    guarded: Cluster, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sends_and_consumes(guarded, client, ROOT, tmp_path, monkeypatch)


@pytest.mark.parametrize("client", list(START))
def test_of_acl_1_as_well(plain: Cluster, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sends_and_consumes(plain, client, PLAIN_ADMIN, tmp_path, monkeypatch)


def sends_and_consumes(
    system: Cluster, client: str, admin_user: Credentials, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends and consumes as APP. APP is refused another topic, and refused with a wrong key."""
    topic, group = TOPICS[client], GROUPS[client]
    monkeypatch.setenv("WITNESS_ACCESS_KEY", APP.access_key)
    monkeypatch.setenv("WITNESS_SECRET_KEY", "guessed")
    with START[client](system.namesrv_addr, work / "guessing") as guessing:
        (refusal,) = guessing.try_send(topic, [Outgoing(body=b"stolen")])
    assert isinstance(refusal, Refused)
    assert client == "node" or re.search("[cC]heck signature failed", refusal.error)  # Node only tells its attempts
    with AdminClient(system.namesrv_addr, admin_user) as admin:
        assert admin.max_offset(system.broker_addr, topic, 0) == 0
    monkeypatch.setenv("WITNESS_SECRET_KEY", APP.secret_key)
    with START[client](system.namesrv_addr, work / "signing") as signing:
        sent = signing.send(topic, [Outgoing(body=body) for body in BODIES])
        assert [each.status for each in sent] == ["SEND_OK"] * len(BODIES)
        consumer = signing.consume(group, topic)
        assert sorted(each.body for each in consumer.until_count(len(BODIES))) == sorted(BODIES)
        (elsewhere,) = signing.try_send(f"%RETRY%{group}x", [Outgoing(body=b"x")])
        assert isinstance(elsewhere, Refused)
