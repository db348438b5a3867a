"""The main job end to end: publish a year of flights, book the arrivals, look at the rest with ``rmqadmin``, redrive
the dead letters, count."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from quickstart.accounts import Accounts
from quickstart.broker import ReadyLine, embedded_broker
from quickstart.dashboard import save_picture
from quickstart.dead_letters import dead_letter_rows
from quickstart.flights import ROW_COUNT, read_flights
from quickstart.redrive import redrive
from quickstart.shell import Shell
from quickstart.traffic import Advance, book_arrivals, consume_rows, publish

TOPIC = "flights"
ARRIVALS = "arrivals"
RETRY_MAX_TIMES = "1"
TAIL_NUMBER = "N725MQ"  # the aircraft that flew most often: 575 times
SMALL_CARRIER, SMALL_CARRIER_FLIGHTS = "HA", 342  # Hawaiian Airlines
SMALL_GROUP = "hawaiian"
NO_ARRIVAL_TOPIC = "flights_no_arrival"
NO_ARRIVAL_GROUP = "cancellations"
PICTURE = Path("quickstart-dead-letters.svg")

T = TypeVar("T")


def main() -> int:
    argparse.ArgumentParser(prog="python -m quickstart", description=__doc__).parse_args()
    started_s = time.monotonic()
    with embedded_broker() as broker:
        print(f"A nameserver and a broker serve after {broker.ready_ms} ms, store and all.")
        problems = play(broker)
    if problems:
        print("\nNot everything adds up:", *problems, sep="\n  - ", file=sys.stderr)
        return 1
    print(f"\nAll {ROW_COUNT:,} flights accounted for, in {time.monotonic() - started_s:.0f} s.")
    return 0


def play(broker: ReadyLine) -> list[str]:
    """Plays the whole job on a running broker. Returns what does not add up."""
    shell = Shell(broker.namesrv_addr, broker.folder)
    namesrv = broker.namesrv_addr
    shell.show("updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", "8", "-w", "8")
    shell.show("updateSubGroup", "-c", "DefaultCluster", "-g", ARRIVALS, "-r", RETRY_MAX_TIMES)

    published = with_progress("publish", lambda advance: publish(namesrv, TOPIC, read_flights(), advance))
    shell.show("topicStatus", "-t", TOPIC)
    shell.show("queryMsgByKey", "-t", TOPIC, "-k", TAIL_NUMBER, "-m", "5")

    total = len(published.offered)
    consumed = with_progress("consume", lambda advance: book_arrivals(broker, TOPIC, ARRIVALS, total, advance))
    shell.show("consumerProgress", "-g", ARRIVALS)

    seen = small_group(namesrv)
    print(f"\nGroup {SMALL_GROUP} subscribes to tag {SMALL_CARRIER} alone: {seen} flights.")
    shell.show("resetOffset", "-g", SMALL_GROUP, "-t", TOPIC, "--to", "begin", "--dry-run")
    shell.show("resetOffset", "-g", SMALL_GROUP, "-t", TOPIC, "--to", "begin", "--yes")
    again = small_group(namesrv)
    print(f"\nAfter the reset the group is given them again: {again} flights.")

    dead = dead_letter_rows(broker, ARRIVALS)
    save_picture(broker, ARRIVALS, PICTURE)
    print(f"\nThe dashboard was opened, drilled to the dead letters of {ARRIVALS}, and saved as {PICTURE}.")
    redriven = redrive(shell, ARRIVALS, NO_ARRIVAL_TOPIC)
    taken = trio.run(consume_rows, namesrv, NO_ARRIVAL_TOPIC, NO_ARRIVAL_GROUP, "*", len(dead))
    print()

    stored = sum(row["max_offset"] - row["min_offset"] for row in shell.items("topicStatus", "-t", TOPIC))
    accounts = Accounts(published, stored, consumed, dead, redriven, taken)
    accounts.show()
    problems = accounts.problems()
    if total != ROW_COUNT:
        problems.append(f"{total} rows were read, but the year has {ROW_COUNT}")
    for count, when in ((seen, "before"), (again, "after")):
        if count != SMALL_CARRIER_FLIGHTS:
            problems.append(f"{SMALL_GROUP} was given {count} flights {when} the reset, not {SMALL_CARRIER_FLIGHTS}")
    return problems


def small_group(namesrv_addr: str) -> int:
    """How many flights the small carrier's group gets, from its committed offsets on."""
    return len(trio.run(consume_rows, namesrv_addr, TOPIC, SMALL_GROUP, SMALL_CARRIER, SMALL_CARRIER_FLIGHTS))


def with_progress(what: str, job: Callable[[Advance], Coroutine[Any, Any, T]]) -> T:
    """Runs one part of the traffic, with a progress bar on a terminal and a line of text elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    started_s = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=ROW_COUNT)

        async def run() -> T:
            return await job(lambda count: progress.advance(task, count))

        result = trio.run(run)
    took_s = time.monotonic() - started_s
    print(f"\n{what}: {ROW_COUNT:,} flights in {took_s:.1f} s, {ROW_COUNT / took_s:,.0f} a second", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
