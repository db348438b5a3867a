"""A slave of a set forwards requests to its master that only a master serves: which ones, in what order, and with what
answer."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import SendStatus
from rmqproto.codes import FORWARDED_FLAG, ONEWAY_FLAG, RequestCode, ResponseCode
from rmqproto.errors import RocketMQError
from rmqproto.headers.controller import HaInfoHeader
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqserver.doors.remoting.forwarding import RELIABLE_AFTER_S, UNKNOWN_TEXT
from rmqserver.doors.remoting.role_answers import REJECTED_TEXT
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, BrokerSet
from tests.support.peer import CLOSE, Peer, Reply, answer
from tests.support.scripted_controller import ScriptedController
from tests.support.servers import until
from tests.support.two_in_sync import FORWARDING, is_master, two_in_sync
from tests.support.wire import Wire

SEND = {"a": "P", "b": "Topic", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0"}
PULL = {
    "consumerGroup": "G", "topic": "Topic", "queueId": "1", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "6",
    "suspendTimeoutMillis": "300000", "subscription": "*",
}  # fmt: skip
NOBODY = "127.0.0.1:1"


class Master:
    """A scripted master. ``reply`` answers forwarded requests."""

    def __init__(self) -> None:
        self.reply: Reply = answer
        self.peer = Peer(self._reply)

    def _reply(self, request: Command) -> object:
        if request.code == RequestCode.EXCHANGE_BROKER_HA_INFO:
            where = HaInfoHeader(master_address=self.peer.address, master_ha_address=NOBODY)
            return answer(request, fields=where)
        if request.flag & FORWARDED_FLAG:
            return self.reply(request)
        return answer(request, ResponseCode.SYSTEM_ERROR, remark="no tables")

    @property
    def forwarded(self) -> list[Command]:
        return [request for request in self.peer.requests if request.flag & FORWARDED_FLAG]


@dataclass
class Found:
    master: Master
    slave_addr: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """A slave of ours, and its master."""
    directory, master = tmp_path_factory.mktemp("set"), Master()
    with ExitStack() as stack:
        stack.enter_context(master.peer)
        controller = stack.enter_context(ScriptedController())
        controller.codes[1], controller.addrs[1] = "the master's", master.peer.address
        controller.master, controller.epoch, controller.members = 1, 1, {1}
        namesrv = stack.enter_context(servers.namesrv(directory / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
        found = BrokerSet(directory, controller.peer.address, namesrv, admin)
        slave = stack.enter_context(found.start(2, **FORWARDING))
        with Wire(slave.broker_addr) as wire:
            until(lambda: wire.ask(RequestCode.SEND_MESSAGE_V2, SEND).code == ResponseCode.SUCCESS)
        yield Found(master, slave.broker_addr)


@pytest.fixture
def found(made: Found) -> Found:
    made.master.reply = answer
    made.master.peer.requests.clear()
    return made


@pytest.mark.parametrize("codec", [HeaderCodec.JSON, HeaderCodec.ROCKETMQ])
def test_a_request_and_its_answer_go_through_unchanged(found: Found, codec: HeaderCodec) -> None:
    """Also its client's signature, and the fields that the signature covers."""
    said = {"msgId": "7F", "queueId": "0", "queueOffset": "17"}
    found.master.reply = lambda request: answer(request, ResponseCode.FLUSH_SLAVE_TIMEOUT, said, b"a body", "late")
    ext = SEND | {"AccessKey": "app", "Signature": "c2ln", "l": "1", "unknown": "ä"}
    with Wire(found.slave_addr) as wire:
        back = wire.ask(RequestCode.SEND_MESSAGE_V2, ext, b"body", version=395, language="GO", codec=codec)
    (request,) = found.master.forwarded
    assert (request.code, request.ext, request.body) == (RequestCode.SEND_MESSAGE_V2, ext, b"body")
    assert (request.version, request.language) == (395, "GO")
    assert (back.code, back.ext, back.body, back.remark) == (ResponseCode.FLUSH_SLAVE_TIMEOUT, said, b"a body", "late")
    assert back.codec == codec


def test_requests_of_one_connection_stay_in_their_order(found: Found) -> None:
    """The client sends more requests than any queue of ours holds before the first one is answered."""
    bodies = [b"%d" % number for number in range(500)]
    with Wire(found.slave_addr) as wire:
        for number, body in enumerate(bodies):
            wire.send(encode_frame(Command(code=RequestCode.SEND_MESSAGE_V2, opaque=number, ext=SEND, body=body)))
        assert [wire.receive().opaque for _ in bodies] == [*range(500)]
    assert [request.body for request in found.master.forwarded] == bodies
    assert [request.opaque for request in found.master.forwarded] == [*range(1, 501)], "each connection counts its own"


def test_an_outcome_that_is_not_known_is_not_made_up(found: Found) -> None:
    """The connection to the master ended. The next request opens another one."""
    with Wire(found.slave_addr) as wire:
        found.master.reply = lambda request: CLOSE
        lost = wire.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"lost")
        assert (lost.code, lost.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, UNKNOWN_TEXT)
        found.master.reply = answer
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"next").code == ResponseCode.SUCCESS
    assert [request.body for request in found.master.forwarded] == [b"lost", b"next"]


