"""Three brokers of ours under our controller: whichever is killed or frozen, no acknowledged message is missing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqclient.message import Message, SendStatus
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RocketMQError
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PATIENT, BrokerSet, set_of_three, set_under
from tests.support.forwarder import Forwarder
from tests.support.frozen import Frozen
from tests.support.servers import all_of, until

pytestmark = pytest.mark.slow

NUMBERS = (1, 2, 3)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[BrokerSet]:
    with set_of_three(tmp_path) as made:
        yield made


def test_an_idempotent_producer_s_messages_are_stored_once_over_a_fail_over(three: BrokerSet) -> None:
    """The killed master had answered some of the sends. The elected broker knows all of them from its own log."""
    three.until_all_in_sync()
    master = three.master()
    queue = MessageQueue("Once", BROKER_NAME, 0)
    told: dict[bytes, int] = {}

    async def send(producer: Producer, task: int) -> None:
        for number in range(40):
            body = b"%d-%d" % (task, number)
            told[body] = (await producer.send(Message("Once", body), queue, timeout_s=120)).queue_offset

    async def run() -> None:
        async with Producer(three.namesrv.namesrv_addr, "once", idempotent=True) as producer:
            with trio.fail_after(240):
                async with trio.open_nursery() as nursery:
                    for task in range(16):
                        nursery.start_soon(send, producer, task)
                    while len(told) < 150:
                        await trio.testing.wait_all_tasks_blocked(0.001)
                    three.brokers[master].stop(signal.SIGKILL)

    trio.run(run)
    assert len(told) == 16 * 40
    elected = three.brokers[three.master(but=master)].broker_addr
    stored = [message.body for message in all_of(three.admin, elected, queue)]
    assert {body: stored.index(body) for body in told} == told
    assert len(stored) == len(told), "each once"


def has(found: BrokerSet, number: int, kept: list[bytes]) -> bool:
    """Whether that broker has these messages in order. Messages that were not acknowledged may lie between."""
    try:
        bodies = iter(found.bodies(number))
    except RocketMQError:
        return False
    return all(body in bodies for body in kept)


def test_masters_are_killed_and_frozen_and_nothing_is_missing(three: BrokerSet) -> None:
    kept: list[bytes] = []

    def send(number: int, count: int) -> None:
        for _ in range(count):
            body = b"%d-" % len(kept) * 50
            assert three.send(number, body) is SendStatus.SEND_OK
            kept.append(body)

    three.until_all_in_sync()
    for _ in range(3):
        master = three.master()
        send(master, 30)
        three.brokers[master].stop(signal.SIGKILL)
        send(three.master(but=master), 10)
        three.start(master, minInSyncReplicas="2", **PATIENT)
        three.until_all_in_sync()
    master = three.master()
    os.kill(three.brokers[master].pid, signal.SIGSTOP)
    try:
        send(three.master(but=master), 10)
    finally:
        os.kill(three.brokers[master].pid, signal.SIGCONT)
    for _ in range(20):
        try:
            assert three.send(master, b"alone") is not SendStatus.SEND_OK
        except RocketMQError:
            continue
    three.until_all_in_sync()
    for number in three.brokers:
        until(lambda: has(three, number, kept))  # noqa: B023


@pytest.mark.parametrize("all_must_have_it", ["true", "false"])
def test_a_frozen_master_that_goes_on_acknowledges_nothing(tmp_path: Path, all_must_have_it: str) -> None:
    """The message that was sent while it was frozen is the first thing it sees, before it hears of the other master."""
    settings = {"allAckInSyncStateSet": all_must_have_it, "controllerHeartBeatTimeoutMills": "3000"}
    with (
        servers.controller(tmp_path / "controller", "--set", "scanNotActiveBrokerInterval=500") as controller,
        set_under(tmp_path, controller.controller_addr) as two,
    ):
        two.start(1, **settings)
        until(lambda: two.takes(1))
        two.join(2, **settings)
        kept = [b"%d-" % number * 50 for number in range(30)]
        assert {two.send(1, body) for body in kept} == {SendStatus.SEND_OK}
        until(lambda: has(two, 2, kept))
        until(lambda: two.controller_is_settled())
        frozen = Frozen(two.brokers[1].pid, two.brokers[1].broker_addr)
        try:
            until(lambda: two.takes(2))
            frozen.send()
        finally:
            frozen.wake()
        assert ResponseCode.SUCCESS not in frozen.answered()
        assert two.send(2, b"after") is SendStatus.SEND_OK
        two.until_all_in_sync()
        for number in (1, 2):
            until(lambda: has(two, number, [*kept, b"after"]))  # noqa: B023


def test_a_controller_that_stood_still_deposes_nobody(tmp_path: Path) -> None:
    """Its brokers gave up their connections meanwhile. Each end used to look like the end of a broker, and the master
    lost its place."""
    with (
        servers.controller(tmp_path / "controller") as controller,
        set_under(tmp_path, controller.controller_addr) as two,
    ):
        two.join(1, 2)
        before = two.known.master_epoch
        os.kill(controller.pid, signal.SIGSTOP)
        try:
            for server in two.brokers.values():
                until(lambda: "event=controller-problem" in server.log_tail())  # noqa: B023
        finally:
            os.kill(controller.pid, signal.SIGCONT)
        until(lambda: "event=controller-stood-still" in controller.log_tail())
        until(two.controller_is_settled)
        two.until_all_in_sync()
        assert two.known.master_epoch == before
        assert two.send(1, b"after") is SendStatus.SEND_OK


def test_a_connection_that_somebody_else_ends_deposes_nobody_and_a_kill_does(tmp_path: Path) -> None:
    """A proxy is between the brokers and their controller. The master has a lease and acknowledges alone, so a second
    master would acknowledge other messages."""
    settings = {"allAckInSyncStateSet": "false"}
    with (
        servers.controller(tmp_path / "controller") as controller,
        Forwarder() as proxy,
        set_under(tmp_path, proxy.address) as two,
    ):
        proxy.to = controller.controller_addr
        two.join(1, 2, **settings)
        before, connections = two.known.master_epoch, proxy.connection_count
        proxy.drop()
        until(lambda: controller.log_tail().count("event=broker-connection-ended") >= 2)
        until(lambda: proxy.connection_count >= connections + 2)
        assert {two.send(1, b"%d" % number) for number in range(20)} == {SendStatus.SEND_OK}
        assert two.known.master_epoch == before
        two.brokers[1].stop(signal.SIGKILL)
        until(lambda: two.takes(2))
        assert "event=broker-inactive broker=broker-a id=1 master=True reason='its connection ended" in (
            controller.log_tail()
        )


def test_a_set_whose_controller_lost_its_directory_begins_anew_under_another(tmp_path: Path) -> None:
    """As docs/controller.md says. The new controller knows nothing of the epochs in the logs."""
    with (
        servers.controller(tmp_path / "first") as first,
        servers.controller(tmp_path / "second") as second,
        set_under(tmp_path, first.controller_addr) as two,
    ):
        kept = [b"%d-" % number * 50 for number in range(30)]
        two.join(1, 2, **PATIENT)
        two.brokers[1].stop()
        until(lambda: two.takes(2))
        two.start(1, **PATIENT)
        two.until_all_in_sync()
        assert {two.send(2, body) for body in kept} == {SendStatus.SEND_OK}
        two.brokers[1].stop()
        two.brokers[2].stop()
        first.stop()
        for server in two.brokers.values():
            (server.store_dir / "brokerIdentity").unlink()
        two.controller_addr = second.controller_addr
        two.start(2, **PATIENT)
        until(lambda: two.takes(2))
        two.start(1, **PATIENT)
        two.until_all_in_sync()
        for number in (1, 2):
            until(lambda: has(two, number, kept))  # noqa: B023
        assert two.send(2, b"after") is SendStatus.SEND_OK
