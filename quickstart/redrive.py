"""A redrive of dead letters with Spark: first a dry run as a command, then what it showed in the session of the other
jobs, then the same redrive again, which sends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quickstart.broker import ReadyLine
from quickstart.shell import Shell
from rmqreplay.plans.plan import Transform
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.entry import Runner
from rmqreplay.run.job import ReplayResult, RunOptions
from spark_tools.replay.entry import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "no-arrival"
STATUS = "no-arrival"


@dataclass(frozen=True, slots=True)
class Redriven:
    """What the redrive reported, and how much the same redrive sent the second time."""

    delivered: int
    audited: int
    missing: int
    doubled: int
    again_delivered: int


def redrive(spark: SparkSession, shell: Shell, broker: ReadyLine, group: str, topic: str) -> Redriven:
    """Redrives the group's dead letters to ``topic``, with a property that marks them. CalledProcessError if a command
    fails."""
    to = f"topic:{topic}"
    shell.show("updateTopic", "-c", "DefaultCluster", "-t", topic)
    shell.show("spark-replay", "--dlq", group, "--set-property", f"status={STATUS}", "--to", to, "--job", JOB)
    runner = Runner(ledger_root=str(shell.ledgers), run=RunOptions(audit=True))
    first = replay(job=JOB, runner=runner, execute=True, spark=spark).result
    request = ReplayRequest(
        name_server=broker.namesrv_addr, dlq_group=group, to=to, transform=Transform(set_properties={"status": STATUS})
    )
    again = replay(request, runner, execute=True, spark=spark).result
    assert first is not None
    assert first.audit is not None
    assert again is not None
    _show("The redrive", first)
    _show("The same redrive again", again)
    return Redriven(
        delivered=first.delivered_total,
        audited=first.audit.found,
        missing=first.audit.missing,
        doubled=first.audit.doubled,
        again_delivered=again.delivered_total,
    )


def _show(what: str, result: ReplayResult) -> None:
    print(f"{what}: {result.delivered_total:,} sent, {result.excluded:,} sent before, in {result.seconds:.0f} s.")
