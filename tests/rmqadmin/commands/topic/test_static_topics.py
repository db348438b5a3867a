"""updateStaticTopic on a broker of ours, which has no static topics. On Apache's: ``tests/interop/tools``."""

import tempfile
from pathlib import Path

import pytest

from tests.rmqadmin.conftest import Rmqadmin


def test_our_broker_refuses_with_what_to_do(
    rmqadmin: Rmqadmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ran = rmqadmin("updateStaticTopic", "-t", "NoStatic", "-qn", "2", "-b", "broker-a", status=1)
    assert "static topics are not served by this broker: create a plain topic (updateTopic)" in ran.err
