"""A real Apache RocketMQ 5.5.0 with authentication and authorization, and ours: both refuse the same in the same words,
and Java's clients and mqadmin, which sign, are served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.compatibility import dispatch_tables
from tests.support.auth_walk import ASKED_OF_HERE, ROOT, prepare, recorded, walk
from tests.support.wire import Wire

from .cluster import CLUSTER_NAME, SETTINGS, SYSTEMS
from .mqadmin import Mqadmin

pytestmark = pytest.mark.interop

ROOM = "org.apache.rocketmq.auth"
GUARDED = {
    **SETTINGS,
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationMetadataProvider": f"{ROOM}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{ROOM}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
    # By which the test has Apache's broker register at once.
    "authenticationWhitelist": "25",
    "authorizationWhitelist": "25",
}
UNANSWERED = {25, 37}
"""The white-listed one, and one that is never answered."""


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_both_refuse_the_same_and_serve_who_signs(name: str, tmp_path: Path) -> None:
    codes = {*dispatch_tables()[0], 99_999} - UNANSWERED
    with SYSTEMS[name](tmp_path / name, GUARDED) as system:
        with Wire(system.broker_addr) as wire:
            prepare(wire)
        found, expected = walk(system.broker_addr, codes), recorded()
        if name == "ours":
            for refused in found.values():
                for code in ASKED_OF_HERE:
                    assert refused.pop(code)
            expected = {
                who: {code: text for code, text in refused.items() if code not in ASKED_OF_HERE}
                for who, refused in expected.items()
            }
        assert found == expected
        signs_and_is_served(system.namesrv_addr, tmp_path / "tools")


def signs_and_is_served(namesrv_addr: str, home: Path) -> None:
    """mqadmin's own producer and consumer are Java's."""
    (home / "conf").mkdir(parents=True)
    tools = home / "conf/tools.yml"
    tools.write_text(f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n")
    with Mqadmin(namesrv_addr, home) as mqadmin:
        mqadmin("updateTopic", "-c", CLUSTER_NAME, "-t", "Signed", "-r", "1", "-w", "1")
        assert "SEND_OK" in mqadmin("sendMessage", "-t", "Signed", "-p", "signed body")
        assert "signed body" in mqadmin("consumeMessage", "-t", "Signed")
        mqadmin("createUser", "-c", CLUSTER_NAME, "-u", "mallory", "-p", "mallory-secret")
        users = mqadmin("listUser", "-c", CLUSTER_NAME)
        assert all(f"{user} " in users for user in ("inner", "mallory", "nobody", "off", "right", "root", "wrong"))
        mqadmin("createAcl", "-c", CLUSTER_NAME, "-s", "User:mallory", "-r", "Topic:Signed", "-a", "Get", "-d", "Allow")
        assert "Topic:Signed" in mqadmin("getAcl", "-c", CLUSTER_NAME, "-s", "User:mallory")
    tools.write_text("accessKey: mallory\nsecretKey: mallory-secret\n")
    with Mqadmin(namesrv_addr, home) as mqadmin:
        refusal = "User:mallory has no permission to access Topic:Signed from 127.0.0.1, no matched policies."
        assert refusal in "".join(mqadmin.run("sendMessage", "-t", "Signed", "-p", "stolen"))
        assert "Topic:Signed" not in "".join(mqadmin.run("topicStatus", "-t", "Signed"))
        assert "no permission to access Cluster:DefaultCluster" in "".join(mqadmin.run("listUser", "-c", CLUSTER_NAME))
