"""The blocking client against a peer that behaves like real servers on bad days."""

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from rmqclient import blocking
from rmqclient.blocking import CONNECTIONS_MAX, BlockingClient
from rmqclient.remoting.blocking_connection import BlockingConnection
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, NotConnectedError, ProtocolError, RefusedError, RequestTimeoutError
from rmqproto.headers.tables import GroupHeader
from rmqproto.wire.command import Command, FrameReader, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import signature
from tests.support.peer import CLOSE, Peer, answer

CODE = RequestCode.GET_BROKER_RUNTIME_INFO
SOON_S = 0.05


def echo(request: Command) -> Command:
    return answer(request, body=request.body)


def test_a_request_of_the_server_with_our_opaque_is_not_taken_for_the_answer() -> None:
    """Brokers number their own requests from 0 too. If only the opaque counted, a broker's request would pass as an
    answer."""

    def ask_back(request: Command) -> list[Command]:
        return [Command(code=307, opaque=request.opaque, body=b"push"), answer(request, body=b"answer")]

    with Peer(ask_back) as peer, BlockingClient() as client:
        assert client.request(peer.address, CODE).body == b"answer"
        peer.wait_for(lambda: bool(peer.answers))
        assert [(a.code, a.remark) for a in peer.answers] == [(3, " request type 307 not supported")]


def test_a_answer_that_comes_too_late_is_not_given_to_the_next_request() -> None:
    held: list[Command] = []

    def reply(request: Command) -> list[Command]:
        held.append(request)
        return [] if len(held) == 1 else [answer(held[0], body=b"late"), answer(request, body=b"right")]

    with Peer(reply) as peer, BlockingClient() as client:
        with pytest.raises(RequestTimeoutError, match="28 GET_BROKER_RUNTIME_INFO"):
            client.request(peer.address, CODE, timeout_s=SOON_S)
        assert client.request(peer.address, CODE).body == b"right"


def test_several_requests_wait_for_the_network_once_and_have_their_answers_in_order() -> None:
    held: list[Command] = []

    def reply(request: Command) -> list[Command]:
        held.append(request)
        return [answer(each, body=each.ext["group"].encode()) for each in reversed(held)] if len(held) == 3 else []

    with Peer(reply) as peer, BlockingClient() as client:
        headers = [GroupHeader(group=name) for name in ("a", "b", "c")]
        assert [one.body for one in client.request_all(peer.address, CODE, headers)] == [b"a", b"b", b"c"]


def test_one_refusal_among_several_answers_is_an_error_unless_it_is_accepted() -> None:
    def reply(request: Command) -> Command:
        return answer(request, 17 if request.ext["group"] == "b" else 0, remark="No group")

    with Peer(reply) as peer, BlockingClient() as client:
        headers = [GroupHeader(group=name) for name in ("a", "b")]
        with pytest.raises(RefusedError, match="No group"):
            client.request_all(peer.address, CODE, headers)
        assert [one.code for one in client.request_all(peer.address, CODE, headers, accept=(0, 17))] == [0, 17]


def test_a_connection_that_the_server_closed_while_idle_is_made_again() -> None:
    """Servers close connections that are idle for 120 s. The next request must not fail."""
    with Peer(echo) as peer, BlockingClient() as client:
        client.request(peer.address, CODE)
        peer.hang_up()
        peer.listen()
        assert client.request(peer.address, CODE, body=b"again").body == b"again"


def test_a_request_is_never_sent_twice() -> None:
    """The server may have carried out the request before the connection broke."""
    with Peer(lambda request: CLOSE) as peer, BlockingClient() as client:
        with pytest.raises(ConnectError) as caught:
            client.request(peer.address, RequestCode.DELETE_TOPIC_IN_BROKER)
        assert caught.value.address == peer.address
        assert len(peer.requests) == 1


def test_nobody_there() -> None:
    with Peer(echo) as peer:
        peer.hang_up()
        with BlockingClient() as client, pytest.raises(ConnectError, match="refused"):
            client.request(peer.address, CODE)


def test_a_refusal_carries_code_remark_and_address() -> None:
    with Peer(lambda request: answer(request, 17, remark="No topic")) as peer, BlockingClient() as client:
        with pytest.raises(RefusedError, match="No topic") as caught:
            client.request(peer.address, CODE)
        assert (caught.value.code, caught.value.remark, caught.value.address) == (17, "No topic", peer.address)
        assert client.request(peer.address, CODE, accept=(0, 17)).code == 17


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x08\0\0\0\x04{}{}"])
def test_another_kind_of_server_is_named_as_such(garbage: bytes) -> None:
    with (
        Peer(lambda request: garbage) as peer,
        BlockingClient() as client,
        pytest.raises(ProtocolError, match=peer.address),
    ):
        client.request(peer.address, CODE)


