from collections.abc import Iterator

import pytest

from tests.rmqreplay.replay_lab import Lab


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab, for tests that break a replay."""
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running
