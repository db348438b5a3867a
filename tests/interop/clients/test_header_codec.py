"""Our clients offer MessagePack headers to every server. Ours accepts; Apache's never gets them."""

from __future__ import annotations

import pytest

from rmqclient.blocking import BlockingClient
from rmqproto.codes import RequestCode
from rmqproto.headers.nameserver import RouteHeader
from rmqproto.wire.command import HeaderCodec

from ..cluster import Cluster

pytestmark = pytest.mark.interop


def test_apache_is_offered_messagepack_and_stays_with_json(cluster: Cluster) -> None:
    """It ignores the unknown field, and must never get a codec that it does not know."""
    expected = HeaderCodec.MSGPACK if cluster.name == "ours" else HeaderCodec.JSON
    with BlockingClient() as client:
        for _ in range(2):
            config = client.request(cluster.broker_addr, RequestCode.GET_BROKER_CONFIG)
            route = client.request(
                cluster.namesrv_addr, RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic="TBW102")
            )
            assert b"brokerName" in config.body
            assert b"brokerDatas" in route.body
    assert (config.codec, route.codec) == (expected, expected)
