"""Dead letters redriven with Spark: looked at first, then done, then tried once more for nothing."""

from __future__ import annotations

from dataclasses import dataclass

from quickstart.shell import Shell

NOTHING_SELECTED = 5


@dataclass(frozen=True, slots=True)
class Redriven:
    """What the redrive says of itself; ``again_status`` is the exit status of the same redrive done twice."""

    delivered: int
    audited: int
    missing: int
    doubled: int
    again_status: int


def redrive(shell: Shell, group: str, topic: str) -> Redriven:
    """Sends the group's dead letters to ``topic``, marked; CalledProcessError where a command fails."""
    words = ("spark-replay", "--dlq", group, "--set-property", "status=no-arrival", "--to", f"topic:{topic}")
    shell.show("updateTopic", "-c", "DefaultCluster", "-t", topic)
    shell.show(*words)
    totals = shell.show_summary(*words, "--execute", "--yes", "--audit")
    again = shell.status(*words, "--execute", "--yes")
    return Redriven(totals["delivered"], totals["audited"], totals["missing"], totals["doubled"], again)
