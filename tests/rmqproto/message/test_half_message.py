"""What op messages say."""

from rmqproto.message.half_message import offsets_of


def test_what_is_no_number_in_an_op_message_is_skipped() -> None:
    """A file may hold anything, and Python refuses to read thousands of digits."""
    assert offsets_of(b"7,x,12,," + b"9" * 5000 + b",3") == [7, 12, 3]
