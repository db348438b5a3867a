"""``dlq ls``: lists the groups with dead letters, how many, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.replay_options import Ledger
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core import targets
from rmqadmin.core.messages.dead_letters import (
    DeadLetters,
    check_group,
    dead_letter_groups,
    no_dead_letters,
    read_dead_letters,
)
from rmqadmin.core.results import TIME, Result, Row, doc, some_failed


class DeadLettersRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group that gave up on them", key=True)]
    messages: Annotated[int | None, doc("dead letters kept", vital=True)]
    redriven: Annotated[int | None, doc("those among them that were redriven, by the ledgers of this machine")]
    left: Annotated[int | None, doc("those that were not", vital=True)]
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest was stored")]
    newest_ms: Annotated[int | None, TIME, doc("when the newest was stored")]
    topic: Annotated[str, doc("dead-letter topic", wide=True)]
    error: Annotated[str | None, doc("why this is not known", sparse=True)] = None


class DeadLetterGroups(Result, frozen=True):
    """Groups with their dead letters, those with most left first."""

    row_type: ClassVar[type[Row]] = DeadLettersRow
    groups: list[tuple[str, str, DeadLetters]]

    def rows(self) -> Sequence[DeadLettersRow]:
        return [
            DeadLettersRow(
                group=group,
                messages=found.depth_count,
                redriven=found.redriven_count,
                left=found.left_count,
                oldest_ms=found.oldest_ms,
                newest_ms=found.newest_ms,
                topic=topic,
                error=found.error,
            )
            for group, topic, found in self.groups
        ]

    def problem(self) -> str | None:
        return some_failed([found.error for _, _, found in self.groups], "group")


def dlq_ls(
    call: Call,
    group: Annotated[str | None, Value.GROUP, typer.Argument(metavar="[GROUP]", help="This group only.")] = None,
    all_groups: Annotated[
        bool, typer.Option("--all", help="Also list groups whose dead letters are all gone.")
    ] = False,
    ledger: Ledger = None,
) -> DeadLetterGroups:
    """A dead letter is a message that a group has failed to consume more often than it may. A redrive leaves it where
    it is, and notes in its ledger that it was sent again.

    Examples:
      rmqadmin dlq ls
      rmqadmin -o json dlq ls billing
    """
    topics = dead_letter_groups(call.admin)
    if not topics:
        call.notice_if_no_broker()
    if group is not None:
        check_group(group)
        if group not in topics:
            raise no_dead_letters(group)
        topics = {group: topics[group]}
    with call.counting("groups") as told:
        read = targets.ask_each(lambda topic: read_dead_letters(call.admin, topic, ledger), list(topics.values()), told)
    found = [(name, topic, letters) for (name, topic), letters in zip(topics.items(), read, strict=True)]
    is_all = all_groups or group is not None
    shown = [each for each in found if is_all or each[2].depth_count != 0]
    return DeadLetterGroups(sorted(shown, key=lambda each: (-(each[2].left_count or 0), -(each[2].depth_count or 0))))
