"""``spark-replay``: sends dead letters and topics again, each message once. ``rmqreplay`` plans and audits,
``spark_tools.replay`` reads and sends; this module has its options, the output of a plan and a result, and progress on
standard error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import pairs
from rmqadmin.cli.options.common_options import option
from rmqadmin.cli.options.replay_options import (
    DeliveryOptions,
    GuardOptions,
    JobOptions,
    PaceOptions,
    RewriteOptions,
    SelectionOptions,
    SourceOptions,
    SparkOptions,
)
from rmqadmin.cli.replay_run import command_line, open_letters, run_job, session_options
from rmqadmin.core.files import read_text
from rmqadmin.core.messages.redriving import Replayed
from rmqproto.errors import UsageError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqreplay.plans.plan import Transform
    from rmqreplay.plans.request import ReplayRequest
    from rmqreplay.run.entry import ReplayOutcome
    from spark_tools.session import SessionOptions


def spark_replay(
    call: Call,
    source: SourceOptions,
    selection: SelectionOptions,
    rewrite: RewriteOptions,
    delivery: DeliveryOptions,
    work: JobOptions,
    pace: PaceOptions,
    guards: GuardOptions,
    spark: SparkOptions,
    follow: Annotated[
        bool, option("--follow", "With --job NAME: go on with what comes, job after job, until Ctrl-C.")
    ] = False,
) -> Replayed:
    """Shows what would be sent; with --execute, sends each message once, whatever crashes on the way. Needs pip install
    'rmqadmin[spark]'.

      rmqadmin spark-replay -n 127.0.0.1:9876 --dlq billing
      rmqadmin spark-replay --execute --job billing-1 -n 127.0.0.1:9876 --dlq billing --to topic:invoices_again --yes
      rmqadmin spark-replay --resume --job billing-1
      rmqadmin spark-replay --archive /data/archive -n 10.0.0.9:9876 --to same --job move --follow --execute --yes
    """
    from spark_tools.replay.entry import replay
    from spark_tools.session import check_installed

    files = _files(source)
    if source.open_dlq and (source.dlq is None or files is not None):
        raise UsageError("--open-dlq is for a group's dead letters on a broker (--dlq)")
    request = None
    if source.topics or source.dlq or source.archive:
        request = _request(call, source, files, selection, rewrite, delivery, pace, guards)
    check_installed()
    if source.open_dlq and source.dlq is not None:
        open_letters(call, source.dlq)
    options = session_options(spark)
    if not follow:
        return run_job(call, partial(replay, session=options), request, work=work, pace=pace, guards=guards)
    with following(call, options, executes=work.execute and not call.dry_run) as engine:
        return run_job(call, engine, request, work=work, pace=pace, guards=guards)


@contextmanager
def following(call: Call, options: SessionOptions, *, executes: bool) -> Iterator[Callable[..., ReplayOutcome]]:
    """The engine of --follow, in one session for all its jobs."""
    from rmqreplay.run.following import LOOK_EVERY_S, follow
    from spark_tools.replay.entry import replay
    from spark_tools.session import spark_session

    told = True

    def tell(outcome: ReplayOutcome | None) -> None:
        nonlocal told
        if outcome is not None and outcome.result is not None:
            told, result = False, outcome.result
            rejected = f", {result.rejected} rejected: {result.failures_path}" if result.rejected else ""
            call.notice(f"{result.job}: {counted(result.delivered_total, 'message')} sent{rejected}")
        elif not told:
            told = True
            call.notice(f"everything is sent; looking for more every {LOOK_EVERY_S:.0f} s")

    if not executes:
        yield partial(follow, partial(replay, session=options))
        return
    call.notice("starting Spark, which takes some seconds")
    with spark_session(options, call.notice) as session:
        yield partial(follow, partial(replay, spark=session), on_round=tell)


def _request(
    call: Call,
    source: SourceOptions,
    files: str | None,
    selection: SelectionOptions,
    rewrite: RewriteOptions,
    delivery: DeliveryOptions,
    pace: PaceOptions,
    guards: GuardOptions,
) -> ReplayRequest:
    """The request that the options describe."""
    from rmqreplay.plans.plan import Selection, wave_messages_for
    from rmqreplay.plans.request import ReplayRequest, parse_offsets

    between, access = source.between(call.now_ms(), call.notice), call.settings.access()
    if delivery.order not in (None, "queue"):
        raise UsageError(f"--order {delivery.order}: only the order within a queue can be kept (--order queue)")
    ids = [] if selection.ids is None else read_text(selection.ids, f"--ids {selection.ids}").splitlines()
    return ReplayRequest(
        name_server=None if files else ";".join(call.namesrv_addrs),
        path=files,
        broker_name=source.broker_name,
        topics=source.topics or [],
        dlq_group=source.dlq,
        queues=source.queues or [],
        start_ms=between.begin_ms,
        end_ms=between.end_ms,
        start_text=source.start,
        end_text=source.end,
        offsets=None if source.offsets is None else parse_offsets(source.offsets),
        from_group=source.from_group,
        limit=source.limit,
        canary=guards.canary,
        at_least_once=delivery.at_least_once,
        selection=Selection(
            where=selection.where,
            reconsume_times_min=selection.reconsume_min,
            ids=[line.strip() for line in ids if line.strip()],
            **selection.as_conditions(),
        ),
        transform=_transform(source, rewrite, delivery, guards),
        to=delivery.to,
        target_name_server=delivery.target_namesrv or _target_of_files(call, files, delivery.to),
        keep_order=delivery.order == "queue",
        dedup=guards.dedup,
        dedup_keep=guards.dedup_keep,
        skip_redriven=guards.skip_redriven,
        wave_messages=pace.wave or wave_messages_for(pace.rate),
        command=command_line(access["credentials"]),
        **access,
        client=call.connections,
    )


def _files(source: SourceOptions) -> str | None:
    """The directory to read from, if it is not a cluster. UsageError if it is not what its option says."""
    from rmqreplay.source.archive_manifest import is_archive

    if source.archive is not None and source.store is not None:
        raise UsageError("the messages come either from a store (--store) or from an archive (--archive)")
    if source.archive is not None and not is_archive(source.archive):
        raise UsageError(f"--archive {source.archive} holds no archive", hint="rmqadmin spark-archive makes one")
    if source.store is not None and is_archive(source.store):
        raise UsageError(f"--store {source.store} is an archive", hint="--archive reads it")
    return source.archive or source.store


def _transform(
    source: SourceOptions, rewrite: RewriteOptions, delivery: DeliveryOptions, guards: GuardOptions
) -> Transform:
    from rmqreplay.plans.plan import Transform
    from rmqreplay.plans.user_function import find_function

    return Transform(
        set_properties=pairs("--set-property", rewrite.set_properties),
        unset_properties=rewrite.unset_properties or [],
        set_tag=rewrite.set_tag,
        body_expression=rewrite.body_expr,
        function=find_function(delivery.transform, os.getcwd()) if delivery.transform is not None else None,
        new_ids=delivery.new_ids,
        park_topic=guards.park_topic,
        delay_level=delivery.delay_level,
        redrives_max=guards.redrives_max if source.dlq and not _is_file(delivery.to) else None,
    )


def _is_file(to: str | None) -> bool:
    return to is not None and to.startswith("file:")


def _target_of_files(call: Call, files: str | None, to: str | None) -> str | None:
    """The name servers to send to: with --store or --archive, -n names the target."""
    if files is None or _is_file(to) or not call.is_namesrv_given:
        return None
    return ";".join(call.namesrv_addrs)
