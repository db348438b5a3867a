"""Which clients are online, and requests that the broker relays to a client."""

from typing import cast

import pytest

from rmqproto.bodies.groups import ConsumerData
from rmqproto.bodies.statistics import ConsumerStatus
from rmqproto.codes import RESPONSE_FLAG, ResponseCode
from rmqproto.codes import RequestCode as R
from rmqproto.headers.base import Header
from rmqproto.headers.consuming import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    RunningInfoHeader,
    UnregisterClientHeader,
)
from rmqproto.message.record import decode_record_untrusted
from rmqproto.wire.command import Command, decode_frame_untrusted, encode_frame
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.clients.client_admin import ClientAdmin
from rmqserver.operation import OnPeerAnswer, Peer, PeerAnswer
from tests.docs.differences import RECORDED
from tests.rmqserver.broker.golden_play import loosened, play
from tests.rmqserver.broker.golden_state import consume, create_topic, ok, produce, send, subscription
from tests.support.golden import exchange, exchanges, said
from tests.support.servers import Server
from tests.support.wire import Wire

RUNNING_INFO = "307-GET_CONSUMER_RUNNING_INFO"
DIRECTLY = "309-CONSUME_MESSAGE_DIRECTLY"
STATUS = "223-INVOKE_BROKER_TO_GET_CONSUMER_STATUS"


def asked(client: Wire, code: int) -> Command:
    """The broker's next request to the client; notices of changed members are skipped."""
    while True:
        request = client.receive()
        if request.code != R.NOTIFY_CONSUMER_IDS_CHANGED:
            assert request.code == code
            return request


def answer(client: Wire, request: Command, golden: Command) -> None:
    """Answers as a recorded client did."""
    client.send(
        encode_frame(
            Command(code=golden.code, opaque=request.opaque, flag=RESPONSE_FLAG, remark=golden.remark, body=golden.body)
        )
    )


def answer_of(name: str) -> Command:
    found = exchange(name).answer
    assert found is not None
    return found


# --- who is there ----------------------------------------------------------------------------------------------------


def test_an_online_group_as_apache_shows_it(admin: Wire, client: Wire) -> None:
    consume(client, "NormalGroup", subscription("NormalTopic", ["TagA", "TagB"]))
    for number in ("01", "04", "07"):
        ours = play(admin, f"203-GET_CONSUMER_CONNECTION_LIST/{number}", "clientAddr", "subVersion")
        assert [each["clientAddr"] for each in ours["body"]["connectionSet"]] == [client.address]
    client.ask(
        R.UNREGISTER_CLIENT, UnregisterClientHeader(client_id="127.0.0.1@NormalGroup", consumer_group="NormalGroup")
    )
    for number in ("02", "03", "05", "06", "08", "09", "10"):
        play(admin, f"203-GET_CONSUMER_CONNECTION_LIST/{number}")


def test_online_producers_as_apache_shows_them(admin: Wire, client: Wire) -> None:
    for number in ("01", "02", "03", "04", "06"):
        play(admin, f"204-GET_PRODUCER_CONNECTION_LIST/{number}")
    play(admin, "328-GET_ALL_PRODUCER_INFO/01")
    play(admin, "328-GET_ALL_PRODUCER_INFO/02")
    produce(client, "PlainProducerGroup")
    play(admin, "204-GET_PRODUCER_CONNECTION_LIST/05", "clientAddr")
    ours = said(admin.exchange(exchange("328-GET_ALL_PRODUCER_INFO/03").request))
    theirs = said(answer_of("328-GET_ALL_PRODUCER_INFO/03"))
    mine = ours["body"]["data"]["PlainProducerGroup"][0]
    loose = ("lastUpdateTimestamp", "remoteIP", "clientId")
    assert loosened(mine, loose) == loosened(theirs["body"]["data"]["ReplyProducerGroup"][0], loose)
    assert mine["remoteIP"] == f"/{client.address}"


