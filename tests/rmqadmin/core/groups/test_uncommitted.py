"""Topics that a group consumes but has no offset in: which are reported, and which are harmless."""

import pytest

from rmqadmin.core.groups.consumption import GroupClients
from rmqadmin.core.groups.group_standing import read_uncommitted
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, SubscriptionData
from rmqproto.bodies.routes import BrokerData
from rmqproto.names import retry_topic
from tests.support.servers import Fresh, Server, topic_config

GROUP = "UncommittedGroup"


def made(server: Server, admin: AdminClient, topic: str, *, message_count: int = 0, message_type: str = "") -> str:
    attributes = {"+message.type": message_type} if message_type else {}
    admin.create_topic(server.broker_addr, topic_config(topic, attributes=attributes))
    for _ in range(message_count):
        admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, b"x"))
    return topic


def clients(*topics: str, consume_type: str = "CONSUME_PASSIVELY", message_model: str = "CLUSTERING") -> GroupClients:
    one = ClientConnection(client_id="one", client_addr="192.0.2.1:1", language="JAVA", version=1)
    subscriptions = {topic: SubscriptionData(topic=topic) for topic in topics}
    return GroupClients({"one": one}, {"one": ["broker-a"]}, subscriptions, consume_type, message_model, None)


def test_only_topics_with_messages_of_which_nothing_was_committed(
    server: Server, admin: AdminClient, fresh: Fresh
) -> None:
    new, known = (
        made(server, admin, fresh("New"), message_count=2),
        made(server, admin, fresh("Known"), message_count=1),
    )
    empty = made(server, admin, fresh("Empty"))
    lite = made(server, admin, fresh("Lite"), message_type="LITE")
    members = clients(new, known, empty, lite, retry_topic(GROUP), fresh("NotThere"))
    here = BrokerData(broker_addrs={0: server.broker_addr}, broker_name="broker-a")
    gone = BrokerData(broker_addrs={0: "127.0.0.1:1"}, broker_name="broker-b")
    assert read_uncommitted(admin, [here, gone], members, {known}) == {new: 2}


@pytest.mark.parametrize(
    "members",
    [
        clients("T", message_model="BROADCASTING"),
        clients("T", consume_type="CONSUME_ACTIVELY"),
        GroupClients({}, {}, {}, None, None, None),
    ],
)
def test_members_that_keep_their_offsets_themselves_are_not_asked_about(
    admin: AdminClient, members: GroupClients
) -> None:
    assert read_uncommitted(admin, [BrokerData(broker_addrs={0: "127.0.0.1:1"}, broker_name="b")], members, ()) == {}
