"""A redrive of dead letters with Spark: first a dry run, then the redrive, then the same redrive again, which sends
nothing."""

from __future__ import annotations

from dataclasses import dataclass

from quickstart.shell import Shell


@dataclass(frozen=True, slots=True)
class Redriven:
    """What the redrive reported, and how much the same redrive sent the second time."""

    delivered: int
    audited: int
    missing: int
    doubled: int
    again_delivered: int


def redrive(shell: Shell, group: str, topic: str) -> Redriven:
    """Redrives the group's dead letters to ``topic``, with a property that marks them. CalledProcessError if a command
    fails."""
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
