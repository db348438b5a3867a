"""Checks that every exchange recorded with a real Apache RocketMQ was played against ours. A whole run of the tests
does this at its end (``tests/conftest.py``)."""

from collections.abc import Collection

from tests.docs.compatibility import NEVER_SERVED_BY_APACHE, TO_CLIENTS, dispatch_tables
from tests.docs.differences import NOT_PLAYED
from tests.support import golden


def wrongly_left(played: Collection[str]) -> list[str]:
    """A line for each exchange that should have been played, or that is named as left out without need."""
    served = set.union(*dispatch_tables()) | TO_CLIENTS | NEVER_SERVED_BY_APACHE
    due = {name for name in golden.names() if int(name.partition("-")[0]) in served}
    missing = due - NOT_PLAYED.keys() - set(played)
    where = "tests/docs/differences.py"
    return [
        *(f"{name} is played by no test, and {where} has no reason for it" for name in sorted(missing)),
        *(f"{name} is played, but {where} says that it is not" for name in NOT_PLAYED if name in played),
        *(f"{name} is in {where}, but not among the exchanges" for name in NOT_PLAYED if name not in due),
    ]
