"""Calls for injecting faults. Only our own broker serves them, and only for tests (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Sequence

from rmqclient.admin.caller import AdminCaller, body_of
from rmqproto import bodies
from rmqproto.codes import OwnRequestCode
from rmqproto.wire import fastjson


class FaultCalls(AdminCaller):
    """RefusedError with code 16 from a broker that does not serve requests for tests because it keeps its store, with
    code 3 from Apache's."""

    def set_faults(self, broker_addr: str, rules: Sequence[str]) -> None:
        """Replaces the fault rules; no rules means no faults. RefusedError with code 29, and no change, if a rule is
        not valid."""
        self.call(
            broker_addr, OwnRequestCode.SET_FAULTS, body=fastjson.dumps(bodies.faults.FaultRules(rules=list(rules)))
        )

    def faults(self, broker_addr: str) -> list[bodies.faults.FaultState]:
        """The rules and how often each was hit."""
        return body_of(self.call(broker_addr, OwnRequestCode.GET_FAULTS), bodies.faults.FaultStates).faults
