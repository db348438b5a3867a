"""What a source returns: rows, and in words what it could not find out. A broker that does not answer is a problem
beside the rows. A source raises an error only if nobody answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from rmqadmin.core import targets
from rmqproto.errors import RocketMQError

T = TypeVar("T")
A = TypeVar("A")


class Found(msgspec.Struct, Generic[T], frozen=True):
    """``rows`` by key, in the order of the screen."""

    rows: dict[str, T]
    problems: list[str] = []


def ask_those_that_answer(ask: Callable[[A], T], of: Sequence[A]) -> tuple[list[tuple[A, T]], list[str]]:
    """The answers, each with its server, and the errors of the other servers. Raises the first error if nobody
    answers."""

    def attempt(one: A) -> T | RocketMQError:
        try:
            return ask(one)
        except RocketMQError as error:
            return error

    answers = targets.ask_each(attempt, of)
    errors = [answer for answer in answers if isinstance(answer, RocketMQError)]
    if errors and len(errors) == len(answers):
        raise errors[0]
    good = [(one, answer) for one, answer in zip(of, answers, strict=True) if not isinstance(answer, RocketMQError)]
    return good, [str(error) for error in errors]
