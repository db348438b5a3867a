"""Requests that only rmqserver serves, sent to a real broker: it refuses them with a message, and nothing happens."""

import pytest

from rmqclient.admin import AdminClient

from ..cluster import Cluster
from .test_message_commands import rmqadmin

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(
    "words",
    [
        "fault ls", "fault set SEND_MESSAGE:drop", "fault clear", "snapshot ls", "snapshot save a-day",
        "snapshot restore a-day --yes", "server reset --yes",
    ],
)  # fmt: skip
def test_a_broker_that_does_not_serve_tests_refuses(cluster: Cluster, words: str) -> None:
    """Our broker keeps its store here, so it refuses too."""
    with AdminClient(cluster.namesrv_addr) as admin:
        before = admin.topic_list()
        ran = rmqadmin(cluster, *words.split())
        assert admin.topic_list() == before
    if cluster.name == "ours":
        assert (ran.returncode, "--test-requests on" in ran.stderr) == (4, True), ran.stderr
    else:
        assert (ran.returncode, "Only rmqserver serves this" in ran.stderr) == (1, True), ran.stderr
