"""What op messages say, and recall handles of timer messages in the form of Apache's broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.message.special_messages import RecallHandle, offsets_of, parse_recall_untrusted

GOLDEN = "djEgVGltZXJUb3BpYyBicm9rZXItYSAxNzk1MjY2NTIyMDAxIDdGMDAwMDAxMTI3MzRFMEUyRjJBNjlCNUNGRDQwMDUy"
NAMES = st.text(st.characters(blacklist_characters=" ", blacklist_categories=["Cs"]))


def test_a_handle_of_apaches() -> None:
    handle = RecallHandle("TimerTopic", "broker-a", "1795266522001", "7F00000112734E0E2F2A69B5CFD40052")
    assert parse_recall_untrusted(GOLDEN) == handle
    assert handle.render() == GOLDEN


@given(st.builds(RecallHandle, NAMES, NAMES, NAMES, NAMES))
def test_what_is_rendered_is_read(handle: RecallHandle) -> None:
    assert parse_recall_untrusted(handle.render()) == handle


@pytest.mark.parametrize("text", ["", "bm9uc2Vuc2U=", GOLDEN[:-1], GOLDEN + "!", "djI" + GOLDEN[3:], "\u00e9"])
def test_what_is_no_handle(text: str) -> None:
    with pytest.raises(ProtocolError, match="recall handle is invalid"):
        parse_recall_untrusted(text)


def test_what_is_no_number_in_an_op_message_is_skipped() -> None:
    """A file may hold anything, and Python refuses to read thousands of digits."""
    assert offsets_of(b"7,x,12,," + b"9" * 5000 + b",3") == [7, 12, 3]
