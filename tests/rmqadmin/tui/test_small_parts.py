"""Units, filters, the JSON tree, hex lines and the user's keys."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content

from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.messages.body_text import hex_line, hex_line_count, one_line, text_lines
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import at_least, duration, elapsed, moment, perm, queue_nums, size
from rmqadmin.tui.filters import parse_filter
from rmqadmin.tui.settings import read_keys
from rmqadmin.tui.widgets.detail import fact_lines
from rmqadmin.tui.widgets.frame import fitted, in_lines, verdict_lines
from rmqadmin.tui.widgets.json_tree import (
    DEPTH_MAX,
    NODES_MAX,
    SIZE_MAX_BYTES,
    parse_json_untrusted,
    why_no_tree,
)
from rmqadmin.tui.widgets.tables.columns import BASE, Column
from rmqadmin.tui.widgets.tables.rows import Rows
from rmqproto.errors import UsageError
from tests.support.quick import in_one_test


@in_one_test(
    (None, "-"),
    (-5, "0 ms"),
    (999, "999 ms"),
    (59_999, "59 s"),
    (185_000, "3m05s"),
    (15_120_000, "4h12m"),
    (3 * 86_400_000 + 14_400_000, "3d04h"),
)
def test_durations(length_ms: int | None, text: str) -> None:
    assert duration(length_ms) == text


def test_units() -> None:
    assert [size(n) for n in (0, 1023, 1536, 4 << 20)] == ["0 B", "1023 B", "1.5 KiB", "4.0 MiB"]
    assert [perm(n) for n in (None, 0, 2, 6, 7)] == ["-", "- (0)", "W (2)", "RW (6)", "RWX (7)"]
    assert [elapsed(ms) for ms in (-1, 999, 12_345, 185_000)] == ["0 s", "0 s", "12 s", "3m05s"]
    assert [at_least(text) for text in ("4", "-")] == ["≥4", "-"]
    assert [queue_nums(each) for each in (None, (8, 8), (1024, 16))] == ["-", "8", "1,024 read, 16 write"]
    assert moment(None) == moment(0) == moment(-1) == "-"
    assert moment(1 << 62) == f"@{1 << 62}", "a damaged time is a number, not an exception"


def test_a_preview_is_one_line_and_ends_with_a_whole_letter() -> None:
    assert one_line(b" a\r\n\tb  c\n") == "a b c"
    assert one_line("订单".encode()[:5]) == "订"
    assert one_line(b"\xff\x00") == "\\xff\x00", "control characters are the table's affair"


def test_the_path_shortens_what_matters_least() -> None:
    way = ["Groups", "a-group-of-a-very-long-name", "192.0.2.50@1"]
    assert fitted("127.0.0.1:9876", way, 120) == ("127.0.0.1:9876", way)
    servers, steps = fitted("127.0.0.1:9876;127.0.0.2:9876", way, 60)
    assert steps[-1] == "192.0.2.50@1"
    assert len(" › ".join([servers, *steps])) <= 60


def test_a_verdict_is_the_worst_finding_and_its_remedy_in_two_lines_that_fit() -> None:
    subject = Subject(SubjectKind.GROUP, "billing")
    stuck = Finding(Grade.ERROR, Check.STUCK, subject, "stuck: [/red] none consumed " + "for long " * 20, "See " * 40)
    lines = [line.plain for line in verdict_lines([stuck, stuck, stuck], 60)]
    assert [cell_len(line) <= 60 for line in lines] == [True, True]
    assert lines[0].startswith("✖ stuck: [/red] none consumed")
    assert lines[0].endswith("…  and 2 more")
    assert lines[1].startswith("  See See")
    (only,) = verdict_lines([Finding(Grade.WARNING, Check.LAG, subject, "5 messages wait")], 60)
    assert only.plain == "▲ 5 messages wait"


def test_values_stand_in_one_column_whatever_their_labels_are_written_in() -> None:
    lines = [line.plain for line in fact_lines([("订单号", "x"), ("tag", "y"), ("\x1b", "z")])]
    assert [cell_len(line.removesuffix(value)) for line, value in zip(lines, "xyz", strict=True)] == [8, 8, 8]
    assert "\x1b" not in "".join(lines)


def test_filters() -> None:
    rows = ["orders", "Flights", "%RETRY%orders"]

    def passing(text: str) -> list[str]:
        passes = parse_filter(text)
        return rows if passes is None else [row for row in rows if passes(row)]

    assert passing("") == passing("!") == rows
    assert passing("ORD") == ["orders", "%RETRY%orders"]
    assert passing("!ord") == ["Flights"]
    assert passing("/^ord/") == ["orders"]
    assert passing("!/^%|s$/") == []
    with pytest.raises(UsageError):
        parse_filter("/(/")


def test_bodies_that_are_no_text_show_their_bytes() -> None:
    assert text_lines(b"a\xff\r\n\tb\x00\n") == ["a\\xff", "    b\\x00", ""]


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 1 << 20])
def test_a_body_is_read_in_pieces_as_it_would_be_at_one_go(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    """Four megabytes of random bytes used to be decoded by one call, for which keys waited 0.3 s."""
    monkeypatch.setattr("rmqadmin.core.messages.body_text._PIECE_BYTES", piece_bytes)
    choices = [b"a", b"\r", b"\n", b"\r\n", b"\t", b"\0", "é飞".encode(), b"\xe9\xa3", b"\xff"]
    random = Random(12)
    for _ in range(100):
        body = b"".join(random.choices(choices, k=random.randrange(12)))
        text = body.decode("utf-8", "backslashreplace").replace("\r\n", "\n").replace("\t", "    ")
        assert text_lines(body) == [printable(line) for line in text.split("\n")]


def test_of_a_long_array_only_what_is_shown_gets_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    named = []

    def member(name: str, value: object) -> tuple[str, object]:
        named.append(name)
        return name, value

    monkeypatch.setattr("rmqadmin.tui.widgets.json_tree._Member", member)
    lines = parse_json_untrusted(b"[" + b"1," * (5 * NODES_MAX) + b"1]")
    assert lines is not None
    assert len(lines) == 1 + NODES_MAX + 1
    assert lines[-1].text == f"… {4 * NODES_MAX + 1} more"
    assert NODES_MAX <= len(named) <= NODES_MAX + 1


def outline(body: bytes) -> list[str]:
    """The lines of a body's tree, indented."""
    lines = parse_json_untrusted(body)
    assert lines is not None
    return ["    " * line.depth + line.text for line in lines]


