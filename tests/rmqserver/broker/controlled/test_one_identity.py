"""Two brokers with one identity, as after a machine or a store was copied: only the one that registered last is the
broker of that name and id."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqclient.message import SendStatus
from rmqproto.errors import RefusedError
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PATIENT, BrokerSet, set_under
from tests.support.scripted_controller import ScriptedController
from tests.support.servers import until

TAKEN = "event=identity-taken broker_id=2"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _set(directory: Path, stack: ExitStack, controller_addr: str) -> BrokerSet:
    made = stack.enter_context(set_under(directory, controller_addr))
    made.start(1, **PATIENT)
    until(lambda: made.takes(1))
    second = made.start(2, **PATIENT)
    until(Path(second.store_dir, "brokerIdentity").exists)
    second.stop()
    shutil.copytree(directory / "b2", directory / "b3")
    made.start(2, **PATIENT)
    return made


def _refuses(made: BrokerSet, number: int) -> bool:
    try:
        made.send(number, b"?")
    except RefusedError as error:
        return "service not available" in error.remark
    return False


def _under_our_controller(directory: Path, stack: ExitStack) -> BrokerSet:
    """A set whose third broker has the identity of the second, and has registered last."""
    controller = stack.enter_context(servers.controller(directory / "controller"))
    made = _set(directory, stack, controller.controller_addr)
    first = made.brokers[1].broker_addr
    until(lambda: made.in_sync_addrs() == {first, made.brokers[2].broker_addr})
    made.start(3, **PATIENT)
    until(lambda: TAKEN in made.brokers[2].log_tail())
    until(lambda: made.in_sync_addrs() == {first, made.brokers[3].broker_addr})
    until(lambda: len(made.admin.ha_status(first).ha_connection_info) == 1)
    return made


def test_who_registered_last_is_the_broker(tmp_path: Path, stack: ExitStack) -> None:
    """The other broker used to report as the same slave."""
    made = _under_our_controller(tmp_path, stack)
    until(lambda: "Kept" in made.admin.all_topics(made.brokers[3].broker_addr).topic_config_table)
    assert made.send(1, b"kept") is SendStatus.SEND_OK
    assert b"kept" in made.bodies(3)


@pytest.mark.slow  # a controller elects nobody in its first ten seconds
def test_who_registered_last_leads_when_it_is_elected(tmp_path: Path, stack: ExitStack) -> None:
    """The other broker used to lead in the same epoch."""
    made = _under_our_controller(tmp_path, stack)
    until(made.controller_is_settled)
    assert made.send(1, b"kept") is SendStatus.SEND_OK
    made.admin.elect_master(made.controller_addr, "DefaultCluster", BROKER_NAME, 2, 0)
    until(lambda: made.takes(3))
    assert "event=master-begins" not in made.brokers[2].log_tail()
    assert b"kept" in made.bodies(3)


def test_under_a_controller_that_takes_any_heartbeat_it_does_not_lead(tmp_path: Path, stack: ExitStack) -> None:
    """Apache's controller takes any heartbeat. The broker hears that the master, which has its own id, is somewhere
    else."""
    controller = stack.enter_context(ScriptedController())
    made = _set(tmp_path, stack, controller.peer.address)
    until(lambda: controller.members == {1, 2})
    third = made.start(3, **PATIENT)
    until(lambda: controller.addrs[2] == third.broker_addr)
    controller.elect(2)
    until(lambda: TAKEN in made.brokers[2].log_tail())
    until(lambda: made.takes(3))
    assert _refuses(made, 2)
    assert "event=master-begins" not in made.brokers[2].log_tail()
