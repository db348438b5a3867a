"""What is reported about a load as a whole."""

from __future__ import annotations

import pytest

from rmqadmin.core.load.load_rows import LoadFigures
from rmqadmin.core.load.load_run import BegunLoad, LoadRun, LoadSetting


def run_of(*, size_bytes: int | None, warm_up_messages: int, messages: int) -> LoadRun:
    setting = LoadSetting("t", ["127.0.0.1:1"], 1, 1, 1, 1, 32, size_bytes)
    run = LoadRun(lambda: BegunLoad(setting, []), lambda: None)
    run.setting, run.warm_up_messages, run.total.messages = setting, warm_up_messages, messages
    return run


@pytest.mark.parametrize(
    ("run", "is_said"),
    [
        (run_of(size_bytes=None, warm_up_messages=9, messages=0), True),
        (run_of(size_bytes=None, warm_up_messages=9, messages=1), False),
        (run_of(size_bytes=None, warm_up_messages=0, messages=0), False),
        (run_of(size_bytes=128, warm_up_messages=9, messages=0), False),
    ],
)
def test_what_was_all_read_in_the_warm_up_is_said(run: LoadRun, is_said: bool) -> None:
    """`bench consume` of a small topic used to show rows of zeros without an explanation."""
    assert ("in the warm-up: --repeat" in (LoadFigures(run).remark() or "")) is is_said
