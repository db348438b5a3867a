"""The values of settings: how each kind is parsed, and what is refused.

Parsers raise ValueError for a value that Apache's server could not parse, and Unusable for one that it would accept but
ours cannot work with.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

from rmqproto.hosts import NAMESRV_PORT, is_port, not_a_port, with_port
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX, decimal_number
from rmqserver.config.guards import VALUE_SHOWN_MAX
from rmqserver.limits import NamedRates, parse_rates
from rmqserver.store.options import FlushMode

MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
TIME_MAX_MS = 253_402_214_400_000
"""The last day of the year 9999. Later times cannot be written as a date."""

TIMER_PRECISIONS_MS = (100, 200, 500, 1000)
DELAY_LEVELS_MAX = 256
"""Each level is a queue that is read ten times a second."""


class BrokerRole(enum.Enum):
    """Whether a broker takes messages, and whether producers wait for slaves (``BrokerRole``, 5.5.0)."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class Unusable(ValueError):
    """A value that Apache's server would accept but ours cannot work with."""


def parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def parse_long(text: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]{1,19}", text) or not -LONG_MAX - 1 <= int(text) <= LONG_MAX:
        raise ValueError("must be a whole number")
    return int(text)


def parse_int(text: str) -> int:
    if not -INT_MAX - 1 <= parse_long(text) <= INT_MAX:
        raise ValueError(f"must be a whole number, {INT_MAX} at most")
    return int(text)


def between(low: int, high: int) -> Callable[[str], int]:
    """A parser of numbers in the range, for keys whose type was checked before."""

    def parse(text: str) -> int:
        if not low <= int(text) <= high:
            raise Unusable(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def parse_received_max_bytes(text: str) -> int:
    """A limit that leaves room for one read."""
    return between(1 << 20, INT_MAX)(text) if int(text) else 0


def parse_named_rates(text: str) -> NamedRates:
    try:
        return parse_rates(text)
    except ValueError as error:
        raise Unusable(str(error)) from None


parse_positive = between(1, INT_MAX)
parse_period_ms = between(10, MILLISECONDS["d"])
"""Limits of a task's sleep. A shorter sleep would take processor time from the clients. After a longer one, a corrected
setting would not take effect for hours."""


def parse_float(text: str) -> float:
    found = decimal_number(text)
    if found is None:
        raise ValueError("must be a number")
    return found


def parse_flush_mode(text: str) -> FlushMode:
    if text not in {mode.value for mode in FlushMode}:
        raise ValueError("must be ASYNC_FLUSH or SYNC_FLUSH")
    return FlushMode(text)


def parse_role(text: str) -> BrokerRole:
    if text not in {role.value for role in BrokerRole}:
        raise ValueError("must be ASYNC_MASTER, SYNC_MASTER or SLAVE")
    return BrokerRole(text)


def parse_delay_levels_ms(text: str) -> tuple[int, ...]:
    levels = text.split()
    if not 0 < len(levels) <= DELAY_LEVELS_MAX or not all(re.fullmatch(r"[0-9]{1,9}[smhd]", one) for one in levels):
        raise Unusable(f"must be times such as 1s 5s 2m 1h, {DELAY_LEVELS_MAX} at most")
    return tuple(int(level[:-1]) * MILLISECONDS[level[-1]] for level in levels)


def parse_timer_precision_ms(text: str) -> int:
    """The next of Apache's values below, or the smallest (``MessageStoreConfig.setTimerPrecisionMs``, 5.5.0)."""
    return max([known for known in TIMER_PRECISIONS_MS if known <= int(text)], default=TIMER_PRECISIONS_MS[0])


def parse_hours(text: str) -> tuple[int, ...]:
    hours = text.split(";")
    if not all(re.fullmatch(r"[01]?[0-9]|2[0-3]", hour) for hour in hours):
        raise Unusable("must be hours such as 04 or 04;16")
    return tuple(map(int, hours))


def parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def parse_addresses(text: str) -> tuple[str, ...]:
    addresses = parse_list(text)
    if not all(re.fullmatch(r"(\[.+\]|[^:]+):[0-9]+", address) for address in addresses):
        raise Unusable("must be HOST:PORT, or several with ; between them")
    _check_ports(addresses)
    return addresses


def parse_namesrvs(text: str) -> tuple[str, ...]:
    """As ``parse_addresses``; an address without a port gets that of a name server."""
    return parse_addresses(";".join(with_port(part, NAMESRV_PORT) for part in parse_list(text)))


def _check_ports(addresses: tuple[str, ...]) -> None:
    ports = [address.rpartition(":")[2] for address in addresses]
    if wrong := [port for port in ports if not is_port(port)]:
        raise Unusable(not_a_port(wrong[0]))


def parse_host(text: str) -> str:
    """A host where its port is another setting: one with a colon is an IPv6 address."""
    host, colon, port = parse_text(text).rpartition(":")
    if colon and ":" not in host and not host.startswith("["):
        raise Unusable(f"must be a host without a port; {port!r} is another setting")
    return text


def parse_urls(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_peers(text: str) -> tuple[str, ...]:
    peers = parse_list(text)
    if not all(re.fullmatch(r"[^-;:]+-(\[.+\]|[^:]+):[0-9]+", peer) for peer in peers):
        raise Unusable("must be ID-HOST:PORT, or several with ; between them")
    _check_ports(peers)
    return peers


def parse_permission(text: str) -> int:
    if int(text) not in (2, 4, 6):
        raise Unusable("must be 2 (write), 4 (read) or 6 (both)")
    return int(text)


def parse_request_mode(text: str) -> str:
    if text not in ("PULL", "POP"):
        raise ValueError("must be PULL or POP")
    return text


def parse_metrics_exporter(text: str) -> str:
    if text in ("OTLP_GRPC", "LOG"):
        raise Unusable("must be DISABLE or PROM: this server does not push metrics")
    if text not in ("DISABLE", "PROM"):
        raise ValueError("must be DISABLE or PROM")
    return text


def parse_text(text: str) -> str:
    """Names go into the properties of every message (region, cluster), and the separators there are control
    characters."""
    if any(character < " " for character in text):
        raise Unusable("must be text without control characters")
    return text


PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": parse_bool,
    "int": parse_int,
    "long": parse_long,
    "float": parse_float,
    "text": parse_text,
}


def shown(text: str) -> str:
    """A value as an error shows it: short, and without characters that a terminal would interpret."""
    printable = "".join(one if one.isprintable() else "?" for one in text[:VALUE_SHOWN_MAX])
    return printable if len(text) <= VALUE_SHOWN_MAX else f"{printable}..."
