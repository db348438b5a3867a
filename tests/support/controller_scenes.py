"""What a real 5.5.0 controller was asked and answered, by scene (``tests/golden/ha/controller.jsonl.xz``): two brokers,
wrong requests, hand-overs, a master that is killed, an unclean election, three controllers."""

from __future__ import annotations

import functools
import json
import lzma
from dataclasses import dataclass
from pathlib import Path

from rmqproto.command import Command, decode_frame_untrusted

FILE = Path(__file__).parent.parent / "golden/ha/controller.jsonl.xz"


@dataclass(frozen=True)
class ControllerExchange:
    """``name`` is code, name and number; ``at_ms`` is the time in the scene; ``sender`` is broker, client (mqadmin, or
    the maker of the records) or controller. ``answer`` is None for what is oneway."""

    name: str
    scene: str
    at_ms: float
    sender: str
    request: Command
    answer: Command | None


@functools.cache
def controller_exchanges() -> tuple[ControllerExchange, ...]:
    """All of them, by scene and time."""
    with lzma.open(FILE, "rt") as lines:
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