# --- what only one client knows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["01", "03", "05"])
def test_running_info_is_passed_on_as_the_client_gave_it(admin: Wire, client: Wire, number: str) -> None:
    """The first two hold the stacks of all threads of a real consumer, 360 KB."""
    golden = exchange(f"{RUNNING_INFO}/{number}")
    consume(client, "NormalGroup")
    admin.send(golden.request)
    request = asked(client, R.GET_CONSUMER_RUNNING_INFO)
    assert request.ext == decode_frame_untrusted(golden.request).ext
    answer(client, request, answer_of(golden.name))
    assert said(admin.receive()) == said(golden.answer)


@pytest.mark.parametrize("number", ["02", "04"])
def test_running_info_of_nobody(admin: Wire, number: str) -> None:
    play(admin, f"{RUNNING_INFO}/{number}")


@pytest.mark.parametrize(("number", "relayed"), [("01", "02"), ("04", "05"), ("07", "02")])
def test_a_message_is_consumed_by_the_client_that_is_named(
    admin: Wire, client: Wire, number: str, relayed: str
) -> None:
    """Only the id of the message differs here. The client must get the message itself, as it is stored."""
    create_topic(admin, "NormalTopic")
    msg_id = send(admin, "NormalTopic", 1, {"TAGS": "TagA"})
    consume(client, "NormalGroup")
    golden = exchange(f"{DIRECTLY}/{number}")
    asking = decode_frame_untrusted(golden.request)
    asking.ext["msgId"] = msg_id
    admin.send(encode_frame(asking))
    request = asked(client, R.CONSUME_MESSAGE_DIRECTLY)
    wanted = dict(decode_frame_untrusted(exchange(f"{DIRECTLY}/{relayed}").request).ext, msgId=msg_id)
    assert request.ext == wanted
    message = decode_record_untrusted(request.body)
    assert (message.topic, message.queue_id, message.body, message.message_id) == (
        "NormalTopic", 1, b"a message", msg_id,
    )  # fmt: skip
    answer(client, request, answer_of(golden.name))
    assert said(admin.receive()) == said(golden.answer)


@pytest.mark.parametrize("number", ["03", "06"])
def test_a_malformed_message_id_is_refused(admin: Wire, number: str) -> None:
    ours = play(admin, f"{DIRECTLY}/{number}")
    assert (ours["code"], ours["remark"][:35]) == (1, "'X' is not an offset message id: 32")


def test_a_client_that_goes_before_it_answers(admin: Wire, golden_server: Server) -> None:
    """The tool must hear of it at once, not after its own timeout."""
    with Wire(golden_server.broker_addr) as client:
        consume(client, "Fleeting")
        header = RunningInfoHeader(consumer_group="Fleeting", client_id="127.0.0.1@Fleeting")
        admin.send(encode_frame(Command(code=R.GET_CONSUMER_RUNNING_INFO, opaque=7, ext=_ext(header))))
        asked(client, R.GET_CONSUMER_RUNNING_INFO)
    said_to_tool = admin.receive()
    assert (said_to_tool.code, said_to_tool.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "invoke consumer <Fleeting> <127.0.0.1@Fleeting> Exception: the connection was closed",
    )


def _ext(header: RunningInfoHeader) -> dict[str, str]:
    return {"consumerGroup": header.consumer_group, "clientId": header.client_id, "jstackEnable": "false"}


class SilentConnection:
    """A connection whose peer never answers; the test decides when the time is up."""

    address = "127.0.0.1:1"
    closed = False

    def __init__(self) -> None:
        self.waiting: list[tuple[OnPeerAnswer, float]] = []

    def ask(self, code: int, header: Header, body: bytes, on_answer: OnPeerAnswer, timeout_s: float) -> None:
        self.waiting.append((on_answer, timeout_s))


