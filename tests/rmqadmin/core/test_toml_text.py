"""No file that a person wrote, however odd, ends a command with a defect or keeps it busy. Times here are relative."""

import time
from pathlib import Path

import pytest

from rmqadmin.core.contexts.context import ContextSettings
from rmqadmin.core.contexts.settings_file import parse_settings
from rmqadmin.core.files import parse_toml
from rmqproto.errors import UsageError


@pytest.mark.parametrize(("text", "said"), [("x = " + "[" * 20_000, "more levels"), (f"x = {'9' * 5_000}", "digits")])
def test_what_the_parser_cannot_take_is_a_usage_error(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_toml(text)


def test_unknown_settings_are_not_looked_up_one_by_one() -> None:
    """A file of 16,000 unknown settings took 20 s: the line of each was searched for from the start of the file."""

    def seconds(text: str) -> float:
        begun = time.process_time()
        with pytest.raises(UsageError, match=r"^/x\.toml:1: there is no setting 'k0'$"):
            parse_settings(text, Path("/x.toml"), ContextSettings)
        return time.process_time() - begun

    few, many = ("\n".join(f"k{number} = 1" for number in range(count)) for count in (500, 4_000))
    assert seconds(many) < 30 * min(seconds(few) for _ in range(3))
