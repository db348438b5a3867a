"""A group's dead letters are made, seen and sent again. A command that ends with an unexpected status gives no
figure."""

import os
from pathlib import Path

import pytest

from bench.harness.servers import ours
from bench.tools.letters import ORIGIN, Letters, seconds
from rmqclient.admin import AdminClient


@pytest.mark.slow
def test_dead_letters_are_made_and_sent_again(tmp_path: Path) -> None:
    with ours(sync=True) as broker, AdminClient(broker.namesrv_addr) as admin:
        letters = Letters(broker, {**os.environ, "NAMESRV_ADDR": broker.namesrv_addr, "XDG_STATE_HOME": str(tmp_path)})
        runs = letters.runs(1, 3, ["dlq", "redrive"], "--execute", "--yes")
        sent = sum(admin.max_offset(broker.address, ORIGIN, queue_id) for queue_id in range(4))
        assert (len(runs), sent) == (1, 6)  # the run that compiles the program sends them too
        with pytest.raises(RuntimeError, match="exit status 0"):
            letters.runs(1, 3, ["dlq", "redrive"], status=5)
    wall, cpu = seconds("it", runs, at_most=600)
    assert wall.is_reached
    assert min(wall.ours, cpu.ours) > 0
