"""Faults while the server runs: our own requests that set the rules and report the hits of each."""

from __future__ import annotations

from typing import Any

from rmqproto.bodies.own_requests import FaultRules, FaultState, FaultStates
from rmqproto.codes import OwnRequestCode, ResponseCode
from rmqproto.errors import UsageError
from rmqproto.fault_rules import parse_rule
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.faults.fault_gate import FaultGate
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler

RULES_MAX = 1000
"""Limit of rules: every request is compared with each."""

FAULT_CODES = frozenset({int(OwnRequestCode.SET_FAULTS), int(OwnRequestCode.GET_FAULTS)})


class FaultAdmin:
    def __init__(self, gate: FaultGate):
        self._gate = gate

    def handlers(self) -> dict[int, Handler]:
        return {OwnRequestCode.SET_FAULTS: self.set, OwnRequestCode.GET_FAULTS: self.get}

    def set(self, request: Request[Any], connection: Connection) -> bytes:
        """Sets all rules; if one is invalid, nothing changes."""
        wanted = loads_untrusted(request.body, FaultRules).rules
        if len(wanted) > RULES_MAX:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"{len(wanted)} rules are more than {RULES_MAX}")
        try:
            rules = [parse_rule(text) for text in wanted]
        except UsageError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self._gate.set_rules(rules)
        return self.get(request, connection)

    def get(self, request: Request[Any], connection: Connection) -> bytes:
        states = [FaultState(rule=fault.rule.text, hits=fault.hit_count) for fault in self._gate.active]
        return success(request, body=dumps(FaultStates(faults=states)))


class NoTestRequests:
    """Refuses the requests for tests if the store is kept: a test that reaches the wrong broker must not change it."""

    def handlers(self) -> dict[int, Handler]:
        return dict.fromkeys(OwnRequestCode, self.refuse)

    def refuse(self, request: Request[Any], connection: Connection) -> bytes:
        remark = "requests for tests are served where nothing is kept (no --data), or with --test-requests on"
        raise Refused(ResponseCode.NO_PERMISSION, remark)