def test_json_keeps_digits_order_and_doubles() -> None:
    assert outline(b'{"b": 1.10, "a": [true, null, ""], "b": {"[/red]": 1e999}}') == [
        "{3}", "    b 1.10", "    a [3]", "        [0] true", "        [1] null", '        [2] ""', "    b {1}",
        "        [/red] 1e999",
    ]  # fmt: skip


@in_one_test(b"", b"text", b"12", b"{", b'{"a": \xff}', b"[" * 100_000)
def test_what_is_no_json_has_no_tree(body: bytes) -> None:
    assert parse_json_untrusted(body) is None
    assert why_no_tree(body) == "The body is not a JSON object or array."


def test_a_body_that_is_too_large_for_a_tree_is_not_called_no_json() -> None:
    body = b"[" + b" " * SIZE_MAX_BYTES + b"]"
    assert parse_json_untrusted(body) is None
    assert why_no_tree(body) == "The body is too large for a tree: 1.0 MiB, and at most 1.0 MiB are parsed."


def test_a_huge_body_makes_a_tree_that_says_what_is_left_out() -> None:
    lines = outline(b"[" + b",".join(b"1" for _ in range(NODES_MAX + 10)) + b"]")
    assert len(lines) == 1 + NODES_MAX + 1
    assert lines[-2:] == [f"    [{NODES_MAX - 1}] 1", "    … 10 more"]


def test_a_tree_has_the_branches_of_its_body() -> None:
    """This includes branches that are cut off before the end of the body."""
    rows = ",".join('{"a": [1, [], {"飞": "x"}], "b": {}}' for _ in range(NODES_MAX))
    lines = outline(f"[{rows}]".encode())
    whole = ["{2}", "    a [3]", "        [0] 1", "        [1] []", "        [2] {1}", '            飞 "x"']
    assert lines[1:8] == ["    [0] {2}", *(f"    {line}" for line in [*whole[1:], "    b {}"])]
    cut = ["    [142] {2}", *(f"    {line}" for line in [*whole[1:], "    … 1 more"])]
    assert lines[-8:] == [*cut, f"    … {NODES_MAX - 143} more"]