def test_a_client_that_does_not_answer(parts: BrokerAssembly) -> None:
    """The answer has Apache's words up to the colon. Apache names a Java exception after it."""
    silent, told = SilentConnection(), list[PeerAnswer]()
    parts.clients.register_consumer(ConsumerData(group_name="g"), "c", cast(Peer, silent), "JAVA", 513)
    ClientAdmin(parts.config, parts.store, parts.topics, parts.groups, parts.clients).running_info(
        RunningInfoHeader(consumer_group="g", client_id="c"), told.append
    )
    on_answer, timeout_s = silent.waiting.pop()
    assert (timeout_s, told) == (10.0, [])
    on_answer(None)
    (late,) = told
    assert late.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert late.remark == "consumer <g> <c> Timeout: no answer in 10 s"


def test_a_client_too_old_is_not_asked(admin: Wire, client: Wire) -> None:
    heartbeat = b'{"clientID":"old","consumerDataSet":[{"groupName":"OldGroup"}]}'
    ok(client.ask(R.HEART_BEAT, body=heartbeat, version=61))
    answered = admin.ask(R.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader(consumer_group="OldGroup", client_id="old"))
    assert answered.code == ResponseCode.SYSTEM_ERROR
    assert answered.remark.endswith("too low to finish, please upgrade it to V3_1_8_SNAPSHOT")
    header = ConsumeDirectlyHeader(consumer_group="OldGroup", client_id="old", msg_id="0" * 32)
    assert admin.ask(R.CONSUME_MESSAGE_DIRECTLY, header).code == ResponseCode.SYSTEM_ERROR


# --- what all clients of a group know --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["01", "03"])
def test_offsets_of_clients_are_put_together(admin: Wire, client: Wire, number: str) -> None:
    golden = exchange(f"{STATUS}/{number}")
    to_client = exchange(f"221-GET_CONSUMER_STATUS_FROM_CLIENT/{number}")
    consume(client, "SqlGroup", subscription("NormalTopic"))
    admin.send(golden.request)
    request = asked(client, R.GET_CONSUMER_STATUS_FROM_CLIENT)
    assert request.ext == decode_frame_untrusted(to_client.request).ext
    answer(client, request, answer_of(to_client.name))
    assert loosened(said(admin.receive()), ()) == loosened(said(golden.answer), ())


def test_a_client_that_fails_is_left_out(admin: Wire, client: Wire, golden_server: Server) -> None:
    with Wire(golden_server.broker_addr) as broken:
        consume(client, "TwoClients")
        heartbeat = b'{"clientID":"broken","consumerDataSet":[{"groupName":"TwoClients"}]}'
        ok(broken.ask(R.HEART_BEAT, body=heartbeat))
        body = dumps(ConsumerStatus())
        asking = Command(
            code=R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, opaque=8, ext={"topic": "T", "group": "TwoClients"}
        )
        admin.send(encode_frame(asking))
        answer(client, asked(client, R.GET_CONSUMER_STATUS_FROM_CLIENT), Command(code=0, body=body))
        answer(broken, asked(broken, R.GET_CONSUMER_STATUS_FROM_CLIENT), Command(code=0, body=b"{no json"))
        status = loads_untrusted(ok(admin.receive()).body, ConsumerStatus)
    assert list(status.consumer_table) == ["127.0.0.1@TwoClients"]


def test_only_the_named_client_is_asked(admin: Wire, client: Wire) -> None:
    consume(client, "Named")
    header = ConsumerStatusHeader(topic="T", group="Named", client_addr="another")
    status = loads_untrusted(ok(admin.ask(R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)).body, ConsumerStatus)
    assert status.consumer_table == {}


@pytest.mark.parametrize("number", ["02", "04"])
def test_offsets_of_nobody(admin: Wire, number: str) -> None:
    ours = play(admin, f"{STATUS}/{number}")
    assert ours["remark"] in RECORDED[f"{STATUS}/02"].ours


@pytest.mark.parametrize("number", ["02", "04"])
def test_a_broker_is_no_client(admin: Wire, number: str) -> None:
    play(admin, f"221-GET_CONSUMER_STATUS_FROM_CLIENT/{number}")


def test_every_exchange_of_these_codes_is_played() -> None:
    """A recording that is added later must be played, too."""
    assert [len(exchanges(code)) for code in (203, 204, 221, 223, 307, 309, 328)] == [10, 6, 4, 4, 5, 7, 3]
