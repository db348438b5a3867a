"""Recorded requests and answers of real 5.5.0 servers of a set (``tests/golden/ha``). Controller scenes: two brokers,
wrong requests, handovers, a killed master, an unclean election, three controllers. One more scene: a slave acts for its
master, which is killed and comes back."""

import functools
import json
import lzma
from dataclasses import dataclass
from pathlib import Path

from rmqproto.wire.command import Command, decode_frame_untrusted

DIRECTORY = Path(__file__).parent.parent / "golden/ha"


@dataclass(frozen=True)
class ControllerExchange:
    """``name`` is code, name and number; ``at_ms`` is the time in the scene; ``sender`` is broker, slave, client
    (mqadmin or the recording program) or controller. ``answer`` is None for a oneway request."""

    name: str
    scene: str
    at_ms: float
    sender: str
    request: Command
    answer: Command | None


def controller_exchanges() -> tuple[ControllerExchange, ...]:
    """All exchanges of the controller scenes, by scene and time."""
    return _exchanges("controller.jsonl.xz")


def acting_exchanges() -> tuple[ControllerExchange, ...]:
    """Exchanges of the nameserver, master and slave, by time."""
    return _exchanges("acting.jsonl.xz")


@functools.cache
def _exchanges(file_name: str) -> tuple[ControllerExchange, ...]:
    with lzma.open(DIRECTORY / file_name, "rt") as lines:
        return tuple(
            ControllerExchange(
                name=row["name"],
                scene=row["scene"].removeprefix("ha-"),
                at_ms=row["t_ms"],
                sender=row["from"],
                request=decode_frame_untrusted(bytes.fromhex(row["request"])),
                answer=decode_frame_untrusted(bytes.fromhex(row["response"])) if row["response"] else None,
            )
            for row in map(json.loads, lines)
        )
