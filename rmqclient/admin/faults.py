"""Calls that only our own broker serves, and only for tests: what goes wrong (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Sequence

from rmqclient.admin.caller import AdminCaller, body_of
from rmqproto import bodies
from rmqproto.codes import OwnRequestCode
from rmqproto.wire import fastjson


class FaultCalls(AdminCaller):
    """RefusedError with code 16 from a broker that keeps its store and serves no requests for tests, with code 3 from
    Apache's."""

    def set_faults(self, broker_addr: str, rules: Sequence[str]) -> None:
        """What goes wrong from now on, in place of what did before; without rules, nothing. RefusedError with code 29,
        and no change, if one of them is no rule."""
        self.call(
            broker_addr, OwnRequestCode.SET_FAULTS, body=fastjson.dumps(bodies.faults.FaultRules(rules=list(rules)))
        )

    def faults(self, broker_addr: str) -> list[bodies.faults.FaultState]:
        """The rules, and how often each was hit."""
        return body_of(self.call(broker_addr, OwnRequestCode.GET_FAULTS), bodies.faults.FaultStates).faults
