"""Clients that know several nameservers, the first of which is down."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmqclient.admin import AdminClient
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import Message
from rmqclient.producer import Producer
from rmqclient.push_consumer import PushConsumer
from tests.rmqclient.collector import Collector, until
from tests.support.processes import free_ports
from tests.support.servers import Server


@pytest.fixture
def addrs(server: Server) -> str:
    return f"127.0.0.1:{free_ports()[0]};{server.namesrv_addr}"


def test_an_admin_client_asks_the_next(addrs: str, server: Server) -> None:
    with AdminClient(addrs) as admin:
        brokers = admin.cluster_info().broker_addr_table.values()
        assert [broker.broker_addrs for broker in brokers] == [{0: server.broker_addr}]
        assert admin.topic_list()


@pytest.mark.trio
async def test_producers_and_consumers_ask_the_next(addrs: str, fresh: Callable[[str], str]) -> None:
    topic, collect = fresh("Names"), Collector()
    async with Producer(addrs, fresh("Producer")) as producer:
        await producer.send(Message(topic, b"m"))
        first = ConsumeFrom.FIRST_OFFSET
        async with PushConsumer(addrs, fresh("Group"), {topic: "*"}, collect, consume_from=first):
            await until(lambda: bool(collect.bodies))
    assert collect.bodies == [b"m"]
