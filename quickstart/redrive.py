"""Dead letters redriven with Spark: looked at first, then done, then tried once more for nothing."""

from __future__ import annotations

from dataclasses import dataclass

from quickstart.shell import Shell


@dataclass(frozen=True, slots=True)
class Redriven:
    """What the redrive says of itself, and how much the same redrive sent when it was done once more."""

    delivered: int
    audited: int
    missing: int
    doubled: int
    again_delivered: int


def redrive(shell: Shell, group: str, topic: str) -> Redriven:
    """Sends the group's dead letters to ``topic``, marked; CalledProcessError where a command fails."""
    words = ("spark-replay", "--dlq", group, "--set-property", "status=no-arrival", "--to", f"topic:{topic}")
    shell.show("updateTopic", "-c", "DefaultCluster", "-t", topic)
    shell.show(*words)
    totals = shell.show_summary(*words, "--execute", "--yes", "--audit")
    again = shell.show_summary(*words, "--execute", "--yes")
    return Redriven(
        delivered=totals["delivered"],
        audited=totals["audited"],
        missing=totals["missing"],
        doubled=totals["doubled"],
        again_delivered=again["delivered"],
    )
