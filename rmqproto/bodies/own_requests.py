"""Bodies of our own requests about faults and about snapshots of a store (docs/testing.md)."""

from __future__ import annotations

from rmqproto.bodies.base import Body


class FaultRules(Body, kw_only=True):
    """Body of SET_FAULTS: rules such as ``SEND_MESSAGE:error=SYSTEM_BUSY:count=2``, which replace the earlier ones."""

    rules: list[str] = []


class FaultState(Body, kw_only=True):
    """``hits``: requests that this rule hit."""

    rule: str
    hits: int = 0


class FaultStates(Body, kw_only=True):
    """Answer of SET_FAULTS and GET_FAULTS."""

    faults: list[FaultState] = []


class SnapshotName(Body, kw_only=True):
    """Body of SNAPSHOT and RESTORE."""

    name: str


class SnapshotNames(Body, kw_only=True):
    """Answer of GET_SNAPSHOTS."""

    names: list[str] = []
