"""The master of a set is killed while a task writes, and the elected broker gets the rest."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import all_of, topic_config, until

pytest.importorskip("pyarrow")

import pyarrow as pa

from rmqproto.bodies.base import MessageQueue
from rmqreplay.source.live import LiveCluster
from spark_tools.source_options import parse_write_options
from spark_tools.writing.plan import make_plan
from spark_tools.writing.tasks import write_at_least_once, write_once
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.broker_set import BROKER_NAME, set_of_three

pytestmark = pytest.mark.slow

COUNT = 2000


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent"])
def test_a_write_goes_on_at_the_elected_broker(tmp_path: Path, delivery: str) -> None:
    with set_of_three(tmp_path) as three:
        three.until_all_in_sync()
        master = three.master()
        three.admin.create_topic(three.brokers[master].broker_addr, topic_config("Written", 2))
        wait_for_route(three.admin, "Written")
        three.until_all_in_sync()

        def frames() -> Iterator[pa.RecordBatch]:
            for start in range(0, COUNT, COUNT // 4):
                if start == COUNT // 2:
                    three.brokers[master].stop(signal.SIGKILL)
                yield pa.RecordBatch.from_pydict({"body": [b"%d" % at for at in range(start, start + COUNT // 4)]})

        options = parse_write_options(
            {"nameServer": three.namesrv.namesrv_addr, "topic": "Written", "delivery": delivery, "batchSize": "10"}
        )
        with LiveCluster(options.name_server) as cluster:
            if options.is_idempotent:
                plan = make_plan(cluster, "Written")
                done = write_once(options, plan, plan.write_id, cluster, 0, frames())
            else:
                done = write_at_least_once(options, cluster, 0, frames())
            assert done.stored == COUNT
            elected = three.brokers[three.master(but=master)].broker_addr
            found: list[list[bytes]] = []

            def all_are_shown() -> bool:
                """A broker shows a message once the set has it, which may be after it was acknowledged as weak."""
                found[:] = [bodies(cluster, elected, queue_id) for queue_id in range(2)]
                return {body for each in found for body in each} == {b"%d" % at for at in range(COUNT)}

            until(all_are_shown)
        if options.is_idempotent:
            in_turn = [[b"%d" % at for at in range(first, COUNT, 2)] for first in range(2)]
            assert sorted(found) == in_turn  # a write begins at any queue


def bodies(cluster: LiveCluster, broker_addr: str, queue_id: int) -> list[bytes]:
    queue = MessageQueue("Written", BROKER_NAME, queue_id)
    return [message.body for message in all_of(cluster.admin, broker_addr, queue)]
