"""What a person writes: host parts of addresses, rules of faults, and words that are read as options."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import UsageError
from rmqproto.fault_rules import FaultRule, parse_rule
from rmqproto.hosts import is_loopback, is_port
from rmqproto.misread_words import misread_character, misread_word
from tests.support.quick import in_one_test


@in_one_test(
     ("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False),
     ("10.0.0.5", False), ("mq.example", False))  # fmt: skip
def test_who_reaches_a_host(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


@in_one_test(("1", True), ("9876", True), ("65535", True), ("65536", False), ("0", False), ("-1", False), ("", False),
     ("x", False), ("٣", False), ("9" * 5000, False))  # fmt: skip
def test_what_is_a_port(text: str, is_one: bool) -> None:
    assert is_port(text) is is_one


def test_what_a_rule_says() -> None:
    text = "SEND_MESSAGE:delay=1.5s:error=SYSTEM_BUSY:remark=later:share=0.25:count=3:topic=T:group=G"
    assert parse_rule(text) == FaultRule(
        text, frozenset({10, 310, 320}), delay_ms=1500, error=2, remark="later", share=0.25, count=3, topic="T",
        group="G",
    )  # fmt: skip
    assert parse_rule("11:drop").codes == {11}
    assert parse_rule("PULL_MESSAGE:disconnect").codes == {11, 361}
    assert parse_rule("HEART_BEAT:lose-answer").lose_answer
    assert parse_rule("*:error=14").codes == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SEND_MESSAGE",
        "SEND:drop",
        pytest.param("1" * 5000 + ":drop", id="many digits"),
        "SEND_MESSAGE:share=0.5",
        "SEND_MESSAGE:drop:disconnect",
        "SEND_MESSAGE:drop=1",
        "SEND_MESSAGE:delay",
        "SEND_MESSAGE:delay=5",
        "SEND_MESSAGE:delay=2h",
        "SEND_MESSAGE:delay=61m",
        "SEND_MESSAGE:delay=1s:delay=1s",
        "SEND_MESSAGE:error=0",
        "SEND_MESSAGE:error=NO_SUCH",
        "SEND_MESSAGE:drop:share=0",
        "SEND_MESSAGE:drop:share=1.1",
        "SEND_MESSAGE:drop:share=nan",
        "SEND_MESSAGE:drop:count=0",
        "SEND_MESSAGE:drop:topic=",
        "SEND_MESSAGE:drop:when=now",
    ],
)
def test_what_is_no_rule_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_rule(text)
    assert "for example" in (refused.value.hint or "")


DASHES = [chr(each) for each in range(0x80, 0x20000) if unicodedata.category(chr(each)) == "Pd"] + ["\u2212"]


@pytest.mark.parametrize("dash", DASHES, ids=lambda dash: f"U+{ord(dash):04X}")
def test_every_dash_of_unicode_is_taken_for_a_minus_by_people(dash: str) -> None:
    for word in (f"{dash}n", f"{dash}{dash}yes", f"{dash}n127.0.0.1:9876", f"{dash}key=a b", f"{dash}-dry-run"):
        assert misread_character(word) == dash
    assert misread_character(f"\u200b{dash}n") == "\u200b"


def test_only_a_body_may_have_blanks() -> None:
    """`topic create New "–w 4"` made New with other queues than were typed."""
    assert misread_character("–5 degrees", is_text=True) is None
    assert misread_character("–w 4") == misread_character("–w\u00a04", is_text=True) == "–"


@in_one_test("-n", "--yes", "5 – 3 degrees", "a–b", "订单", "=–n", "", "\u00a0", "Köln", "\u200bx")
def test_other_words_are_words(word: str) -> None:
    assert misread_character(word) is None


def test_what_is_invisible_before_a_minus_is_named() -> None:
    for invisible in ("\u200b", "\ufeff", "\u00a0", "\u00ad"):
        assert misread_character(f"{invisible}--yes") == invisible


@given(st.text())
def test_no_word_in_ascii_is_misread(word: str) -> None:
    assert misread_character(word.encode("ascii", "ignore").decode()) is None


def test_what_is_wrong_inside_an_option_is_named() -> None:
    assert misread_word(["x", "--da–ta"]) == "--da–ta has en dash (U+2013) where - or a blank was meant"
    assert misread_word(["--data=–", "-k"]) is None
