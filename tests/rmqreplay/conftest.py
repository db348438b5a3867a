from collections.abc import Iterator
from functools import partial

import pytest

from rmqreplay.run import job
from rmqreplay.sending.permits import PermitBook
from tests.rmqreplay.replay_lab import Lab


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab, for tests that break a replay."""
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture
def no_driver_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on hardly waits for the permits of the one before to end: for tests whose runs have ended by
    then."""
    monkeypatch.setattr(job, "PermitBook", partial(PermitBook, ttl_s=0.3))
    monkeypatch.setattr(job, "settle_s", lambda send_timeout_s: 0.1)
