"""How expressions become filters, by expressionType (``ExpressionType``, ``FilterFactory``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable

from rmqproto.errors import RocketMQError
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.filters.subscription import SQL92, TAG, parse_tags
from rmqserver.store.queues.second_stage import IS_NATIVE

COMPILED_TWICE_CHARS = 1024
"""A longer expression is compiled only for whole records, and not also for values that were found in C: that would
block the loop for another tenth of a second."""


def is_tags(kind: str | None) -> bool:
    """No type means tags."""
    return kind in (TAG, None, "")


def compile_tags(expression: str) -> MessageFilter:
    """Never fails."""
    wanted = parse_tags(expression)
    return EVERYTHING if wanted.tags is None else MessageFilter(accepts_code=wanted.codes.__contains__)


def _compile_sql92(expression: str) -> MessageFilter:
    # Imported late: it takes 10 ms of a start, and few brokers need SQL92.
    from rmqproto.filters.sql92 import Sql92Error, compile_sql92_for_records, compile_sql92_for_values

    try:
        accepts = compile_sql92_for_records(expression)
        if not IS_NATIVE or len(expression) > COMPILED_TWICE_CHARS:
            return MessageFilter(accepts_properties=accepts)
        return MessageFilter(accepts_properties=accepts, accepts_values=compile_sql92_for_values(expression))
    except Sql92Error as error:
        raise BadExpression(error.remark) from None


KINDS: dict[str, Callable[[str], MessageFilter]] = {TAG: compile_tags, SQL92: _compile_sql92}

_UNKNOWN_KIND = (
    'Cannot invoke "org.apache.rocketmq.filter.FilterSpi.compile(String)" because the return value of '
    '"org.apache.rocketmq.filter.FilterFactory.get(String)" is null'
)
"""Java's message for a missing filter."""


class BadExpression(RocketMQError):
    """An expression does not compile, or its type is not served. The message is Apache's remark."""


def compile_filter(kind: str | None, expression: str) -> MessageFilter:
    """Raises BadExpression."""
    compile_kind = KINDS.get(kind or TAG)
    if compile_kind is None:
        raise BadExpression(_UNKNOWN_KIND)
    return compile_kind(expression)
