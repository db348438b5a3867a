"""What a source brings: rows, and in words what it could not find out. A broker that is away is a problem among rows;
only where nobody answers does a source raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from rmqadmin import targets
from rmqproto.errors import RocketMQError

T = TypeVar("T")
A = TypeVar("A")


class Found(msgspec.Struct, Generic[T], frozen=True):
    """``rows`` by key, in the order of the screen."""

    rows: dict[str, T]
    problems: list[str] = []


def ask_those_that_answer(ask: Callable[[A], T], of: Sequence[A]) -> tuple[list[tuple[A, T]], list[str]]:
    """The answers there are, each with whom it is from, and the errors of the others. Raises the first error where
    nobody answers."""

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
