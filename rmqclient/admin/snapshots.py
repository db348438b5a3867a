"""Calls that only our own broker serves, and only for tests: everything back to where it was (docs/testing.md)."""

from __future__ import annotations

from rmqclient.admin.caller import AdminCaller, body_of
from rmqproto import bodies
from rmqproto.codes import OwnRequestCode
from rmqproto.wire import fastjson

TIMEOUT_S = 60.0
"""Stores are copied."""


class SnapshotCalls(AdminCaller):
    """RefusedError as of ``FaultCalls``; with code 2 while another one of these is under way. The broker starts anew,
    on its ports: all other connections to it are closed, and its clients come back as after a restart."""

    def reset_broker(self, broker_addr: str) -> None:
        """Topics, groups, offsets and messages are gone, and what ``--seed`` says is there again."""
        self.call(broker_addr, OwnRequestCode.RESET, timeout_s=TIMEOUT_S)

    def save_snapshot(self, broker_addr: str, name: str) -> None:
        """Keeps everything under this name, of letters, digits, ``-`` and ``_``, in place of what it named before."""
        self._call_named(broker_addr, OwnRequestCode.SNAPSHOT, name)

    def restore_snapshot(self, broker_addr: str, name: str) -> None:
        """Everything is as it was at that moment. RefusedError with code 22 if there is no such snapshot."""
        self._call_named(broker_addr, OwnRequestCode.RESTORE, name)

    def snapshots(self, broker_addr: str) -> list[str]:
        """The names of all snapshots."""
        return body_of(self.call(broker_addr, OwnRequestCode.GET_SNAPSHOTS), bodies.snapshots.SnapshotNames).names

    def _call_named(self, broker_addr: str, code: OwnRequestCode, name: str) -> None:
        self.call(broker_addr, code, body=fastjson.dumps(bodies.snapshots.SnapshotName(name=name)), timeout_s=TIMEOUT_S)
