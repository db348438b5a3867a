"""The gates that refuse for the sake of others: requests that come too fast (sends to and pulls from a topic, requests
of a user; behind the gate that authenticates), and those of a connection with too many unanswered ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Protocol

from rmqproto.codes import ResponseCode
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from rmqproto.wire.signing import ACCESS_KEY
from rmqserver.logs import Seldom
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.connection_state import ConnectionLimits
from rmqserver.remoting.counted_connection import CountedConnection
from rmqserver.remoting.gate import TakeOver
from rmqserver.request_rules import SERVED, CountsAs

SENDS = frozenset(code for code, row in SERVED.items() if row.counts_as is CountsAs.SEND)
PULLS = frozenset(code for code, row in SERVED.items() if row.counts_as is CountsAs.PULL)


class RateLimits(Protocol):
    """The broker's settings; they may change while it runs."""

    max_send_rate_per_topic: NamedRates
    max_pull_rate_per_topic: NamedRates
    max_request_rate_per_user: NamedRates


def has_rates(limits: RateLimits) -> bool:
    """Whether any rate is limited."""
    rates = (limits.max_send_rate_per_topic, limits.max_pull_rate_per_topic, limits.max_request_rate_per_user)
    return any(each.is_any for each in rates)


class RateGate:
    """For one service. Requests of ``unasked_codes`` count for no user: they need no authentication."""

    def __init__(
        self,
        limits: RateLimits,
        unasked_codes: frozenset[int] = frozenset(),
        clock_s: Callable[[], float] = time.monotonic,
    ):
        self._limits = limits
        self._unasked_codes = unasked_codes
        self._sends, self._pulls, self._users = Meter(clock_s), Meter(clock_s), Meter(clock_s)
        self._refusals = Refusals()

    @property
    def wants_ext(self) -> bool:
        return self._limits.max_request_rate_per_user.is_any

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        """Never takes a request over."""
        limits, code = self._limits, request.code
        if code in SENDS:
            self._check_topic(request, connection, self._sends, limits.max_send_rate_per_topic, "maxSendRatePerTopic")
        elif code in PULLS:
            self._check_topic(request, connection, self._pulls, limits.max_pull_rate_per_topic, "maxPullRatePerTopic")
        user, rates = ext.get(ACCESS_KEY), limits.max_request_rate_per_user
        if user is not None and code not in self._unasked_codes:
            rate = rates.by_name.get(user, rates.others)
            if rate and not self._users.takes(user, rate):
                self._refuse(connection, code, f"user {user}", rate, "maxRequestRatePerUser")
        return None

    def _check_topic(
        self, request: Request[Any], connection: Connection, meter: Meter, rates: NamedRates, setting: str
    ) -> None:
        topic = getattr(request.header, "topic", None)
        if topic is None:  # a later check refuses it
            return
        rate = rates.by_name.get(topic)
        if rate is None:
            is_inner = topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or is_system_topic(topic)
            rate = 0 if is_inner else rates.others
        if rate and not meter.takes(topic, rate):
            self._refuse(connection, request.code, f"topic {topic}", rate, setting)

    def _refuse(self, connection: Connection, code: int, name: str, rate: int, setting: str) -> NoReturn:
        answer = ResponseCode.FLOW_CONTROL if code in PULLS else ResponseCode.SYSTEM_BUSY
        remark = f"{REJECTED}: {name} has had its {rate} requests of this second ({setting})"
        self._refusals.refuse(connection, name, answer, remark)


BURST_S = 1.0
"""An unused rate may be used up at once, up to this long."""

RATE_MAX = 1_000_000
NAMES_MAX = 10_000
"""Names that a meter remembers. A new one replaces the name that was added first, whose rate then starts from zero."""

_ROUNDING_S = 1e-6


class NamedRates(NamedTuple):
    """Rates a second; 0 means no limit. ``others`` is the rate of each name that is not in ``by_name``."""

    others: int = 0
    by_name: Mapping[str, int] = MappingProxyType({})

    @property
    def is_any(self) -> bool:
        return bool(self.others or any(self.by_name.values()))


def parse_rates(text: str) -> NamedRates:
    """Parses ``1000``, ``orders=50;audit=10`` or ``1000;orders=50;audit=0``. ValueError for anything else."""
    others, by_name = 0, {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, number = (each.strip() for each in part.rpartition("="))
        if not (number.isascii() and number.isdecimal()) or int(number) > RATE_MAX or bool(name) != bool(equals):
            raise ValueError(f"must be 1000, or NAME=50, or several with ; between them, each {RATE_MAX} at most")
        if name:
            by_name[name] = int(number)
        else:
            others = int(number)
    return NamedRates(others, by_name)


class Meter:
    """Counts by name. A name that has used up its rate may continue when there is room again."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic):
        self._clock_s = clock_s
        self._used_until_s: dict[str, float] = {}
        """Until when each name has used its rate, if its requests had come evenly."""

    def takes(self, name: str, rate: int) -> bool:
        """Whether one more is within ``rate`` a second, which is above 0; if so, it is counted."""
        now_s = self._clock_s()
        until_s = max(self._used_until_s.get(name, now_s), now_s) + 1 / rate
        if until_s - now_s > BURST_S + _ROUNDING_S:
            return False
        if name not in self._used_until_s and len(self._used_until_s) >= NAMES_MAX:
            del self._used_until_s[next(iter(self._used_until_s))]
        self._used_until_s[name] = until_s
        return True


class InFlightGate:
    """Refuses a request on a connection with too many unanswered ones: sends that wait for the disk or a slave, pulls
    that wait for messages. It stands before all other gates, or requests that those refuse would be answered but not
    counted."""

    wants_ext = False

    def __init__(self, limits: ConnectionLimits):
        self._limits = limits
        self._refusals = Refusals()

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        """Never takes a request over."""
        if isinstance(connection, CountedConnection) and not request.is_oneway:
            connection.in_flight += 1  # refused requests too: they are answered
            most = self._limits.max_requests_in_flight_per_connection
            if 0 < most < connection.in_flight:
                why = f"{most} requests of this connection wait for their answers (maxRequestsInFlightPerConnection)"
                self._refusals.refuse(connection, connection.address, ResponseCode.SYSTEM_BUSY, f"{OVERLOAD}: {why}")
        return None


log = logging.getLogger(__name__)

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
REJECTED = "[REJECTREQUEST]system busy, start flow control for a while"

_REMARK_SHOWN_MAX_CHARS = 200


class Refusals:
    """Refuses in Apache's words, followed by what to do about it. Each refusal is logged seldom, by what is limited.

    Apache's broker refuses with 2 SYSTEM_BUSY when its own queues are full; its producers then try another broker. It
    never answers 215 FLOW_CONTROL, but its consumers know that code: they pull again after 20 ms, and after any other
    refusal only after 3 s. So pulls that come too fast are refused with 215."""

    def __init__(self) -> None:
        self._seldom = Seldom()

    def refuse(self, connection: Connection, name: str, code: int, remark: str) -> NoReturn:
        """Raises Refused. The connection rests, so a flood costs others no more than an occasional refusal."""
        connection.rest()
        if self._seldom.is_due(name):
            log.warning(
                "event=limited peer=%s code=%d reason=%r", connection.address, code, remark[:_REMARK_SHOWN_MAX_CHARS]
            )
        raise Refused(code, remark)
