"""Calls for injecting faults, and for saving and restoring a broker's state. Only our own broker serves them, and only
for tests (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Sequence

from rmqclient.admin.caller import AdminCaller, body_of
from rmqproto import bodies
from rmqproto.codes import OwnRequestCode
from rmqproto.wire import fastjson

TIMEOUT_S = 60.0
"""For snapshots: long, because stores are copied."""


class FaultCalls(AdminCaller):
    """RefusedError with code 16 from a broker that does not serve requests for tests because it keeps its store, with
    code 3 from Apache's."""

    def set_faults(self, broker_addr: str, rules: Sequence[str]) -> None:
        """Replaces the fault rules; no rules means no faults. RefusedError with code 29, and no change, if a rule is
        not valid."""
        self.call(
            broker_addr,
            OwnRequestCode.SET_FAULTS,
            body=fastjson.dumps(bodies.own_requests.FaultRules(rules=list(rules))),
        )

    def faults(self, broker_addr: str) -> list[bodies.own_requests.FaultState]:
        """The rules and how often each was hit."""
        return body_of(self.call(broker_addr, OwnRequestCode.GET_FAULTS), bodies.own_requests.FaultStates).faults


class SnapshotCalls(AdminCaller):
    """RefusedError as of ``FaultCalls``; with code 2 while another of these calls is under way. The broker restarts on
    its ports: all other connections to it are closed, and clients reconnect as after a restart."""

    def reset_broker(self, broker_addr: str) -> None:
        """Deletes topics, groups, offsets and messages, and creates again what ``--seed`` says."""
        self.call(broker_addr, OwnRequestCode.RESET, timeout_s=TIMEOUT_S)

    def save_snapshot(self, broker_addr: str, name: str) -> None:
        """Saves the broker's state under this name, replacing an earlier snapshot. A name has letters, digits, ``-``
        and ``_``."""
        self._call_named(broker_addr, OwnRequestCode.SNAPSHOT, name)

    def restore_snapshot(self, broker_addr: str, name: str) -> None:
        """Restores the state of a snapshot. RefusedError with code 22 if there is no such snapshot."""
        self._call_named(broker_addr, OwnRequestCode.RESTORE, name)

    def snapshots(self, broker_addr: str) -> list[str]:
        """The names of all snapshots."""
        return body_of(self.call(broker_addr, OwnRequestCode.GET_SNAPSHOTS), bodies.own_requests.SnapshotNames).names

    def _call_named(self, broker_addr: str, code: OwnRequestCode, name: str) -> None:
        self.call(
            broker_addr, code, body=fastjson.dumps(bodies.own_requests.SnapshotName(name=name)), timeout_s=TIMEOUT_S
        )
