"""A group and a topic on the shared server, and how the group comes online."""

import pytest

from rmqproto.bodies.groups import ConsumerData, Heartbeat, SubscriptionData
from rmqproto.codes import RequestCode
from rmqproto.wire import fastjson
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, filled
from tests.support.servers import Fresh, Server
from tests.support.wire import Wire

QUEUES = 2
MESSAGES = 3


@pytest.fixture
def topic(server: Server, fresh: Fresh) -> str:
    """A topic of two queues with three messages each."""
    return filled(server, fresh("LagTopic"), QUEUES, MESSAGES)


@pytest.fixture
def group(rmqadmin: Rmqadmin, fresh: Fresh) -> str:
    name = fresh("LagGroup")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", name).status == 0
    return name


def come_online(wire: Wire, group: str, topic: str) -> None:
    consumer = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic=topic, sub_string="TagA")])
    body = fastjson.dumps(Heartbeat(client_id=f"client@{group}", consumer_data_set=[consumer]))
    assert wire.ask(RequestCode.HEART_BEAT, {}, body).code == 0
