"""Words that a person reads as options and a program does not."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.misread_words import misread_character, misread_word

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


@pytest.mark.parametrize(
    "word", ["-n", "--yes", "5 – 3 degrees", "a–b", "订单", "=–n", "", "\u00a0", "Köln", "\u200bx"]
)
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
