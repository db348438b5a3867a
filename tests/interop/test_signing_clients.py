"""Clients in Go and Node that sign, at a guarded broker of Apache's and at ours: they send and consume with the least
that they need, and with a wrong key they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.signing import Credentials
from tests.support.auth_walk import ROOT

from .cluster import SYSTEMS, Cluster
from .events import Outgoing, Refused
from .other_clients import start
from .test_auth import GUARDED

pytestmark = pytest.mark.interop

APP = Credentials("app", "app-secret")
TOPIC, GROUP = "Signed", "SignedGroup"
BODIES = [b"one", b"two", b"three"]


def prepare_app(system: Cluster) -> None:
    """The retry topic is there before the group: the timers of these clients are too slow for a test."""
    addr = system.broker_addr
    with AdminClient(system.namesrv_addr, ROOT) as admin:
        for topic in (TOPIC, f"%RETRY%{GROUP}"):
            admin.create_topic(addr, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
        admin.create_group(addr, SubscriptionGroupConfig(group_name=GROUP))
        admin.create_user(addr, UserAccount(username=APP.access_key, password=APP.secret_key))
        entries = [
            AclEntry(resource=f"Topic:{TOPIC}", actions=["Pub", "Sub", "Get"], decision="Allow"),
            AclEntry(resource=f"Group:{GROUP}", actions=["Sub", "Get"], decision="Allow"),
        ]
        admin.create_acl(addr, AclInfo(subject=f"User:{APP.access_key}", policies=[AclPolicy(entries=entries)]))


@pytest.mark.parametrize("client", ["go", "node"])
@pytest.mark.parametrize("name", list(SYSTEMS))
def test_who_signs_is_served_and_who_guesses_is_not(
    name: str, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {key: value for key, value in GUARDED.items() if key != "autoCreateTopicEnable"}
    with SYSTEMS[name](tmp_path / name, settings) as system:
        prepare_app(system)
        monkeypatch.setenv("WITNESS_ACCESS_KEY", APP.access_key)
        monkeypatch.setenv("WITNESS_SECRET_KEY", "guessed")
        with start(client, system.namesrv_addr, tmp_path / "guessing") as guessing:
            (refusal,) = guessing.try_send(TOPIC, [Outgoing(body=b"stolen")])
        assert isinstance(refusal, Refused)
        assert client == "node" or "check signature failed" in refusal.error  # Node says how often it tried
        with AdminClient(system.namesrv_addr, ROOT) as admin:
            assert admin.max_offset(system.broker_addr, TOPIC, 0) == 0
        monkeypatch.setenv("WITNESS_SECRET_KEY", APP.secret_key)
        with start(client, system.namesrv_addr, tmp_path / "signing") as signing:
            sent = signing.send(TOPIC, [Outgoing(body=body) for body in BODIES])
            assert [each.status for each in sent] == ["SEND_OK"] * len(BODIES)
            consumer = signing.consume(GROUP, TOPIC)
            assert sorted(each.body for each in consumer.until_count(len(BODIES))) == sorted(BODIES)
            (elsewhere,) = signing.try_send(f"%RETRY%{GROUP}x", [Outgoing(body=b"x")])
            assert isinstance(elsewhere, Refused)
