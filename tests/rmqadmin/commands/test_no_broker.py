"""A name server that knows no broker, as one that was just started or is not the right one: an empty list says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rmqadmin.conftest import Rmqadmin
from tests.support import servers
from tests.support.servers import Server

SAID = "no name server knows a broker"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.namesrv(tmp_path_factory.mktemp("alone")) as running:
        yield running


@pytest.mark.parametrize("line", ["clusterList", "topicList", "topicList -c", "consumerProgress", "dlq ls"])
def test_an_empty_list_says_why(alone: Server, run: Rmqadmin, line: str) -> None:
    ran = run(*line.split(), "-n", alone.namesrv_addr)
    assert ran.status == 0
    (said,) = ran.err.splitlines()
    assert SAID in said
    assert len(said) <= 80, "it wraps in a usual terminal"


@pytest.mark.parametrize("line", ["group lag billing", "consumerProgress -g billing"])
def test_a_group_is_not_said_to_be_unknown(alone: Server, run: Rmqadmin, line: str) -> None:
    ran = run(*line.split(), "-n", alone.namesrv_addr)
    assert ran.status == 5
    assert SAID in ran.err
    assert "offsets" not in ran.err
