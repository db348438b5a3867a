"""A set of two brokers of ours under a scripted controller."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rmqclient.admin import AdminClient
from rmqproto.errors import RocketMQError
from tests.support import servers
from tests.support.broker_set import PATIENT, BrokerSet
from tests.support.scripted_controller import ScriptedController
from tests.support.servers import until

FORWARDING = {"forwardToMasterEnable": "true", "slaveReadEnable": "false"}


def is_master(found: BrokerSet, number: int) -> bool:
    try:
        return found.admin.ha_status(found.brokers[number].broker_addr).master
    except RocketMQError:  # its role is changing
        return False


@contextmanager
def two_in_sync(tmp_path: Path) -> Iterator[tuple[ScriptedController, BrokerSet]]:
    """A master, 1, and a slave, 2, that passes on what only a master takes; the topic is Kept."""
    with ExitStack() as stack:
        controller = stack.enter_context(ScriptedController())
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
        two = BrokerSet(tmp_path, controller.peer.address, namesrv, admin)
        for number in (1, 2):
            stack.enter_context(two.start(number, **FORWARDING, **PATIENT))
            until(lambda: number in controller.members or two.takes(number))  # noqa: B023
        until(lambda: controller.members == {1, 2})
        until(lambda: two.takes(1))
        until(
            lambda: all(
                "Kept" in admin.all_topics(two.brokers[number].broker_addr).topic_config_table for number in (1, 2)
            )
        )
        yield controller, two
