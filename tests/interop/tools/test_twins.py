"""Two clients with the same id, as in two containers with one host name and process id 1: which of them a broker counts
as a member, lists and notifies."""

import pytest

from rmqproto.bodies.groups import (
    ConsumerConnection,
    ConsumerData,
    ConsumerIds,
    Heartbeat,
    ProducerConnection,
    ProducerData,
    ProducerTable,
    SubscriptionData,
)
from rmqproto.codes import RequestCode
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.support.servers import Fresh
from tests.support.wire import Wire

from ..cluster import Cluster

pytestmark = pytest.mark.interop


def heartbeat(wire: Wire, group: str, client_id: str) -> None:
    subscription = SubscriptionData(topic=f"{group}Topic", sub_string="*", sub_version=1)
    body = Heartbeat(
        client_id=client_id,
        producer_data_set=[ProducerData(group_name=group)],
        consumer_data_set=[ConsumerData(group_name=group, subscription_data_set=[subscription])],
    )
    ok(wire, RequestCode.HEART_BEAT, body=fastjson.dumps(body))


def ok(wire: Wire, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
    """The answer to a request, which must succeed. ``ask`` skips what the broker sends in between."""
    answer = wire.ask(code, fields, body)
    assert answer.code == 0, answer.remark
    return answer


def producers(wire: Wire, group: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Ids and addresses, by group (204) and from the table of all groups (328)."""
    of_group = ok(wire, RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group})
    connections = fastjson.loads_untrusted(of_group.body, ProducerConnection).connection_set
    table = fastjson.loads_untrusted(ok(wire, RequestCode.GET_ALL_PRODUCER_INFO).body, ProducerTable).data
    return (
        {(each.client_id, each.client_addr) for each in connections},
        {(each.client_id, each.remote_ip.removeprefix("/")) for each in table[group]},
    )


def consumers(wire: Wire, group: str) -> tuple[list[str], set[tuple[str, str]]]:
    """Ids for allocation (38), and ids with addresses for tools (203)."""
    ids = ok(wire, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    shown = ok(wire, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    connections = fastjson.loads_untrusted(shown.body, ConsumerConnection).connection_set
    return (
        sorted(fastjson.loads_untrusted(ids.body, ConsumerIds).consumer_id_list),
        {(each.client_id, each.client_addr) for each in connections},
    )


def test_clients_with_one_id(cluster: Cluster, fresh: Fresh) -> None:
    group = fresh("Twins")
    with Wire(cluster.broker_addr) as one, Wire(cluster.broker_addr) as two, Wire(cluster.broker_addr) as asker:
        for wire in (one, two):
            heartbeat(wire, group, "twin")
        both = {("twin", one.address), ("twin", two.address)}
        assert producers(asker, group) == (both, both)
        assert consumers(asker, group) == (["twin", "twin"], both)
        # A connection sends another id: its consumer is renamed, but its producer keeps the first id.
        heartbeat(two, group, "renamed")
        assert producers(asker, group) == (both, both)
        assert consumers(asker, group) == (["renamed", "twin"], {("twin", one.address), ("renamed", two.address)})
        # An unregistration removes the connection that sends it, whichever id it gives.
        leaving = {"clientID": "twin", "producerGroup": group, "consumerGroup": group}
        ok(two, RequestCode.UNREGISTER_CLIENT, leaving)
        left = {("twin", one.address)}
        assert producers(asker, group) == (left, left)
        assert consumers(asker, group) == (["twin"], left)
