"""How a typed line becomes words."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.cli.prompt.line import parse_line, typed
from rmqproto.errors import UsageError
from tests.support.quick import in_one_test

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@in_one_test(
    ("", []),
    ("  topicList\t-c ", ["topicList", "-c"]),
    ("""msg send T 'a b' "c 'd'" e\\ f ''""", ["msg", "send", "T", "a b", "c 'd'", "e f", ""]),
    (r"""-p "{\"a\": \"\n\"}" 'x\y' """, ["-p", r'{"a": "\n"}', r"x\y"]),
    ("topicList # all of them", ["topicList"]),
    ("-s 2026-01-01#10:00:00:000", ["-s", "2026-01-01#10:00:00:000"]),
    ("-n a:1;b:2 $HOME * a|b >x", ["-n", "a:1;b:2", "$HOME", "*", "a|b", ">x"]),
    ("topicStatus -t '|'", ["topicStatus", "-t", "|"]),
    ("end\\", ["end\\"]),
)
def test_words_are_what_sh_would_make_of_them_and_nothing_is_expanded(line: str, words: list[str]) -> None:
    assert parse_line(line).texts() == words


def test_a_bar_between_blanks_begins_a_command_of_sh() -> None:
    line = parse_line("topicList -o json | jq '.items | length' # x")
    assert (line.texts(), line.piped_to) == (["topicList", "-o", "json"], "jq '.items | length' # x")
    assert parse_line("topicList |").piped_to == ""


@pytest.mark.parametrize("line", ["a 'b", 'a "b', "a 'it\\"])
def test_an_open_quote_is_known_to_completion_and_refused_in_a_line_to_run(line: str) -> None:
    assert parse_line(line).words[-1].open_quote
    with pytest.raises(UsageError, match="is not closed"):
        parse_line(line).texts()


@given(st.lists(TEXTS), st.sampled_from(["", "'", '"']))
def test_what_is_typed_for_a_word_is_read_as_that_word(words: list[str], quote: str) -> None:
    line = parse_line("  ".join(typed(word, quote) for word in words))
    assert (line.texts(), line.piped_to, line.is_in_comment) == (words, None, False)


@given(st.text("ab '\"\\", max_size=12))
def test_a_word_begins_where_it_says(line: str) -> None:
    words = parse_line(line).words
    for word in words:
        assert not line[word.start].isspace()
        assert word.start == 0 or line[word.start - 1] in " \\\"'ab"
    assert [word.start for word in words] == sorted({word.start for word in words})


@pytest.mark.parametrize("line", [r"""a\ b "c\"d\\" 'e\f' g\'h i"j"k''l""", r'''"a\b" \\ ""''', "a#b c# #d e"])
def test_it_agrees_with_sh(line: str) -> None:
    done = subprocess.run(["sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True)
    assert parse_line(line).texts() == done.stdout.split("\n")[:-1]
