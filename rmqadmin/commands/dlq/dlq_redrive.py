"""``dlq redrive``: sends a group's dead letters again, each once, from this process. ``rmqreplay`` does the work;
plan, ledger and guarantee are those of ``spark-replay``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.letters_request import letters_request
from rmqadmin.cli.options.replay_options import GuardOptions, JobOptions, LetterOptions, Limit, OpenDlq, PaceOptions
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.open_letters import open_letters
from rmqadmin.cli.shared.replay_run import run_job
from rmqadmin.core.messages.dead_letters import check_group
from rmqadmin.core.messages.replayed import Replayed
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqreplay.plans.plan import Plan
    from rmqreplay.plans.request import ReplayRequest

SPARK_IS_FASTER_MESSAGES = 200_000
"""Above this number, Spark is faster on two cores despite its slow start (docs/performance.md)."""


def dlq_redrive(
    call: Call,
    letters: LetterOptions,
    work: JobOptions,
    pace: PaceOptions,
    guards: GuardOptions,
    group: Annotated[
        str | None,
        Value.GROUP,
        typer.Argument(metavar="[GROUP]", help="Whose dead letters. Not needed with --job or --resume."),
    ] = None,
    to: Annotated[
        str | None,
        Value.NAME,
        typer.Option(
            "--to",
            metavar="group|same|topic:NAME",
            help="Default: group, GROUP alone. same: the origin topic, which reaches every group that reads it.",
        ),
    ] = None,
    limit: Limit = None,
    open_dlq: OpenDlq = False,
) -> Replayed:
    """Shows what would be sent; with --execute, sends each message once, whatever crashes on the way. Does the same as
    spark-replay, but in this process alone: it starts at once, and is slower for very many messages. --resume continues
    an interrupted job.

    Examples:
      rmqadmin dlq redrive billing
      rmqadmin dlq redrive billing --jsonpath '$.type=refund' --execute
      rmqadmin dlq redrive billing --to same
    """
    from rmqreplay.run.entry import redrive

    if group is not None:
        check_group(group)
    if to is not None and to.startswith("file:"):
        raise UsageError(
            "dlq redrive sends messages; it writes no file",
            hint=f"`rmqadmin msg export '%DLQ%{group or 'GROUP'}' FILE` does, and spark-replay --to file:PATH",
        )

    def propose_spark(plan: Plan) -> None:
        if plan.shown.get("selected", 0) > SPARK_IS_FASTER_MESSAGES:
            call.notice(f"spark-replay sends this many faster: rmqadmin spark-replay --execute --job {plan.job}")

    if open_dlq:
        if group is None:
            raise UsageError("--open-dlq needs the group whose dead letters it opens")
        open_letters(call, group)
    request = None if group is None else _request(call, group, letters, pace, guards, to, limit)
    return run_job(call, redrive, request, work=work, pace=pace, guards=guards, on_plan=propose_spark)


def _request(
    call: Call,
    group: str,
    letters: LetterOptions,
    pace: PaceOptions,
    guards: GuardOptions,
    to: str | None,
    limit: int | None,
) -> ReplayRequest:
    from rmqreplay.plans.plan import Transform, wave_messages_for

    return replace(
        letters_request(call, group, letters),
        to=to,
        limit=limit,
        transform=Transform(redrives_max=guards.redrives_max, park_topic=guards.park_topic),
        dedup=guards.dedup,
        dedup_keep=guards.dedup_keep,
        skip_redriven=guards.skip_redriven,
        canary=guards.canary,
        wave_messages=pace.wave or wave_messages_for(pace.rate),
    )
