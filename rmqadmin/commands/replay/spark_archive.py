"""``spark-archive``: topics into Parquet before retention deletes them. ``spark_tools.archive`` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Texts
from rmqadmin.cli.options.replay_options import SparkOptions
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.replay_run import session_options
from rmqadmin.cli.run_progress import StageLines
from rmqadmin.core.messages.archived import Archived, RetentionWatch
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqreplay.source.archive_manifest import ArchivedBatch

FOLLOW_S = 60.0
"""How often --follow writes. More often would make more, smaller files."""


def spark_archive(
    call: Call,
    spark: SparkOptions,
    directory: Annotated[
        str, Value.FILE, typer.Option("--archive", metavar="DIR", help="The archive, new or to be continued.")
    ],
    topics: Annotated[
        Texts, Value.TOPIC, typer.Option("--topic", metavar="TOPIC", help="This topic. Repeatable. Default: all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what comes, every minute, until Ctrl-C.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Archive nothing: show what waits, and whether retention is near.")
    ] = False,
    batch: Annotated[int | None, typer.Option("--batch", metavar="N", min=1, help="Messages in a batch.")] = None,
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="If retention was faster, go on with what is left.")
    ] = False,
) -> Archived:
    """Archives what is there in Parquet, by topic and date, each message once, whatever crashes on the way; the next
    run goes on from there. Ends with 1 when retention gets near. Needs pip install 'rmqadmin[spark]'.

    Examples:
      rmqadmin spark-archive -n 127.0.0.1:9876 --topic orders --archive /data/archive
      rmqadmin spark-archive -n 127.0.0.1:9876 --archive /data/archive --check
    """
    from spark_tools.archive.archive_run import BATCH_MESSAGES_DEFAULT, ArchiveHooks, ArchiveRequest, archive

    watch, stage = RetentionWatch(call.now_ms, call.notice), StageLines(counted="archived")

    def tell(archived: ArchivedBatch) -> None:
        stage.stop()
        count = sum(each.messages for each in archived.ranges)
        call.notice(f"batch {archived.number}: {counted(count, 'message')} archived")
        stage("waiting for more" if follow else "going on")

    request = ArchiveRequest(
        name_server=";".join(call.namesrv_addrs),
        directory=directory,
        topics=topics or None,
        batch_messages=batch or BATCH_MESSAGES_DEFAULT,
        allow_loss=allow_loss,
        every_s=FOLLOW_S if follow and not check else None,
        credentials=call.settings.credentials(),
        tls=call.settings.tls_files(),
        address_map=call.settings.address_map(),
    )
    try:
        outcome = archive(
            request,
            ArchiveHooks(on_stage=stage, on_look=watch.look, on_batch=tell),
            session_options(spark),
            look_only=check,
        )
    except BaseException as error:
        stage.stop()
        for note in getattr(error, "__notes__", ()):
            call.notice(note)
        if isinstance(error, KeyboardInterrupt):
            call.notice("every batch so far is whole; the same command goes on")
        raise
    finally:
        stage.stop()
    return Archived(outcome, watch)