def test_a_time_out_says_whether_anything_ever_came_from_there() -> None:
    """An HTTP server that waits for the end of a line, or a server that expects TLS, accepts the connection and is
    silent."""
    with Peer(lambda request: echo(request) if request.body else None) as peer, BlockingClient() as client:
        with pytest.raises(RequestTimeoutError) as silent:
            client.request(peer.address, CODE, timeout_s=SOON_S)
        assert "is it a RocketMQ server" in (silent.value.hint or "")
        client.request(peer.address, CODE, body=b"x")
        with pytest.raises(RequestTimeoutError) as slow:
            client.request(peer.address, CODE, timeout_s=SOON_S)
        assert slow.value.hint == "Whether it was carried out is unknown."


def test_a_server_that_hangs_up_without_a_word_may_want_tls() -> None:
    """As a RocketMQ server that takes TLS alone. It used to be said without advice."""
    with (
        Peer(lambda request: CLOSE) as peer,
        BlockingClient() as client,
        pytest.raises(ConnectError, match=" failed: ") as caught,
    ):
        client.request(peer.address, CODE)
    assert "with TLS or without?" in (caught.value.hint or "")


def test_a_oneway_request_says_so_and_waits_for_nothing() -> None:
    with Peer(lambda request: None) as peer, BlockingClient() as client:
        client.oneway(peer.address, CODE)
        peer.wait_for(lambda: bool(peer.requests))
        assert peer.requests[0].is_oneway


def test_requests_are_signed_over_fields_and_body() -> None:
    credentials = Credentials("ak", "secret")
    with Peer(echo) as peer, BlockingClient(credentials) as client:
        client.request(peer.address, CODE, GroupHeader(group="g"), b"body")
        ext = peer.requests[0].ext
    assert ext["AccessKey"] == "ak"
    assert ext["Signature"] == signature(
        {name: value for name, value in ext.items() if name != "Signature"}, b"body", "secret"
    )


def test_we_say_who_we_are() -> None:
    with Peer(echo) as peer, BlockingClient() as client:
        client.request(peer.address, CODE)
        assert (peer.requests[0].language, peer.requests[0].version) == ("PYTHON", 513)


def test_threads_at_one_address_get_each_their_own_answer() -> None:
    with Peer(echo) as peer, BlockingClient() as client:
        got: list[tuple[bytes, bytes]] = []

        def ask(number: int) -> None:
            own = b"%d" % number
            got.extend((own, client.request(peer.address, CODE, body=own).body) for _ in range(20))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 160
        assert all(own == answered for own, answered in got)
        assert peer.connections <= CONNECTIONS_MAX


def waiting(client: BlockingClient, address: str) -> tuple[threading.Thread, list[Exception]]:
    caught: list[Exception] = []

    def ask() -> None:
        try:
            client.request(address, CODE, timeout_s=20)
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, caught


def some_wait(client: BlockingClient, peer: Peer, count: int) -> list[tuple[threading.Thread, list[Exception]]]:
    """Threads that ask and get no answer."""
    before = len(peer.requests)
    threads = [waiting(client, peer.address) for _ in range(count)]
    peer.wait_for(lambda: len(peer.requests) == before + count)
    return threads


@pytest.fixture
def slow() -> Iterator[Peer]:
    """Answers requests that have a body."""
    with Peer(lambda request: echo(request) if request.body else None) as peer:
        yield peer


def test_a_slow_answer_keeps_nobody_from_asking(slow: Peer) -> None:
    """A broker that has to ask a silent client for an answer answers other questions meanwhile."""
    with BlockingClient() as client:
        some_wait(client, slow, CONNECTIONS_MAX - 1)
        assert client.request(slow.address, CODE, body=b"x").body == b"x"
        assert client.request(slow.address, CODE, body=b"y").body == b"y"
        assert slow.connections == CONNECTIONS_MAX


def test_waiting_for_other_threads_requests_counts_against_the_time(slow: Peer) -> None:
    with BlockingClient() as client:
        some_wait(client, slow, CONNECTIONS_MAX)
        with pytest.raises(RequestTimeoutError, match="busy"):
            client.request(slow.address, CODE, timeout_s=SOON_S)
        assert slow.connections == CONNECTIONS_MAX


