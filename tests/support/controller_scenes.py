"""What real 5.5.0 servers of a set were asked and answered (``tests/golden/ha``). A controller, by scene: two brokers,
wrong requests, hand-overs, a master that is killed, an unclean election, three controllers. And one scene of a slave
that acts for its master, which is killed and comes back."""

from __future__ import annotations

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
    (mqadmin, or the maker of the records) or controller. ``answer`` is None for what is oneway."""

    name: str
    scene: str
    at_ms: float
    sender: str
    request: Command
    answer: Command | None


def controller_exchanges() -> tuple[ControllerExchange, ...]:
    """All of them, by scene and time."""
    return _exchanges("controller.jsonl.xz")


def acting_exchanges() -> tuple[ControllerExchange, ...]:
    """Those of nameserver, master and slave, by time."""
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
