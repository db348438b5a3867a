"""A broker's heartbeats to several controllers."""

from pathlib import Path

from rmqclient.admin import AdminClient
from rmqproto.codes import RequestCode
from rmqproto.wire.command import Command
from tests.support import servers
from tests.support.broker_set import BrokerSet
from tests.support.peer import Peer, answer
from tests.support.scripted_controller import ScriptedController


def beats(peer: Peer) -> int:
    return peer.codes().count(RequestCode.BROKER_HEARTBEAT)


def test_a_controller_whose_answers_make_no_sense_ends_no_broker(tmp_path: Path) -> None:
    """A number that is none, in the answer to a heartbeat, used to end it."""

    def reply(request: Command) -> object:
        if request.code == RequestCode.BROKER_HEARTBEAT:
            return answer(request, fields={"masterEpoch": "first"})
        return replies(request)

    with (
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        AdminClient(namesrv.namesrv_addr) as admin,
        ScriptedController() as controller,
    ):
        replies, controller.peer.reply = controller.peer.reply, reply
        with BrokerSet(tmp_path, controller.peer.address, namesrv, admin).start(1):
            controller.peer.wait_for(lambda: beats(controller.peer) >= 5)


def test_a_controller_that_does_not_answer_keeps_no_other_waiting(tmp_path: Path) -> None:
    """One of three controllers is frozen. The others used to get a heartbeat only once in three seconds, and took the
    broker for dead where controllerHeartBeatTimeoutMills was shorter."""

    with (
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        AdminClient(namesrv.namesrv_addr) as admin,
        ScriptedController() as controller,
        Peer(lambda request: None) as frozen,
    ):
        addrs = f"{controller.peer.address};{frozen.address}"
        with BrokerSet(tmp_path, addrs, namesrv, admin).start(1, brokerHeartbeatInterval="50"):
            frozen.wait_for(lambda: beats(frozen) > 0)
            before = beats(controller.peer)
            controller.peer.wait_for(lambda: beats(controller.peer) >= before + 10)
            assert beats(frozen) < 5
            frozen.wait_for(lambda: beats(frozen) > 1)
            assert frozen.connections == 1, "it would take the end of a connection for the broker's"
