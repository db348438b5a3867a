"""Configuration text in both directions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqclient.admin.config_text import config_request, config_values_untrusted
from rmqproto.java import java_properties


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_values_arrive_as_given(values: dict[str, str]) -> None:
    """A Windows path or a message delay table must keep its backslashes and blanks."""
    sent = config_request(values)
    assert sent.isascii()
    assert java_properties.parse_untrusted(sent) == values


def test_what_only_our_server_has_is_a_comment_of_its_answer() -> None:
    answer = b"a=1\n#ours=0\n"
    assert config_values_untrusted(answer) == {"a": "1"}
    assert config_values_untrusted(answer, with_own_defaults=True) == {"a": "1", "ours": "0"}


def test_an_answer_is_raw() -> None:
    answer = "path=C:\\temp\\new\nmessageDelayLevel= 1s 2s\nempty=\nurl=a=b:c\n\nno pair\n中=文\n".encode()
    assert config_values_untrusted(answer) == {
        "path": "C:\\temp\\new",
        "messageDelayLevel": " 1s 2s",
        "empty": "",
        "url": "a=b:c",
        "中": "文",
    }
