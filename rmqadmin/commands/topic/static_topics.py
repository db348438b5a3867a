"""Topics with a fixed number of logical queues, wherever they are: made, extended, moved."""

from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic, TrueFalse
from rmqadmin.cli.options.common_options import OptionGroup, Value, option
from rmqadmin.core.changes import Changes
from rmqadmin.core.topics.static_mapping import LOGICAL_QUEUES_MAX, Configs, extended, remapped
from rmqadmin.core.topics.static_topics import MakePlan, MappingWriter, PutPlan, change_mapping
from rmqproto.bodies.routes import TopicRemappingDetail
from rmqproto.errors import NotFoundError, UsageError

OLD_LINE = "The old mapping data is written to file {}"
NEW_LINE = "The new mapping data is written to file {}"


class MappingOptions(OptionGroup, frozen=True):
    """Which brokers, and where the mapping comes from."""

    clusters: Annotated[
        str | None, Value.CLUSTERS, option("-c", "--clusters", "The brokers of these clusters: a,b.")
    ] = None
    brokers: Annotated[str | None, Value.NAME, option("-b", "--brokers", "These brokers: a,b.", metavar="NAMES")] = None
    map_file: Annotated[str | None, Value.FILE, option("-mf", "--mapFile", "Apply the mapping of this file.")] = None
    force_replace: Annotated[
        TrueFalse | None, option("-fr", "--forceReplace", "Replace whatever mapping the brokers have.")
    ] = None


def _change(
    call: Call, topic: str, options: MappingOptions, make_plan: MakePlan, put: PutPlan, lines: tuple[str, str]
) -> Changes:
    """Carries out a change and says which files it left. ``lines`` are mqadmin's words for the two files."""
    rows, files = change_mapping(
        call.admin, topic, make_plan, put, brokers=options.brokers, clusters=options.clusters,
        map_file=options.map_file, force=options.force_replace is TrueFalse.TRUE,
        dry_run=call.dry_run, now_ms=call.now_ms(),
    )  # fmt: skip
    said = [line.format(file) for line, file in zip(lines, files, strict=False)]
    if not call.as_mqadmin:
        for line in said:
            call.notice(line)
    return Changes(rows, "".join(f"{line}\n" for line in said) or None)


def update_static_topic(
    call: Call,
    topic: Topic,
    options: MappingOptions,
    total_queue_num: Annotated[
        int | None,
        option(
            "-qn", "--totalQueueNum", "How many logical queues; never fewer than now.", min=1, max=LOGICAL_QUEUES_MAX
        ),
    ] = None,
) -> Changes:
    """New queues go to the brokers with the fewest, among the named brokers and those that the topic is on. Files keep
    the old and the new mapping. -mf applies the mapping of such a file; mqadmin ignores -mf here.

      rmqadmin updateStaticTopic -t LogicalTopic -qn 8 -c DefaultCluster
      rmqadmin updateStaticTopic -t LogicalTopic -qn 12 -b broker-a --dry-run
    """

    def plan(before: Configs, brokers: list[str]) -> TopicRemappingDetail:
        if total_queue_num is None:
            raise UsageError("Missing required options: -qn/--totalQueueNum")
        return extended(topic, total_queue_num, brokers, before, call.now_ms())

    return _change(call, topic, options, plan, MappingWriter.update, (OLD_LINE, NEW_LINE))


def remapping_static_topic(call: Call, topic: Topic, options: MappingOptions) -> Changes:
    """Spreads the queues evenly over the named brokers, and moves as few as possible. Messages stay where they are;
    logical offsets continue after them. Files keep the old and the new mapping. If a broker fails midway, -mf with the
    new file and -fr true finishes the move.

      rmqadmin remappingStaticTopic -t LogicalTopic -b broker-a --dry-run
      rmqadmin remappingStaticTopic -t LogicalTopic -c DefaultCluster
    """

    def plan(before: Configs, brokers: list[str]) -> TopicRemappingDetail:
        if not before:
            raise NotFoundError("No topic route to do the remapping", hint="updateStaticTopic makes a static topic.")
        return remapped(topic, brokers, before, call.now_ms())

    return _change(
        call, topic, options, plan, MappingWriter.remap, (OLD_LINE, OLD_LINE)
    )  # mqadmin calls both files old
