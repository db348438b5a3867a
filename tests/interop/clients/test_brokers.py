"""Java's client and the brokers of ``standalone --brokers``."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.servers import SMALL, Server

from ..events import Outgoing, Sent
from ..witness import Witness, of_type

pytestmark = pytest.mark.interop


def test_an_automatic_topic_is_used_on_all_brokers_and_sends_go_on_while_one_is_down(tmp_path: Path) -> None:
    ports = ("--namesrv-port", "0", "--port", "0")
    with (
        Server("standalone", "--brokers", "2", *ports, *SMALL, log_file=tmp_path / "log") as server,
        Witness(server.namesrv_addr, tmp_path / "java") as java,
    ):
        java.send("Automatic", [Outgoing(body=b"first")])
        consumer = java.consume("Group", "Automatic")
        sent = java.send("Automatic", [Outgoing(body=b"%d" % number) for number in range(16)])
        assert {each.broker_name for each in sent} == {"broker-a", "broker-b"}
        consumer.until_count(17)
        os.kill(server.ready["brokers"][1]["pid"], signal.SIGKILL)
        later = [Outgoing(body=b"later %d" % number) for number in range(16)]
        answers = of_type(java.try_send("Automatic", later), Sent)  # this client sends none of them again
        taken = {later[each.index].body for each in answers if each.broker_name == "broker-a"}
        assert taken
        consumer.until(lambda messages: {each.body for each in messages} >= taken, "all that the other one took")
