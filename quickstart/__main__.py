"""The main job end to end: publish a year of flights from Spark, book the arrivals while a stream counts them by hour,
look at the rest with ``rmqadmin`` and Spark, redrive the dead letters, count."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from quickstart.accounts import Accounts
from quickstart.arrivals import ArrivalsByHour, show_hours
from quickstart.broker import ReadyLine, embedded_broker
from quickstart.dashboard import save_picture
from quickstart.dead_letters import DeadLetters, show_causes
from quickstart.flights import ROW_COUNT, flights_as_messages
from quickstart.redrive import redrive
from quickstart.shell import Shell
from quickstart.traffic import Advance, book_arrivals, consume_rows, publish
from spark_tools.session import SessionOptions, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "flights"
ARRIVALS = "arrivals"
HOURS = "arrivals_by_hour"
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
        with spark_session(SessionOptions(is_short=True), lambda step: print(f"\n{step}.", flush=True)) as spark:
            print(f"One Spark session serves for all that follows, after {time.monotonic() - started_s:.0f} s.")
            problems = play(broker, spark)
    if problems:
        print("\nNot everything adds up:", *problems, sep="\n  - ", file=sys.stderr)
        return 1
    print(f"\nAll {ROW_COUNT:,} flights accounted for, in {time.monotonic() - started_s:.0f} s.")
    return 0


def play(broker: ReadyLine, spark: SparkSession) -> list[str]:
    """Plays the whole job on a running broker. Returns what does not add up."""
    shell = Shell(broker.namesrv_addr, broker.folder)
    namesrv = broker.namesrv_addr
    shell.show("updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", "8", "-w", "8")
    shell.show("updateSubGroup", "-c", "DefaultCluster", "-g", ARRIVALS, "-r", RETRY_MAX_TIMES)
    shell.show("updateSubGroup", "-c", "DefaultCluster", "-g", HOURS)

    flights = flights_as_messages(spark)
    with_progress("publish", lambda advance: publish(broker, TOPIC, flights, advance))
    shell.show("topicStatus", "-t", TOPIC)
    shell.show("queryMsgByKey", "-t", TOPIC, "-k", TAIL_NUMBER, "-m", "5")

    total = flights.count()
    by_hour = ArrivalsByHour(spark, broker, TOPIC, HOURS)
    consumed = with_progress(
        "consume", lambda advance: trio.run(book_arrivals, broker, TOPIC, ARRIVALS, total, advance)
    )
    hours = {row.hour: row["count"] for row in by_hour.finish().collect()}
    shell.show("consumerProgress", "-g", ARRIVALS)
    shell.show("consumerProgress", "-g", HOURS)
    print("\nThe stream counted the arrivals by hour of the day:")
    show_hours(hours)

    seen = small_group(namesrv)
    print(f"\nGroup {SMALL_GROUP} subscribes to tag {SMALL_CARRIER} alone: {seen} flights.")
    shell.show("resetOffset", "-g", SMALL_GROUP, "-t", TOPIC, "--to", "begin", "--dry-run")
    shell.show("resetOffset", "-g", SMALL_GROUP, "-t", TOPIC, "--to", "begin", "--yes")
    again = small_group(namesrv)
    print(f"\nAfter the reset the group is given them again: {again} flights.")

    letters = DeadLetters(spark, broker, ARRIVALS)
    dead, causes = letters.rows(), letters.causes().collect()
    print("\nWhy these flights could not be booked:")
    show_causes(causes)
    save_picture(broker, ARRIVALS, PICTURE)
    print(f"\nThe dashboard was opened, drilled to the dead letters of {ARRIVALS}, and saved as {PICTURE}.")
    redriven = redrive(spark, shell, broker, ARRIVALS, NO_ARRIVAL_TOPIC)
    taken = trio.run(consume_rows, namesrv, NO_ARRIVAL_TOPIC, NO_ARRIVAL_GROUP, "*", len(dead))
    print()

    stored = sum(row["max_offset"] - row["min_offset"] for row in shell.items("topicStatus", "-t", TOPIC))
    with_cause = sum(cause.flights for cause in causes)
    accounts = Accounts(total, stored, consumed, sum(hours.values()), dead, with_cause, redriven, taken)
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


def with_progress(what: str, job: Callable[[Advance], T]) -> T:
    """Runs one part of the traffic, with a progress bar on a terminal and a line of text elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    started_s = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=ROW_COUNT)
        result = job(lambda count: progress.advance(task, count))
    took_s = time.monotonic() - started_s
    print(f"\n{what}: {ROW_COUNT:,} flights in {took_s:.1f} s, {ROW_COUNT / took_s:,.0f} a second", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
