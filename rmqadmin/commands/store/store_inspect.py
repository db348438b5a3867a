"""``store inspect``: shows what a store directory holds."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ShowAll
from rmqadmin.cli.options.store_options import StoreDir
from rmqadmin.core.stores.inspected import InspectedQueues, InspectedTopics, inspected_queues, inspected_topics
from rmqadmin.core.stores.inspected_files import InspectedFiles, inspected_files
from rmqadmin.core.stores.inspected_groups import InspectedGroups, inspected_groups
from rmqadmin.core.stores.surveyed import surveyed
from rmqadmin.core.system_names import is_made_by_brokers
from rmqproto.errors import UsageError


def store_inspect(
    call: Call,
    directory: StoreDir,
    queues: Annotated[bool, typer.Option("--queues", help="A row for each queue, with its offsets.")] = False,
    groups: Annotated[bool, typer.Option("--groups", help="A row for each group and topic, with its lag.")] = False,
    files: Annotated[bool, typer.Option("--files", help="A row for each file.")] = False,
    show_all: ShowAll = False,
) -> InspectedTopics | InspectedQueues | InspectedGroups | InspectedFiles:
    """Shows who wrote the store and how it was left, where its log begins and ends, topics and queues with their
    offsets and times, index, tables, messages that wait for their time, and disk use. Only reads; a broker may run on
    it.

    Examples:
      rmqadmin store inspect /data/store
      rmqadmin -o json store inspect /data/store --queues
      rmqadmin store inspect /data/store --groups
    """
    if queues + groups + files > 1:
        raise UsageError("--queues, --groups and --files are three tables", hint="Ask for one of them.")
    found = surveyed(directory, call.notice)
    if groups:
        return inspected_groups(found)
    if files:
        return inspected_files(found)
    if queues:
        return inspected_queues(found)
    return inspected_topics(
        found, lambda topics: call.without_systems_own(topics, is_made_by_brokers, "topics", show_all=show_all)
    )
