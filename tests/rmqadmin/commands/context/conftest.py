"""A second cluster beside the shared one."""

from collections.abc import Iterator

import pytest

from tests.support import servers
from tests.support.servers import Server


@pytest.fixture(scope="package")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cluster named Other."""
    with servers.standalone(tmp_path_factory.mktemp("other"), "--set", "brokerClusterName=Other") as running:
        yield running
