"""A cluster of two masters, one of which is killed and stays away. Java's producer asks for routes every 30 s, and
until then sends to the dead master too. Its retry at the other master saves the message."""

import itertools
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from tests.support import servers
from tests.support.servers import topic_config, until

from ..steady import sending
from ..witness import Witness

pytestmark = pytest.mark.interop

TOPIC = "OfTwoBrokers"
BEFORE, BEHIND = 60, 200
RETRIES = "-Dwitness.retries=2"
"""The client's default, which the witness turns off."""


@pytest.mark.parametrize(
    "options", [(RETRIES,), (RETRIES, "-Dwitness.latencyFault=true")], ids=["retries", "and avoids"]
)
def test_no_send_fails_while_one_of_two_brokers_is_away(tmp_path: Path, options: tuple[str, ...]) -> None:
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        names = ("broker-a", "broker-b")
        brokers = [stack.enter_context(servers.broker(tmp_path / name, namesrv.namesrv_addr, name)) for name in names]
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
        for broker in brokers:
            admin.create_topic(broker.broker_addr, topic_config(TOPIC, 4))
        until(lambda: len(admin.topic_route(TOPIC).broker_datas) == len(brokers))
        java = stack.enter_context(Witness(namesrv.namesrv_addr, tmp_path / "java", java_options=options))
        with sending(java, TOPIC) as taken:
            until(lambda: len(taken.moments_s) >= BEFORE)
            brokers[0].stop(signal.SIGKILL)
            lost_s = time.monotonic()
            until(lambda: sum(each > lost_s for each in taken.moments_s) >= BEHIND)
        longest_s = max(after - before for before, after in itertools.pairwise(taken.moments_s))
        print(f"{options}: nothing taken for {longest_s * 1000:.0f} ms, {taken.refused} refused")
        assert taken.refused == 0
