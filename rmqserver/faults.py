"""Makes requests go wrong by rules. It is a gate before the handlers, and only there while there are rules.

It cannot make inner operations (files, flushes) go wrong. A delayed request waits here and is handled later, as if it
had come later.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from rmqproto.bodies.own_requests import FaultRules, FaultState, FaultStates
from rmqproto.codes import ONEWAY_FLAG, OwnRequestCode, ResponseCode
from rmqproto.errors import UsageError
from rmqproto.fault_rules import FaultRule, parse_rule
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.gate import GatePlace, GoOn, TakeOver
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Handler, Service

log = logging.getLogger(__name__)

HELD_MAX = 10_000
"""Limit of delayed requests. Further ones pass without delay."""


class ActiveFault:
    """A rule and the number of its hits."""

    def __init__(self, rule: FaultRule):
        self.rule = rule
        self.hit_count = 0

    def hits(self, header: object) -> bool:
        """Whether the rule applies to this request; if so, the hit is counted."""
        rule = self.rule
        if rule.count is not None and self.hit_count >= rule.count:
            return False
        if rule.topic is not None and getattr(header, "topic", None) != rule.topic:
            return False
        if rule.group is not None and _group_of(header) != rule.group:
            return False
        if rule.share < 1 and random.random() >= rule.share:
            return False
        self.hit_count += 1
        return True


class FaultGate:
    """The gate of the services that it guards, while there are rules. ``run`` is a task."""

    wants_ext = False

    def __init__(self, loop: Loop, spared_codes: frozenset[int] = frozenset()):
        """Requests of ``spared_codes`` always pass: they include those that remove the rules."""
        self.active: list[ActiveFault] = []
        self._loop = loop
        self._services: Sequence[Service] = ()
        self._spared_codes = spared_codes
        self._held: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._has_news = trio.Event()

    def guard(self, services: Sequence[Service]) -> None:
        """Guards these services, and no longer the previous ones."""
        self._services = services
        for service in services:
            service.use_gate(GatePlace.FAULTS, self if self.active else None)

    def set_rules(self, rules: Sequence[FaultRule]) -> None:
        """Replaces the rules; without rules nothing goes wrong any more. Delayed requests stay delayed."""
        self.active = [ActiveFault(rule) for rule in rules]
        for service in self._services:
            service.use_gate(GatePlace.FAULTS, self if rules else None)
        log.warning("event=faults-set rules=%r", [rule.text for rule in rules])

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        """The first rule that applies decides."""
        if request.code in self._spared_codes:
            return None
        for fault in self.active:
            if (not fault.rule.codes or request.code in fault.rule.codes) and fault.hits(request.header):
                return self._taken(fault.rule, request, connection)
        return None

    def _taken(self, rule: FaultRule, request: Request[Any], connection: Connection) -> TakeOver | None:
        if rule.lose_answer:
            request.flag |= ONEWAY_FLAG  # a oneway request gets no answer
        if rule.delay_ms and len(self._held) < HELD_MAX:
            request.body = bytes(request.body)  # the loop reads the next bytes into the same buffer
            return lambda go_on: self._hold(rule, connection, go_on)
        if rule.error is not None:
            raise Refused(rule.error, rule.remark)
        if rule.drop or rule.disconnect:
            return lambda go_on: _end(rule, connection, go_on)
        return None

    def _hold(self, rule: FaultRule, connection: Connection, go_on: GoOn) -> None:
        due_s = trio.current_time() + rule.delay_ms / 1000
        heapq.heappush(self._held, (due_s, next(self._numbers), lambda: _end(rule, connection, go_on)))
        self._has_news.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            with trio.move_on_at(self._held[0][0] if self._held else math.inf):
                await self._has_news.wait()
            self._has_news = trio.Event()
            while self._held and self._held[0][0] <= trio.current_time():
                heapq.heappop(self._held)[2]()
                self._loop.wake()  # starts a round, which stores and answers


def _end(rule: FaultRule, connection: Connection, go_on: GoOn) -> None:
    """Ends a request that did not pass at once."""
    if rule.disconnect:
        connection.close(rule.remark)
    elif not rule.drop and not connection.closed:
        go_on(Refused(rule.error, rule.remark) if rule.error is not None else None)


def _group_of(header: object) -> str | None:
    for name in ("consumer_group", "group", "producer_group"):
        group = getattr(header, name, None)
        if group:
            return str(group)
    return None


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
