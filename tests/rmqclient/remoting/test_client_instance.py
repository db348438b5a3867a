"""What a program sees of a client's log."""

import subprocess
import sys

import pytest

PROGRAM = """
import logging, sys
import rmqclient.remoting.client_instance
exec(sys.argv[1])
log = logging.getLogger("rmqclient.consuming.deliveries")
log.warning("a broker is away")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("listener failed")
"""


@pytest.mark.parametrize(
    ("setup", "seen"),
    [
        ("", ["listener failed", "ZeroDivisionError"]),
        ("logging.basicConfig()", ["a broker is away", "listener failed", "ZeroDivisionError"]),
        ("logging.getLogger('rmqclient').setLevel(logging.CRITICAL)", []),
    ],
    ids=["nothing configured", "configured", "not wanted"],
)
def test_a_listener_that_raises_is_seen_once(setup: str, seen: list[str]) -> None:
    """Without ``logging.basicConfig`` a listener failed at each message without a word."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, setup], capture_output=True, text=True, check=True)
    found = [text for text in ("a broker is away", "listener failed", "ZeroDivisionError") if text in done.stderr]
    assert found == seen
    assert done.stderr.count("listener failed") == len(seen[-1:])