def test_one_thread_at_a_time_tries_a_server_that_does_not_take_connections() -> None:
    """A server whose handshake never ends."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        BlockingClient(tls=ssl.create_default_context()) as client,
    ):
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        waiting(client, address)
        with listener.accept()[0]:
            with pytest.raises(RequestTimeoutError, match="busy"):
                client.request(address, CODE, timeout_s=SOON_S)
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
            client.cancel()


def test_the_next_thread_tries_a_server_that_could_not_be_connected_to() -> None:
    with Peer(echo) as peer, BlockingClient() as client:
        peer.hang_up()
        for _ in range(2):
            thread, caught = waiting(client, peer.address)
            thread.join(20)
            assert [type(error) for error in caught] == [NotConnectedError]


@pytest.mark.parametrize("code", [CODE, RequestCode.DELETE_TOPIC_IN_BROKER])
def test_a_question_is_asked_again_if_the_server_turns_another_connection_away(slow: Peer, code: int) -> None:
    """``maxConnectionsPerAddress``. A change may have been made before the connection broke."""
    with BlockingClient() as client:
        ((thread, caught),) = some_wait(client, slow, 1)
        slow.connections_max = 1
        asked: list[Command | ConnectError] = []

        def ask() -> None:
            try:
                asked.append(client.request(slow.address, code, body=b"x"))
            except ConnectError as error:
                asked.append(error)

        second = threading.Thread(target=ask)
        second.start()
        slow.wait_for(lambda: slow.connections == 2)
        slow.push(answer(slow.requests[0]))
        for each in (thread, second):
            each.join(20)
        assert not caught
        assert isinstance(asked[0], Command if code == CODE else ConnectError)
        for _ in range(2):
            assert client.request(slow.address, CODE, body=b"y").body == b"y"
        assert slow.connections == 2


def test_once_a_change_was_turned_away_changes_wait_for_the_other_connections(slow: Peer) -> None:
    with BlockingClient() as client:
        some_wait(client, slow, 1)
        slow.connections_max = 1
        with pytest.raises(ConnectError):
            client.request(slow.address, RequestCode.DELETE_TOPIC_IN_BROKER, body=b"x")
        with pytest.raises(RequestTimeoutError, match="busy"):
            client.request(slow.address, RequestCode.DELETE_TOPIC_IN_BROKER, body=b"x", timeout_s=SOON_S)
        assert slow.connections == 2


@pytest.mark.parametrize("code", [CODE, RequestCode.DELETE_TOPIC_IN_BROKER])
def test_a_server_that_leaves_another_connection_hanging_is_asked_on_the_first(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, really_open = threading.Semaphore(0), BlockingConnection.open

    def noted_open(connection: BlockingConnection, deadline_s: float) -> None:
        begun.release()
        really_open(connection, deadline_s)

    monkeypatch.setattr(BlockingConnection, "open", noted_open)
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        contextlib.ExitStack() as queued,
        BlockingClient() as client,
    ):
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        first, caught = waiting(client, address)
        taken = queued.enter_context(listener.accept()[0])
        with contextlib.suppress(TimeoutError):
            while True:
                queued.enter_context(socket.create_connection(listener.getsockname(), SOON_S))
        asked: list[Command] = []
        second = threading.Thread(target=lambda: asked.append(client.request(address, code, timeout_s=2)))
        second.start()
        for _ in range(2):
            assert begun.acquire(timeout=20)
        reader = FrameReader()
        for thread in (first, second):
            for request in reader.feed(taken.recv(1 << 16)):
                taken.sendall(encode_frame(answer(request)))
            thread.join(20)
        assert not caught
        assert [one.code for one in asked] == [0]


def test_a_server_that_answers_others_is_not_called_silent(slow: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "SILENT_AFTER_S", 0.0)
    told: list[tuple[str, bool]] = []
    with BlockingClient() as client:
        client.request(slow.address, CODE, body=b"x")
        client.on_silence = lambda address, is_silent: told.append((address, is_silent))
        some_wait(client, slow, 2)
        with pytest.raises(RequestTimeoutError) as caught:
            client.request(slow.address, CODE, timeout_s=SOON_S)
        assert caught.value.hint == "Whether it was carried out is unknown."
        assert not told


@pytest.mark.parametrize("end", [BlockingClient.cancel, BlockingClient.close])
@pytest.mark.parametrize("count", [1, CONNECTIONS_MAX])
def test_whoever_waits_can_be_woken(end: Callable[[BlockingClient], None], count: int, slow: Peer) -> None:
    """The dashboard may leave a screen while its threads wait for a hanging broker, or for one that does."""
    with BlockingClient() as client:
        threads = some_wait(client, slow, count)
        threads += [waiting(client, slow.address) for _ in range(count)]
        for thread, _ in threads:
            while thread.is_alive():  # it may not have asked yet
                end(client)
                thread.join(SOON_S)
        errors = [error for _, caught in threads for error in caught]
        assert {type(error) for error in errors} == {ConnectError}
        assert all("cancelled" in str(error) for error in errors)


def test_a_client_whose_requests_were_cancelled_is_still_of_use() -> None:
    with Peer(lambda request: echo(request) if request.body else None) as peer, BlockingClient() as client:
        thread, _ = waiting(client, peer.address)
        peer.wait_for(lambda: bool(peer.requests))
        client.cancel()
        thread.join(20)
        assert client.request(peer.address, CODE, body=b"x").body == b"x"


def test_a_connection_on_which_nobody_waits_stays_when_others_are_woken() -> None:
    """A shell keeps the connections of a closed dashboard."""
    with Peer(echo) as peer, BlockingClient() as client:
        for _ in range(2):
            assert client.request(peer.address, CODE, body=b"x").body == b"x"
            client.cancel()
        assert peer.connections == 1


def test_the_blocking_client_loads_no_event_loop() -> None:
    """Loading trio would cost a command more than a tenth of a second."""
    script = "import sys, rmqclient.admin; sys.exit(bool({'trio', 'asyncio', 'ssl'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
