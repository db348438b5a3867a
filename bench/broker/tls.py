"""Rates over TLS, compared with Apache's over TLS, and with our own without it. Both servers make their own certificate
at the start, as Apache's does by default, and use the newest version and ciphers that both sides have."""

from __future__ import annotations

from contextlib import ExitStack

from bench.harness import table
from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Load, seed
from bench.harness.rows import row
from bench.harness.servers import apache, ours

ROWS = ("send 64 x 1, 128 B", "send 64 x 1, 1 KiB", "pull 32, 8 x 1, 128 B")
RATIO = 1.5
SETTINGS = ("tls.test.mode.enable=true",)
"""The server also takes plain connections."""


def take(plain: Load, extent: Extent) -> list[Figure]:
    """``plain`` is the generator without TLS."""
    with ExitStack() as stack:
        load = Load(with_tls=True)
        stack.callback(load.close)
        brokers = [stack.enter_context(apache())] if extent.with_apache else []
        brokers.append(stack.enter_context(ours(settings=SETTINGS)))
        for broker in brokers:
            seed(broker)
        wanted = [row(name) for name in ROWS]
        secured = table.take(load, brokers, wanted, extent.rounds, extent.seconds, "ours")
        unsecured = table.take(plain, brokers[-1:], wanted, extent.rounds, extent.seconds, "ours")
    by_tls = {(line["row"], line["broker"]): line for line in secured}
    found = []
    for without in unsecured:
        mine = by_tls[without["row"], "ours"]
        if extent.with_apache:
            theirs = by_tls[without["row"], "apache"]
            found.append(_figure(mine, theirs, "Apache's by TLS", ratio_at_least=RATIO))
        found.append(_figure(mine, without, "ours without"))
    return found


def _figure(mine: table.Line, beside: table.Line, beside_name: str, ratio_at_least: float | None = None) -> Figure:
    per_s, beside_per_s = mine["messages_per_s"] / 1000, beside["messages_per_s"] / 1000
    errors = mine["errors"] + beside["errors"]
    name = f"{mine['row']}, by TLS"
    return Figure(name, "k/s", per_s, beside_per_s, beside_name, ratio_at_least=ratio_at_least, errors=errors)
