"""``spark-replay``: sends dead letters and topics again, each message once. ``rmqreplay`` plans and audits,
``spark_tools.replay`` reads and sends; this module has its options, the output of a plan and a result, and progress on
standard error."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import pairs
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
from rmqadmin.cli.shared.open_letters import open_letters
from rmqadmin.cli.shared.replay_run import command_line, run_job
from rmqadmin.cli.shared.spark_start import session_options
from rmqadmin.core.messages.replayed import Replayed
from rmqadmin.core.user_files import read_text
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqreplay.plans.plan import Transform
    from rmqreplay.plans.request import ReplayRequest


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
) -> Replayed:
    """Shows what would be sent; with --execute, sends each message once, whatever crashes on the way. Needs pip install
    'rmqadmin[spark]'.

    Examples:
      rmqadmin spark-replay -n 127.0.0.1:9876 --dlq billing
      rmqadmin spark-replay --execute --job billing-1 -n 127.0.0.1:9876 --dlq billing --to topic:invoices_again --yes
      rmqadmin spark-replay --resume --job billing-1
    """
    from spark_tools.replay.entry import replay
    from spark_tools.session import check_installed

    check_installed()
    if source.open_dlq:
        if source.dlq is None or source.store is not None:
            raise UsageError("--open-dlq is for a group's dead letters on a broker (--dlq)")
        open_letters(call, source.dlq)
    request = None
    if source.topics or source.dlq:
        request = _request(call, source, selection, rewrite, delivery, pace, guards)
    engine = partial(replay, session=session_options(spark))
    return run_job(call, engine, request, work=work, pace=pace, guards=guards)


def _request(
    call: Call,
    source: SourceOptions,
    selection: SelectionOptions,
    rewrite: RewriteOptions,
    delivery: DeliveryOptions,
    pace: PaceOptions,
    guards: GuardOptions,
) -> ReplayRequest:
    """The request that the options describe."""
    from rmqreplay.plans.plan import Selection, wave_messages_for
    from rmqreplay.plans.request import ReplayRequest, parse_offsets

    between, credentials = source.between(call.now_ms(), call.notice), call.settings.credentials()
    return ReplayRequest(
        name_server=None if source.store else ";".join(call.namesrv_addrs),
        path=source.store,
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
            ids=_read_ids(selection.ids),
            **selection.as_conditions(),
        ),
        transform=_transform(source, rewrite, delivery, guards),
        to=delivery.to,
        target_name_server=delivery.target_namesrv or _target_of_store(call, source.store, delivery.to),
        keep_order=_keep_order(delivery.order),
        dedup=guards.dedup,
        dedup_keep=guards.dedup_keep,
        skip_redriven=guards.skip_redriven,
        wave_messages=pace.wave or wave_messages_for(pace.rate),
        command=command_line(credentials),
        credentials=credentials,
        tls=call.settings.tls_files(),
        address_map=call.settings.address_map(),
        client=call.connections,
    )


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


def _read_ids(path: str | None) -> list[str]:
    if path is None:
        return []
    return [line.strip() for line in read_text(path, f"--ids {path}").splitlines() if line.strip()]


def _keep_order(order: str | None) -> bool:
    if order not in (None, "queue"):
        raise UsageError(f"--order {order}: only the order within a queue can be kept (--order queue)")
    return order == "queue"


def _is_file(to: str | None) -> bool:
    return to is not None and to.startswith("file:")


def _target_of_store(call: Call, store: str | None, to: str | None) -> str | None:
    """The name servers to send to: with --store, -n names the target."""
    if store is None or _is_file(to) or not call.is_namesrv_given:
        return None
    return ";".join(call.namesrv_addrs)
