"""A set of two brokers of ours under a scripted controller."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmqproto.errors import RocketMQError
from tests.support.broker_set import PATIENT, BrokerSet, set_under
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
    with ScriptedController() as controller, set_under(tmp_path, controller.peer.address) as two:
        for number in (1, 2):
            two.start(number, **FORWARDING, **PATIENT)
            until(lambda: number in controller.members or two.takes(number))  # noqa: B023
        until(lambda: controller.members == {1, 2})
        until(lambda: two.takes(1))
        for server in two.brokers.values():
            until(lambda: "Kept" in two.admin.all_topics(server.broker_addr).topic_config_table)  # noqa: B023
        yield controller, two
