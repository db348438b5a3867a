"""Commands change the other brokers even if one cannot be reached, and what was done can be undone."""

import shlex
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.commands.export.conftest import Pair
from tests.rmqadmin.conftest import CLUSTER, Ran, Rmqadmin

pytestmark = pytest.mark.xdist_group("manifests")

ALICE = AclInfo(
    subject="User:alice",
    policies=[AclPolicy(entries=[AclEntry(actions=["Pub"], decision="Allow", resource="Topic:orders")])],
)


@pytest.fixture
def filled(pair: Pair) -> Pair:
    for addr in (pair.a, pair.b):
        pair.admin.create_topic(addr, TopicConfig(topic_name="orders"))
        pair.admin.create_group(addr, SubscriptionGroupConfig(group_name="billing"))
        pair.admin.create_user(addr, UserAccount(username="alice", password="wonderland"))
        pair.admin.create_acl(addr, ALICE)
        pair.admin.set_cold_limit(addr, "billing", 1000)
    return pair


def state(admin: AdminClient, addr: str) -> list[Any]:
    return [
        admin.all_topics(addr).topic_config_table.get("orders"),
        admin.all_groups(addr).subscription_group_table.get("billing"),
        admin.broker_config(addr)["fileReservedTime"],
        admin.cold_data_flow(addr).config_table,
        admin.acl(addr, "User:alice"),
    ]


def way_back(ran: Ran) -> list[str]:
    (line,) = [line for line in ran.err.splitlines() if "to undo what was done: " in line]
    return line.partition("to undo what was done: ")[2].split("; ")


@pytest.mark.parametrize(
    "command",
    [
        "deleteTopic -t orders",
        "deleteSubGroup -g billing",
        "updateBrokerConfig -k fileReservedTime -v 47",
        "updateColdDataFlowCtrGroupConfig -g billing -v 2000",
        "removeColdDataFlowCtrGroupConfig -g billing",
        "createAcl -s User:alice -r Topic:orders,Topic:other -a Sub -d Deny -i 10.0.0.1",
        "updateAcl -s User:alice -r Topic:other -a Sub -d Deny",
        "deleteAcl -s User:alice -r Topic:orders",
    ],
)
def test_the_others_are_changed_and_can_be_changed_back(filled: Pair, run: Rmqadmin, ghost: str, command: str) -> None:
    """A single killed broker used to keep every topic of its cluster from being deleted, and every setting from being
    changed."""
    here = (filled.a, filled.b)
    before = [state(filled.admin, addr) for addr in here]
    ran = run(*shlex.split(command), "-c", CLUSTER, "-o", "json", status=1)
    rows = {item["target"]: (item["action"], item["done"]) for item in ran.items}
    assert rows[ghost] == ("unreached", False)
    assert [rows[addr][1] for addr in here] == [True, True]
    assert all(state(filled.admin, addr) != was for addr, was in zip(here, before, strict=True))

    for undo in way_back(ran):
        assert run(*shlex.split(undo)[1:], "--yes").status == 0
    assert [state(filled.admin, addr) for addr in here] == before


@pytest.mark.parametrize("command", ["deleteUser -u alice", "user rm alice"])
def test_a_user_is_deleted_from_the_others(filled: Pair, run: Rmqadmin, ghost: str, command: str) -> None:
    ran = run(*command.split(), "-c", CLUSTER, "--yes", status=1)
    assert "unreached" in ran.out
    assert [filled.admin.account(addr, "alice") for addr in (filled.a, filled.b)] == [None, None]
