"""``dlq show``: a group's dead letters, chosen as ``dlq redrive`` chooses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from rmqadmin.call import Call
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values, unpacked
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.options.letters_request import letters_request
from rmqadmin.options.replay_options import LetterOptions

if TYPE_CHECKING:
    from spark_tools.replay.engines.local_engine import SelectedMessage

SHOWN_DEFAULT = 20


class DeadLetterRow(StoredMessageRow, frozen=True):
    """Where it lies is shown only with ``--output wide``: a terminal has little room."""

    offset_message_id: Annotated[str, doc("id made by the broker: its address and the log offset", wide=True)]
    topic: Annotated[str, doc("dead-letter topic", wide=True)]
    broker_name: Annotated[str, doc("broker that stores it", wide=True)]
    queue_id: Annotated[int, doc("queue id", wide=True)]
    queue_offset: Annotated[int, doc("its place in the queue", wide=True)]
    body_size_bytes: Annotated[int, doc("size of the body, decompressed", wide=True)]
    origin_topic: Annotated[str, doc("topic that it was first sent to")]
    redrives: Annotated[int, doc("how often it was redriven")]


class ShownLetters(Result, frozen=True):
    """Dead letters, oldest first within each queue."""

    row_type: ClassVar[type[Row]] = DeadLetterRow
    letters: list[tuple[dict[str, Any], str, int]]

    def rows(self) -> Sequence[DeadLetterRow]:
        return [
            DeadLetterRow(**values, origin_topic=origin, redrives=redrives) for values, origin, redrives in self.letters
        ]


def dlq_show(
    call: Call,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Whose dead letters.")],
    letters: LetterOptions,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most this many.")] = SHOWN_DEFAULT,
) -> ShownLetters:
    """Nothing is consumed: no offset moves.

    Examples:
      rmqadmin dlq show billing
      rmqadmin -o json dlq show billing --from -2h --jsonpath '$.type=refund' --limit 100
    """
    from itertools import islice

    from spark_tools.replay.engines.local_engine import LocalEngine
    from spark_tools.replay.plans.request import freeze

    request = letters_request(call, group, letters)
    plan = freeze(request)
    found = LocalEngine(plan, open_cluster=request.cluster).read(plan, plan.ranges)
    shown = list(islice(found, limit))
    if len(shown) == limit and next(found, None) is not None:
        call.notice(f"there are more than {limit}; --limit shows more")
    return ShownLetters([_letter(call, each) for each in shown])


def _letter(call: Call, found: SelectedMessage) -> tuple[dict[str, Any], str, int]:
    from spark_tools.replay.engines.local_engine import original
    from spark_tools.replay.sending.redrive import round_of

    message = FoundMessage(found.stored, found.queue.broker_name, "", found.properties)
    values = message_values(unpacked(message, call.notice))
    return values, original(found).origin_topic, round_of(found.properties)
