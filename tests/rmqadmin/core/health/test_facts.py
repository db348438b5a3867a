"""What the checks of a cluster ask for."""

import msgspec

from rmqadmin.core.health.facts import NamesrvFacts, read_routes
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicRoute
from rmqproto.codes import ResponseCode
from rmqproto.wire.command import Command
from tests.support.peer import Peer, answer

TOPICS = [f"Topic{number:03}" for number in range(100)]


def test_the_routes_of_many_topics_are_asked_for_at_once_without_those_that_are_gone() -> None:
    """Each question by itself would wait for the network."""
    body = msgspec.json.encode(TopicRoute(order_topic_conf="from here"))

    def reply(request: Command) -> list[Command]:
        if len(peer.requests) < len(TOPICS):
            return []
        return [
            answer(each, ResponseCode.TOPIC_NOT_EXIST) if each.ext["topic"] == TOPICS[7] else answer(each, body=body)
            for each in peer.requests
        ]

    with Peer(reply) as peer, AdminClient(peer.address) as admin:
        found = read_routes(admin, NamesrvFacts(addr=peer.address), TOPICS)
    assert found.routes_error is None
    assert list(found.routes) == [topic for topic in TOPICS if topic != TOPICS[7]]


def test_a_name_server_that_refuses_one_route_says_why() -> None:
    def reply(request: Command) -> Command:
        return answer(request, ResponseCode.NO_PERMISSION, remark="no right to read it")

    with Peer(reply) as peer, AdminClient(peer.address) as admin:
        found = read_routes(admin, NamesrvFacts(addr=peer.address), TOPICS)
    assert not found.routes
    assert "no right to read it" in (found.routes_error or "")
