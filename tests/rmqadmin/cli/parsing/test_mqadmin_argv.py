"""Every way in which users of mqadmin write options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.cli import registry
from rmqadmin.cli.parsing.command_building import build_command
from rmqadmin.cli.parsing.mqadmin_argv import OptionSpec, normalise
from rmqadmin.cli.parsing.registry_command import option_specs
from rmqproto.errors import UsageError
from rmqproto.misread_words import is_invisible
from tests.support.quick import in_one_test

SPECS = [
    OptionSpec("--topic", ("t",), ("topic",), takes_value=True),
    OptionSpec("--timestamp", ("s",), ("timestamp",), takes_value=True),
    OptionSpec("--list", ("l",), ("list",), takes_value=False),
    OptionSpec("--moreStats", ("m",), ("moreStats",), takes_value=False),
    OptionSpec("--order", ("o",), ("order",), takes_value=True),
    OptionSpec("--totalQueueNum", ("qn",), ("totalQueueNum",), takes_value=True),
    OptionSpec("--output", (), ("output",), takes_value=True, ours=True),
    OptionSpec("--access-key", ("ak",), ("access-key",), takes_value=True, ours=True),
    OptionSpec("--attributes", ("a",), ("attributes",), takes_value=True),
    OptionSpec("--dry-run", (), ("dry-run",), takes_value=False, ours=True),
    OptionSpec("--watch", (), ("watch",), takes_value=True, implied_value="2", ours=True),
    OptionSpec("--property", (), ("property",), takes_value=True, ours=True, repeats=True),
    OptionSpec("--help", ("h",), ("help",), takes_value=False),
]


@in_one_test(
    ("-t X", ["--topic=X"]),
    ("-tX", ["--topic=X"]),
    ("-t=X", ["--topic=X"]),
    ("-topic X", ["--topic=X"]),
    ("-topic=X", ["--topic=X"]),
    ("-topicX", ["--topic=X"]),
    ("--topic X", ["--topic=X"]),
    ("--topic=X", ["--topic=X"]),
    ("--topic=X=Y", ["--topic=X=Y"]),
    ("--top X", ["--topic=X"]),
    ("-top X", ["--topic=X"]),
    ("--top=X", ["--topic=X"]),
    ("--property a=1 --property b=2", ["--property=a=1", "--property=b=2"]),
    ("--output json --output csv", ["--output=csv"]),  # mqadmin has no --output; the last counts, as everywhere
    ("--output json -t X --output csv --dry-run", ["--topic=X", "--output=csv", "--dry-run"]),
    ("-s -1", ["--timestamp=-1"]),
    ("-s -10m", ["--timestamp=-10m"]),
    ("-s -1.5e3", ["--timestamp=-1.5e3"]),
    ("-lm", ["--list", "--moreStats"]),
    ("-lmtX", ["--list", "--moreStats", "--topic=X"]),
    ("-lmt X", ["--list", "--moreStats", "--topic=X"]),
    ("-qn 8", ["--totalQueueNum=8"]),
    ("-o true", ["--order=true"]),
    ("--o true", ["--order=true"]),  # not ambiguous with our --output
    ("--or true", ["--order=true"]),
    ("--ou json", ["--output=json"]),
    ("-ak KEY", ["--access-key=KEY"]),
    ("-akey", ["--attributes=key"]),
    ("--watch", ["--watch=2"]),
    ("--watch 5", ["--watch=5"]),
    ("--watch=0.5", ["--watch=0.5"]),
    ("--watch -t X", ["--watch=2", "--topic=X"]),
    ("-t X -t Y", ["--topic=X"]),  # as in mqadmin, the first counts
    ('-t "X"', ["--topic=X"]),
    ('--topic="X"', ['--topic="X"']),  # quotes are taken off a value in a word of its own alone
    ('-t="X"', ['--topic="X"']),
    ('-t"X"', ['--topic="X"']),
    ("-t -x", ["--topic=-x"]),  # no option begins with -x
    ("-t -p", ["--topic=-p"]),  # one letter is no prefix of our --property
    ("-ou", ["--order=u"]),  # not our --output
    ("-dry", ["--dry-run"]),
    ("-t -", ["--topic=-"]),
)
def test_each_spelling_means_the_same_option(line: str, canonical: list[str]) -> None:
    found = normalise(line.split(), SPECS)
    assert (found.options, found.words) == (canonical, [])


@pytest.mark.parametrize(
    ("line", "options", "words"),
    [
        ("-l true", ["--list"], ["true"]),  # why `-a true` works for a flag
        ("word -t X", ["--topic=X"], ["word"]),
        ("-l -- -t X", ["--list"], ["-t", "X"]),
        ("-", [], ["-"]),
    ],
)
def test_words_that_belong_to_no_option_are_kept_apart(line: str, options: list[str], words: list[str]) -> None:
    found = normalise(line.split(), SPECS)
    assert (found.options, found.words) == (options, words)


@in_one_test(
    ("-x", "Unrecognized option: -x"),
    ("--nope", "Unrecognized option: --nope"),
    ("-lx", "Unrecognized option: -lx"),
    ("-t", "Missing argument for option: topic"),
    ("-t -l", "Missing argument for option: topic"),
    ("-t -- X", "Missing argument for option: topic"),
    ("-t --list", "Missing argument for option: topic"),
    ("--t X", "Ambiguous option: --t  (could be: --timestamp, --topic, --totalQueueNum)"),
    ("--to X", "Ambiguous option: --to  (could be: --topic, --totalQueueNum)"),
    ("--list=yes", "the option --list takes no value, but 'yes' was given"),
    ("-5", "Unrecognized option: -5"),
)
def test_what_mqadmin_refuses_is_refused(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        normalise(line.split(), SPECS)
    assert str(caught.value) == said


def test_a_typing_error_is_met_with_the_nearest_option() -> None:
    with pytest.raises(UsageError) as caught:
        normalise(["--tpic", "X"], SPECS)
    assert caught.value.hint == "Did you mean --topic?"
    with pytest.raises(UsageError, match="Unrecognized option: -q") as caught:
        normalise(["-q"], SPECS)
    assert caught.value.hint is None  # a single letter is near to any name


VALUES = st.text(st.characters(codec="utf-8", exclude_characters='"'), min_size=1).filter(
    lambda value: value[0] not in "-=" and not is_invisible(value[0])
)


@given(VALUES)
def test_a_value_survives_every_spelling(value: str) -> None:
    for args in (["-t", value], [f"-t{value}"], [f"-t={value}"], ["-topic", value], [f"--topic={value}"]):
        if args == [f"-t{value}"] and any(name.startswith("t" + value.partition("=")[0]) for name in LONG_NAMES):
            continue  # -to is a prefix of --topic before it is -t with the value o
        if args == [f"-t{value}"] and any(("t" + value).startswith(name) for name in LONG_NAMES):
            continue  # -topicX is --topic with the value X
        assert normalise(args, SPECS).options == [f"--topic={value}"]


LONG_NAMES = [name for spec in SPECS for name in spec.long_names]


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_arguments_are_read_or_refused(args: list[str]) -> None:
    try:
        found = normalise(args, SPECS)
    except UsageError:
        return
    assert all(option.startswith("--") for option in found.options)


@pytest.mark.parametrize(
    ("command", "args", "option"),
    [
        ("updateSubGroup", ["--a", "+priority.factor=2"], "--attributes=+priority.factor=2"),
        ("clusterRT", ["--machine room", "r1"], "--machineRoom=r1"),
        ("clusterRT", ["--print", "true"], "--printLog=true"),
        ("printMsgByQueue", ["--print msg=true"], "--printMsg=true"),
        ("createAcl", ["-d", "-t"], "--decision=-t"),
    ],
)
def test_names_of_mqadmin_without_a_letter_or_with_a_blank(command: str, args: list[str], option: str) -> None:
    """Our own options made the first one ambiguous, and a value of the last one an option."""
    entry = registry.find(command)
    assert entry is not None
    specs = option_specs(build_command(entry))
    assert normalise(args, specs).options == [option]
