"""A broker accepts the load of the special rows: every request succeeds and none is left half done."""

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench.broker.special import rows, take
from bench.harness.extent import QUICK
from bench.harness.measure import Load
from bench.harness.rows import SMALL, Row
from bench.harness.servers import ours
from rmqclient.admin import AdminClient
from rmqproto.names import TRANSACTION_HALF_TOPIC

SECONDS = 0.3
QUEUES = 4
"""Of a topic that is created by a send."""

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator is compiled")


@pytest.fixture
def load() -> Iterator[Load]:
    load = Load()
    yield load
    load.close()


@pytest.mark.slow
def test_no_request_of_any_row_is_refused(load: Load) -> None:
    lines = take(load, rows(), replace(QUICK, with_apache=False))
    assert {line["broker"] for line in lines} == {"ours"}
    assert all(line["replies"] and not line["errors"] for line in lines), lines


def row(part: str) -> Row:
    (found,) = (each for each in rows() if part in each.name)
    return found


@pytest.mark.slow
def test_every_half_message_is_committed(load: Load) -> None:
    """Transactions under way at the end are committed too: consumers see as many messages as there are half
    messages."""
    with ours() as broker, AdminClient(broker.namesrv_addr) as admin:
        load.run(broker, row("transaction"), SECONDS)
        half = admin.max_offset(broker.address, TRANSACTION_HALF_TOPIC, 0)
        seen = [admin.max_offset(broker.address, SMALL, queue_id) for queue_id in range(QUEUES)]
    assert 0 < half == sum(seen)
    assert all(seen)
