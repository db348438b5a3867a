"""What the health commands share: two clients with a deadline, and the options for samples."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import OF_CONTEXT
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core import targets
from rmqadmin.core.health.plugin_text import Quantity, Thresholds, parse_thresholds
from rmqproto.errors import ConnectError, NotFoundError

if TYPE_CHECKING:
    from rmqadmin.core.deadline_client import DeadlineClient
    from rmqadmin.core.health.facts import ClusterFacts

DEADLINE_TIMEOUTS = 6
"""The deadline for all questions together, in time-outs of one question."""

MEMBER_WAIT_MAX_S = 2.0
"""The longest wait for one client of a group. Its broker would wait 10 s."""

Sample = Annotated[
    float,
    Value.SECONDS,
    option(
        "--sample",
        "Time between two readings of a lagging group's offsets; 0: read once. Clients commit every 5 s.",
        min=0,
        max=600,
    ),
]


@contextmanager
def health_clients(call: Call, *, pause_s: float = 0.0) -> Iterator[tuple[DeadlineClient, DeadlineClient]]:
    """Two clients: one asks servers, the other asks clients of groups. Both have a deadline, in which ``pause_s`` does
    not count."""
    from rmqadmin.core.deadline_client import DeadlineClient

    admin = call.new_client(DeadlineClient, read_only=True)
    members = call.new_client(DeadlineClient, read_only=True)
    members.answer_wait_max_s = MEMBER_WAIT_MAX_S
    with admin, members:
        for client in (admin, members):
            client.begin(DEADLINE_TIMEOUTS * client.timeout_s + pause_s)
            call.tell_silence(client.connections)
        yield admin, members


_THRESHOLD = "if a value is above this; separate several by commas."
Warning = Annotated[str | None, option("-w", "--warning", f"Status 1 {_THRESHOLD}", metavar="THRESHOLD[,...]")]
Critical = Annotated[str | None, option("-c", "--critical", f"Status 2 {_THRESHOLD}", metavar="THRESHOLD[,...]")]
Groups = Annotated[list[str] | None, Value.GROUP, option("-g", "--group", "This group. Repeatable. Default: all.")]
BrokerNames = Annotated[
    list[str] | None, Value.NAME, option("-b", "--broker", "This broker, by name or address. Repeatable. Default: all.")
]
LongCluster = Annotated[
    str | None, OF_CONTEXT, Value.CLUSTER, option("--cluster", "This cluster only; default: all, or the context's.")
]


def limits(
    warning: str | None, critical: str | None, known: Collection[Quantity], default: tuple[str | None, str | None]
) -> tuple[Thresholds, Thresholds]:
    """The thresholds of ``-w`` and ``-c``; if neither is given, the defaults. UsageError."""
    if warning is None and critical is None:
        warning, critical = default
    return (
        {} if warning is None else parse_thresholds(warning, "--warning", known),
        {} if critical is None else parse_thresholds(critical, "--critical", known),
    )


def require_answer(facts: ClusterFacts, cluster: str | None, *, brokers_too: bool = True) -> None:
    """ConnectError if no name server answers, NotFoundError if none of them knows the cluster or any broker: without
    answers, a check must not report that all is well."""
    if not facts.answering:
        raise ConnectError("; ".join(namesrv.error or namesrv.addr for namesrv in facts.namesrvs))
    known = {name for one in facts.answering if one.cluster for name in one.cluster.cluster_addr_table}
    if known and cluster is not None and cluster not in known:
        raise targets.not_there("cluster", cluster, known)
    if brokers_too and not facts.brokers:
        raise NotFoundError(targets.NO_BROKER, hint=targets.NO_BROKER_HINT)
