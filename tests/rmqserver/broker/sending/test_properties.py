"""Properties of messages that need no special treatment, and their keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.message import properties
from rmqproto.message.properties import TIMER_NAMES
from rmqserver.broker.sending.properties import USUAL, delay_level
from rmqserver.operation import Refused
from tests.support.quick import in_one_test

WITH_A_MEANING = [
    "TRAN_MSG", "DELAY", *TIMER_NAMES, "POP_CK", "__LITE_TOPIC", "INNER_MULTI_DISPATCH", "_SYS_MSG_PRIORITY_",
    "INNER_NUM", "MSG_REGION", "TRACE_ON", "CLUSTER",
]  # fmt: skip
names = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "INSTANCE_ID", "DELAYED", "MY_MSG_REGION", "a", "订单"])
values = st.sampled_from(["7F0000010B5C18B4AAC2000000000001", "a b", "DELAY", "true", "order-1", "订单"])


def usual_keys(text: bytes) -> properties.MessageKeys | None:
    found = USUAL.fullmatch(text)
    return (found[1] or b"", found[2] or b"", found[3] or b"") if found else None


@given(st.lists(st.tuples(names, values), max_size=6))
def test_keys_of_a_usual_message_are_those_of_all_its_properties(some: list[tuple[str, str]]) -> None:
    text = "".join(f"{name}\x01{value}\x02" for name, value in some)
    is_usual = all(value.isascii() and value.isalnum() for name, value in some if name == "UNIQ_KEY")
    assert usual_keys(text.encode()) == (properties.message_keys(text.encode()) if is_usual else None)


@pytest.mark.parametrize("name", WITH_A_MEANING)
def test_a_name_with_a_meaning_makes_a_message_unusual(name: str) -> None:
    assert usual_keys(f"TAGS\x01a\x02{name}\x011\x02KEYS\x01b\x02".encode()) is None


@in_one_test("TAGS\x01a", "TAGS\x01\x02", "KEYS\x01", "WAIT\x01\x02", "\x02", "a\x02", "\x01b\x02", "UNIQ_KEY\x01-\x02")
def test_what_is_odd_is_unusual(text: str) -> None:
    assert usual_keys(text.encode()) is None


def test_the_longest_properties_take_no_longer_than_their_length() -> None:
    """A pattern that backtracks would need hours for these."""
    assert usual_keys(b"KEYS\x01" + b"a" * 30_000) is None
    assert usual_keys(b"a\x01b\x02" * 8_000 + b"a") is None
    assert usual_keys(b"WAIT\x01true\x02" * 2_000 + b"a") is None


@in_one_test("", " 3", "1_0", "3.0", "2147483648", "-2147483648000", "\u0663", "9" * 5000)
def test_what_is_no_number_to_java_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="a number is needed"):
        delay_level({"DELAY": text})


def test_a_number_may_have_a_sign() -> None:
    assert (delay_level({"DELAY": "+3"}), delay_level({"DELAY": "-1"}), delay_level({})) == (3, -1, 0)
