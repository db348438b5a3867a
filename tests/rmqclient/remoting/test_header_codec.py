"""MessagePack headers are offered once per connection, and sent only to a peer that echoed the offer on it."""

from __future__ import annotations

import pytest

from rmqclient.blocking import BlockingClient
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError
from rmqproto.headers.nameserver import RouteHeader
from rmqproto.wire.command import Command, HeaderCodec
from rmqproto.wire.header_msgpack import FIELD, is_offered
from tests.rmqclient.remoting.test_channels import running
from tests.support.peer import CLOSE, Peer, Reply, answer
from tests.support.servers import Server
from tests.support.wire import Wire

JSON, MSGPACK = HeaderCodec.JSON, HeaderCodec.MSGPACK
CODE = RequestCode.GET_BROKER_CONFIG
ROUTED_OR_NOT = (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)  # a broker has no routes


def knows(request: Command) -> Command:
    """Answers like our own server: echoes the offer, and uses the request's codec."""
    reply = answer(request, fields={FIELD: request.ext[FIELD]} if FIELD in request.ext else {})
    reply.codec = request.codec
    return reply


def codecs(peer: Peer) -> list[HeaderCodec]:
    return [request.codec for request in peer.requests]


def offers(peer: Peer) -> list[bool]:
    return [is_offered(request.ext) for request in peer.requests]


def test_a_peer_that_echoes_the_offer_gets_messagepack() -> None:
    with Peer(knows) as peer, BlockingClient() as client:
        for _ in range(3):
            client.request(peer.address, CODE)
        client.oneway(peer.address, CODE)
        peer.wait_for(lambda: len(peer.requests) == 4)
    assert codecs(peer) == [JSON, MSGPACK, MSGPACK, MSGPACK]
    assert offers(peer) == [True, False, False, False]


def test_a_peer_that_does_not_know_it_never_gets_it() -> None:
    """Apache's broker is such a peer, and would close the connection."""
    with Peer(answer) as peer, BlockingClient() as client:
        client.oneway(peer.address, CODE)
        for _ in range(3):
            client.request(peer.address, CODE)
    assert codecs(peer) == [JSON] * 4
    assert offers(peer) == [False, True, False, False], "what nobody answers offers nothing"


def test_what_comes_back_at_the_same_address_has_not_shown_that_it_knows_it() -> None:
    """One of Apache's servers may have replaced one of ours."""
    replies = iter([knows, knows, lambda request: CLOSE, answer, answer])
    with Peer(lambda request: next(replies)(request)) as peer, BlockingClient() as client:
        client.request(peer.address, CODE)
        client.request(peer.address, CODE)
        with pytest.raises(ConnectError):
            client.request(peer.address, CODE)
        client.request(peer.address, CODE)
        client.request(peer.address, CODE)
    assert codecs(peer) == [JSON, MSGPACK, MSGPACK, JSON, JSON]
    assert offers(peer) == [True, False, False, True, False]


@pytest.mark.trio
@pytest.mark.parametrize(("reply", "then"), [(knows, MSGPACK), (answer, JSON)], ids=["ours", "another"])
async def test_the_trio_client_does_the_same(reply: Reply, then: HeaderCodec) -> None:
    with Peer(reply) as peer:
        async with running() as channels:
            for _ in range(3):
                await channels.request(peer.address, CODE)
    assert codecs(peer) == [JSON, then, then]
    assert offers(peer) == [True, False, False]


def test_our_servers_echo_the_offer_and_answer_in_messagepack(server: Server) -> None:
    for address in (server.broker_addr, server.namesrv_addr):
        with BlockingClient() as client:
            first, again = (
                client.request(
                    address, RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic="TBW102"), accept=ROUTED_OR_NOT
                )
                for _ in range(2)
            )
        assert (first.codec, again.codec) == (JSON, MSGPACK)
        assert is_offered(first.ext)
        assert not is_offered(again.ext)
        assert (first.code, first.remark, first.body) == (again.code, again.remark, again.body)


def test_our_servers_send_none_to_who_does_not_ask(server: Server) -> None:
    with Wire(server.broker_addr) as wire:
        assert wire.ask(CODE).codec is JSON
        assert wire.ask(CODE, codec=HeaderCodec.ROCKETMQ).codec is HeaderCodec.ROCKETMQ
        assert FIELD not in wire.ask(CODE).ext
        assert wire.ask(CODE, codec=MSGPACK).codec is MSGPACK
        assert wire.ask(CODE).codec is JSON
