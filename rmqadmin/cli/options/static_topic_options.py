"""What the commands about static topics share: options in mqadmin's spelling, and the answer."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import TrueFalse
from rmqadmin.cli.options.common_options import OptionGroup
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.changes import Changes
from rmqadmin.core.topics.static_topics import MakePlan, MappingWish, PutPlan, change_mapping

OLD_LINE = "The old mapping data is written to file {}"
NEW_LINE = "The new mapping data is written to file {}"


class MappingOptions(OptionGroup, frozen=True):
    """Which brokers, and where the mapping comes from."""

    clusters: Annotated[
        str | None,
        Value.CLUSTERS,
        typer.Option("-c", "--clusters", metavar="CLUSTERS", help="The brokers of these clusters: a,b."),
    ] = None
    brokers: Annotated[
        str | None, Value.NAME, typer.Option("-b", "--brokers", metavar="NAMES", help="These brokers: a,b.")
    ] = None
    map_file: Annotated[
        str | None, Value.FILE, typer.Option("-mf", "--mapFile", metavar="FILE", help="Apply the mapping of this file.")
    ] = None
    force_replace: Annotated[
        TrueFalse | None,
        typer.Option("-fr", "--forceReplace", case_sensitive=False, help="Replace whatever mapping the brokers have."),
    ] = None


def change(
    call: Call, topic: str, options: MappingOptions, make_plan: MakePlan, put: PutPlan, lines: tuple[str, str]
) -> Changes:
    """Carries out a change and says which files it left. ``lines`` are mqadmin's words for the two files."""
    wish = MappingWish(
        options.brokers, options.clusters, options.map_file, force=options.force_replace is TrueFalse.TRUE
    )
    rows, files = change_mapping(call.admin, topic, wish, make_plan, put, dry_run=call.dry_run, now_ms=call.now_ms())
    said = [line.format(file) for line, file in zip(lines, files, strict=False)]
    if not call.as_mqadmin:
        for line in said:
            call.notice(line)
    return Changes(rows, "".join(f"{line}\n" for line in said) or None)