def test_what_was_forwarded_is_not_forwarded_again(found: Found) -> None:
    """Two brokers that take each other for the master would forward it for ever."""
    again = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=7, flag=FORWARDED_FLAG, ext=SEND, body=b"again")
    with Wire(found.slave_addr) as wire:
        refused = wire.exchange(encode_frame(again))
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED_TEXT)
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"first").code == ResponseCode.SUCCESS
    assert [request.body for request in found.master.forwarded] == [b"first"]


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.SEND_MESSAGE, RequestCode.SEND_BATCH_MESSAGE, RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.SEND_REPLY_MESSAGE_V2, RequestCode.END_TRANSACTION, RequestCode.PULL_MESSAGE,
        RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ,
    ],
)  # fmt: skip
def test_what_only_a_master_takes_goes_on(found: Found, code: int) -> None:
    with Wire(found.slave_addr) as wire:
        assert wire.ask(code, {"only": "this"}, b"body").code == ResponseCode.SUCCESS
    assert [request.ext for request in found.master.forwarded] == [{"only": "this"}]


def test_a_oneway_request_goes_on_as_one(found: Found) -> None:
    ext = PULL | {"queueOffset": "7"}
    commit = Command(code=RequestCode.UPDATE_CONSUMER_OFFSET, opaque=8, flag=ONEWAY_FLAG, ext=ext)
    with Wire(found.slave_addr) as wire:
        wire.send(encode_frame(commit))
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, SEND).code == ResponseCode.SUCCESS, "nothing else is answered"
    assert [(request.ext, request.is_oneway) for request in found.master.forwarded] == [(ext, True), (SEND, False)]


def test_a_pull_without_an_outcome_is_asked_for_again_unless_that_comes_to_nothing(found: Found) -> None:
    """Clients pause for three seconds after a refused pull."""
    ext = {
        "consumerGroup": "G", "topic": "Topic", "queueId": "0", "queueOffset": "7", "maxMsgNums": "1",
        "sysFlag": "4",
    }  # fmt: skip
    with Wire(found.slave_addr) as wire:
        assert wire.ask(RequestCode.SEND_MESSAGE_V2, SEND).code == ResponseCode.SUCCESS
        opened_s = time.monotonic()  # or sooner: the slave has passed the request on

        def has_stood() -> bool:
            assert wire.ask(RequestCode.SEND_MESSAGE_V2, SEND).code == ResponseCode.SUCCESS
            return time.monotonic() > opened_s + RELIABLE_AFTER_S + 0.1

        until(has_stood)
        found.master.reply = lambda request: CLOSE
        again = wire.ask(RequestCode.PULL_MESSAGE, ext)
        assert again.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "7", "minOffset": "7", "maxOffset": "7"}
        assert again.ext == fields

        def is_refused() -> bool:
            """On a busy machine the next connection to the master may stand long enough, too."""
            answered = wire.ask(RequestCode.PULL_MESSAGE, ext)
            if answered.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
                return False
            assert (answered.code, answered.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, UNKNOWN_TEXT)
            return True

        until(is_refused)


@pytest.mark.slow
def test_without_a_master_it_answers_as_the_slave_that_it_is(found: Found) -> None:
    found.master.peer.hang_up()
    with Wire(found.slave_addr) as wire:
        refused = wire.ask(RequestCode.SEND_MESSAGE_V2, SEND)
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED_TEXT)
        found.master.peer.listen()
        until(lambda: wire.ask(RequestCode.SEND_MESSAGE_V2, SEND).code == ResponseCode.SUCCESS)


def test_a_connection_stays_over_handovers(tmp_path: Path) -> None:
    """Go's client waits half a minute for requests on a connection that was closed. A held request is answered, a half
    received one is read to its end, and clients that were online stay so."""
    with two_in_sync(tmp_path) as (controller, two), Wire(two.brokers[1].broker_addr) as wire:
        beat = {"clientID": "c", "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [{"topic": "Kept"}]}]}
        assert wire.ask(RequestCode.HEART_BEAT, {}, json.dumps(beat).encode()).code == ResponseCode.SUCCESS
        wire.send(encode_frame(Command(code=RequestCode.PULL_MESSAGE, opaque=1, ext=PULL | {"topic": "Kept"})))
        send = encode_frame(Command(code=RequestCode.SEND_MESSAGE_V2, opaque=2, ext=SEND | {"b": "Kept"}, body=b"half"))
        wire.send(send[:100])
        controller.elect(2)
        answers = (each for each in iter(wire.receive, None) if each.is_answer)
        held = next(answers)
        assert (held.opaque, held.code) == (1, ResponseCode.PULL_NOT_FOUND)
        wire.send(send[100:])
        sent = next(answers)
        assert (sent.opaque, sent.code) == (2, ResponseCode.SUCCESS)
        members = wire.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"})
        assert json.loads(members.body) == {"consumerIdList": ["c"]}
        controller.elect(1)
        until(lambda: is_master(two, 1) and wire.ask(RequestCode.SEND_MESSAGE_V2, SEND).code == ResponseCode.SUCCESS)
        members = wire.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"})
        assert json.loads(members.body) == {"consumerIdList": ["c"]}


def test_who_stays_with_the_former_master_goes_on_over_a_handover(tmp_path: Path) -> None:
    with two_in_sync(tmp_path) as (controller, two):
        kept: list[bytes] = []

        def send() -> bool:
            body = b"%d" % len(kept)
            try:
                if two.send(1, body) is SendStatus.SEND_OK:
                    kept.append(body)
            except RocketMQError:
                return False
            return True

        until(lambda: send() and len(kept) == 20)
        controller.elect(2)
        until(lambda: is_master(two, 2))
        count = len(kept) + 20
        until(lambda: send() and len(kept) >= count)
        stored = [body for body in two.bodies(2) if body in kept]
        assert list(dict.fromkeys(stored)) == kept, f"at the master of {BROKER_NAME}, in the order of the answers"
