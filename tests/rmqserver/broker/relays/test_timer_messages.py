"""A timer message is read and copied the same wherever its properties stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.message.record import StoredMessage
from rmqproto.names import TIMER_TOPIC
from rmqserver.broker.relays.timer_messages import timer_message

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
USUAL_END = [("TIMER_OUT_MS", "1800000000000"), ("REAL_TOPIC", "订单"), ("REAL_QID", "2")]
MORE = {
    "UNIQ_KEY": "K", "KEYS": "TIMER_ENQUEUE_MS", "a": "REAL_TOPIC\x01T", "TIMER_DEL_UNIQKEY": "K",
    "TIMER_ROLL_TIMES": "3", "TIMER_ENQUEUE_MS": "1", "TIMER_DEQUEUE_MS": "2", "TIMER_DELAY_SEC": "5",
}  # fmt: skip

Entries = list[tuple[str, str]]


def stored(properties: bytes) -> StoredMessage:
    return StoredMessage(0, 0, 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, b"", TIMER_TOPIC, properties)


def text_of(entries: Entries) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in entries)


ends = st.just(USUAL_END) | st.permutations(USUAL_END)
more = st.lists(st.sampled_from(sorted(MORE.items())), max_size=4, unique=True)


@given(ends, more, st.integers(0, 4), st.booleans(), st.booleans())
def test_what_is_read_and_the_copy(end: Entries, more: Entries, behind: int, is_closed: bool, is_roll: bool) -> None:
    """Apache's broker writes the properties in another order than ours, and old ones leave out the last separator."""
    entries = [*more[behind:], *end, *more[:behind]]
    text = text_of(entries)
    message = timer_message(stored((text if is_closed else text[:-1]).encode()))
    assert message[1:5] == ("订单", 2, 1_800_000_000_000, "TIMER_DEL_UNIQKEY" in dict(entries))
    expected = dict(entries) | {"TIMER_ENQUEUE_MS": "7"}
    if is_roll:
        expected["TIMER_ROLL_TIMES"] = str(int(expected.get("TIMER_ROLL_TIMES", 0)) + 1)
    expected["TIMER_DEQUEUE_MS"] = "8"
    assert message.properties_of_copy(7, 8, is_roll=is_roll) == text_of(list(expected.items())).encode()


def test_the_last_of_doubled_properties_counts() -> None:
    entries = [("REAL_TOPIC", "T"), ("TIMER_OUT_MS", "1"), *USUAL_END]
    assert timer_message(stored(text_of(entries).encode()))[1:4] == ("订单", 2, 1_800_000_000_000)


@pytest.mark.parametrize("damage", ["", "x", "99999999999999999999999"])
@pytest.mark.parametrize("name", ["TIMER_OUT_MS", "REAL_QID", "REAL_TOPIC"])
def test_a_message_that_does_not_say_where_and_when_is_refused(name: str, damage: str) -> None:
    entries = list((dict(USUAL_END) | {name: damage}).items())
    if damage == "" or (damage == "x" and name != "REAL_TOPIC"):
        with pytest.raises(ProtocolError):
            timer_message(stored(text_of(entries).encode()))
    else:
        timer_message(stored(text_of(entries).encode()))


@given(more)
def test_recalls_name_the_key_with_or_without_the_topic(more: Entries) -> None:
    message = timer_message(stored(text_of([*more, ("UNIQ_KEY", "K"), *USUAL_END]).encode()))
    assert message.is_recalled({"K"})
    assert message.is_recalled({"订单+K"})
    assert not message.is_recalled({"T+K", "X"})
    assert not message.is_recalled(set())
