"""A broker with the topics and groups of the recorded calls, and clients of its gRPC door."""

from collections.abc import Iterator

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from tests.rmqserver.doors.grpc.calls import Connect, TopicAndGroup
from tests.support import servers
from tests.support.grpc_client import GrpcClient, clients_of
from tests.support.servers import Fresh, Server

TOPICS = {
    "Golden_Normal": "NORMAL", "Golden_Fifo": "FIFO", "Golden_Delay": "DELAY", "Golden_Transaction": "TRANSACTION",
    "Golden_Mixed": "MIXED", "Golden_Priority": "PRIORITY", "Golden_Lite": "LITE", "Golden_ReadOnly": "NORMAL",
    "Golden_WriteOnly": "NORMAL", "Golden_Untyped": "",
}  # fmt: skip
PERMS = {"Golden_ReadOnly": 4, "Golden_WriteOnly": 2}
SETTINGS = {
    "recallMessageEnable": "true", "enablePropertyFilter": "true", "transactionCheckInterval": "500",
    "transactionTimeOut": "1000", "enableLmq": "true", "enableMultiDispatch": "true", "enableMixedMessageType": "true",
    "autoCreateSubscriptionGroup": "false", "maxUnreadBytesPerConnection": "8388608",
}  # fmt: skip


@pytest.fixture(scope="session")
def typed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its groups are not made by themselves."""
    with servers.standalone(tmp_path_factory.mktemp("typed"), *servers.sets(**SETTINGS)) as running:
        with AdminClient(running.namesrv_addr) as admin:
            for name, kind in TOPICS.items():
                attributes = {"+message.type": kind} if kind else {}
                config = TopicConfig(
                    topic_name=name, read_queue_nums=4, write_queue_nums=4, perm=PERMS.get(name, 6),
                    attributes=attributes,
                )  # fmt: skip
                admin.create_topic(running.broker_addr, config)
            for name, more in (
                ("Golden_Group", {}),
                ("Golden_Ordered", {"consume_message_orderly": True}),
                ("Golden_Few", {"retry_max_times": 1}),
                ("Golden_LiteGroup", {"attributes": {"+lite.bind.topic": "Golden_Lite"}}),
            ):
                admin.create_group(running.broker_addr, SubscriptionGroupConfig(group_name=name, **more))
        yield running


@pytest.fixture
def connect(typed_server: Server) -> Iterator[Connect]:
    """Connects a client: ``connect("client-id")``."""
    with clients_of(typed_server.broker_addr) as connect:
        yield connect


@pytest.fixture
def client(connect: Connect, fresh: Fresh) -> GrpcClient:
    return connect(fresh("client"))


@pytest.fixture
def topic_and_group(typed_server: Server, fresh: Fresh) -> TopicAndGroup:
    """Makes a topic of a type, and a group: ``topic_and_group("FIFO", consume_message_orderly=True)``."""

    def make(kind: str = "NORMAL", queue_nums: int = 1, **group: object) -> tuple[str, str]:
        topic, name = fresh("Topic"), fresh("Group")
        with AdminClient(typed_server.namesrv_addr) as admin:
            config = TopicConfig(
                topic_name=topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums,
                attributes={"+message.type": kind},
            )  # fmt: skip
            admin.create_topic(typed_server.broker_addr, config)
            admin.create_group(typed_server.broker_addr, SubscriptionGroupConfig(group_name=name, **group))
        return topic, name

    return make
