"""Bodies of our own requests about snapshots of a store (docs/testing.md)."""

from __future__ import annotations

from rmqproto.bodies.base import Body


class SnapshotName(Body, kw_only=True):
    """Body of SNAPSHOT and RESTORE."""

    name: str


class SnapshotNames(Body, kw_only=True):
    """Answer of GET_SNAPSHOTS."""

    names: list[str] = []