@pytest.mark.parametrize("body", ['{"é%s": 1}', '["é%s"]', "[1%s]"], ids=["name", "text", "number"])
def test_of_a_long_name_or_value_the_beginning_is_shown(body: str) -> None:
    _, line = outline((body % ("1" * 600)).encode())
    assert re.search("1{498,500}… \\(60[13] characters\\)", line)
    assert len(line) < 550


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")], ids=["arrays", "objects"])
def test_a_body_of_very_many_levels_ends_in_what_is_left_out(begin: str, end: str) -> None:
    lines = outline((begin * 400 + "1" + end * 400).encode())
    assert len(lines) == 1 + DEPTH_MAX + 1
    assert lines[-1].strip() == "… 1 more"


def test_hex() -> None:
    data = bytes(range(0x1E, 0x32))
    assert hex_line_count(data) == 2
    first, second = (hex_line(data, at) for at in (0, 1))
    assert first == "00000000  1e 1f 20 21 22 23 24 25  26 27 28 29 2a 2b 2c 2d  |.. !\"#$%&'()*+,-|"
    assert second.startswith("00000010  2e 2f 30 31")
    assert second.index("|") == first.index("|")


def test_keys_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "tui.toml"
    assert read_keys(path) == {}
    path.write_text('[keys]\n"filter" = "slash,ctrl+f"\n')
    assert read_keys(path) == {"filter": "slash,ctrl+f"}
    for wrong in ("[keys", "keys = 1", '[keys]\na = ["b"]', 'theme = "nord"'):
        path.write_text(wrong)
        with pytest.raises(UsageError, match=r"tui\.toml"):
            read_keys(path)


def test_a_key_that_no_keyboard_has_is_refused(tmp_path: Path) -> None:
    """The action would have no key at all, and the dashboard could not be left."""
    path = tmp_path / "tui.toml"
    known = (
        "q", "G", "?", "+", "é", "f5", "slash", "plus", "minus", "question_mark", "ctrl+q", "ctrl+shift+left",
        "alt+x",
    )  # fmt: skip
    for name in (*known, "escape, ctrl+slash", "a,,b", ""):
        path.write_text(f'[keys]\n"quit" = "{name}"\n')
        assert read_keys(path) == {"quit": name}
    for name in ("hyperspace", "ctrl+hyper", "strg+q", "ctrl+ q", "q,f99"):
        path.write_text(f'[keys]\n"quit" = "{name}"\n')
        with pytest.raises(UsageError, match=r"quit: there is no key"):
            read_keys(path)


@given(st.lists(st.text("ab飞", min_size=1, max_size=90), max_size=12), st.integers(8, 120))
@example(["a", "aa飞", "飞飞飞"], 12)  # letters of two cells each
def test_what_is_cut_from_a_row_fills_its_lines(words: list[str], width: int) -> None:
    """A name of 100 letters used to begin on a new line, and what followed it was lost."""
    text = " ".join(words)
    lines = in_lines(Content(text), width).plain.split("\n")
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(line) >= width - width // 4 - 2 for line in lines[:-1])


def test_a_long_name_stands_behind_its_title() -> None:
    lines = in_lines(Content("topic " + "x" * 100 + "   newest 1m ago"), 78).plain.split("\n")
    assert lines == ["topic " + "x" * 72, "x" * 28 + "   newest 1m ago"]


def test_a_title_stays_with_its_text_on_the_next_line() -> None:
    text = "owner 127.0.0.1@4711   committed 188   in flight 0   consumed 4m ago"
    assert in_lines(Content(text), 42).plain.split("\n") == [
        "owner 127.0.0.1@4711   committed 188", "in flight 0   consumed 4m ago"
    ]  # fmt: skip
    assert in_lines(Content(text), 36).plain.split("\n")[0] == "owner 127.0.0.1@4711   committed 188"


def test_the_number_of_a_queue_is_a_name_and_does_not_grow_old() -> None:
    rows = Rows([Column(name="queue_id", is_number=True), Column(name="lag_count", is_number=True)], lambda: 0, 0.0)
    rows.set_base([("a", QueueLag(3, 5))])
    line = rows.lines["a"]
    line.asked_s[BASE] -= 1
    assert [rows.cell(line, at) for at in range(2)] == [("3", "stale"), ("~5", "stale")]


class QueueLag(msgspec.Struct):
    queue_id: int
    lag_count: int
