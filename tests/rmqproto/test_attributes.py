"""Attributes of topics and groups, and Apache's remarks when they are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, alter, parse_untrusted
from rmqproto.errors import ProtocolError
from tests.support.quick import in_one_test

TWICE = "alter duplication key. key: "


def test_changes_keep_their_signs() -> None:
    text = "+message.type=FIFO,-reserve.time, ,+lite.topic.expiration=5"
    assert parse_untrusted(text) == {"+message.type": "FIFO", "-reserve.time": "", "+lite.topic.expiration": "5"}
    assert parse_untrusted(None) == {}
    assert parse_untrusted("") == {}


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("-message.type=FIFO", "add/alter attribute format is wrong: -message.type"),
        ("+message.type", "delete attribute format is wrong: +message.type"),
        ("+a=1,+a=2", "key duplication: +a"),
    ],
)
def test_another_form_is_refused_in_apaches_words(text: str, remark: str) -> None:
    with pytest.raises(ProtocolError, match="^" + remark.replace("+", r"\+") + "$"):
        parse_untrusted(text)


def test_attributes_are_set_changed_and_removed() -> None:
    made = alter(TOPIC_ATTRIBUTES, None, {"+message.type": "FIFO"})
    assert made == {"message.type": "FIFO"}
    changed = alter(TOPIC_ATTRIBUTES, made, {"+message.type": "DELAY", "+reserve.time": "-1"})
    assert changed == {"message.type": "DELAY", "reserve.time": "-1"}
    assert alter(TOPIC_ATTRIBUTES, changed, {"-message.type": ""}) == {"reserve.time": "-1"}
    assert changed == {"message.type": "DELAY", "reserve.time": "-1"}


def test_no_change_keeps_what_is_there_even_if_we_do_not_know_it() -> None:
    """A newer broker may have written it."""
    assert alter(TOPIC_ATTRIBUTES, {"from.the.future": "1"}, {}) == {"from.the.future": "1"}


@in_one_test(
    (None, {"+no.such": "1"}, "unsupported key: no.such"),
    (None, {"-message.type": ""}, "only add attribute is supported while creating topic. key: message.type"),
    ({}, {"-message.type": ""}, "attempt to delete a nonexistent key: message.type"),
    ({}, {"+queue.type": "SimpleCQ"}, "attempt to update an unchangeable attribute. key: queue.type"),
    ({}, {"message.type": "FIFO"}, "wrong format key: essage.type"),
    ({}, {"+": "FIFO"}, "kv string format wrong."),
    ({}, {"+-a": "FIFO"}, "kv string format wrong."),
    (
        {"reserve.time": "1"},
        {"+reserve.time": "2", "-reserve.time": ""},
        "alter duplication key. key: reserve.time",
    ),
    (None, {"+lite.topic.expiration": "43201"}, "value is not in range(-1, 43200)"),
    (None, {"+reserve.time": "x"}, 'For input string: "x"'),
    (None, {"+reserve.time": "1_0"}, 'For input string: "1_0"'),
    (None, {"+cleanup.policy": "x"}, "value is not in set: [DELETE, COMPACTION]"),
)
def test_a_topics_attribute_is_refused(current: dict[str, str] | None, changes: dict[str, str], remark: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        alter(TOPIC_ATTRIBUTES, current, changes)
    assert str(refused.value) == remark


def test_groups_have_attributes_of_their_own() -> None:
    made = alter(GROUP_ATTRIBUTES, None, {"+priority.factor": "50", "+lite.sub.reset.offset.exclusive": "TRUE"})
    assert made == {"priority.factor": "50", "lite.sub.reset.offset.exclusive": "TRUE"}
    with pytest.raises(ProtocolError, match="boolean attribute format is wrong"):
        alter(GROUP_ATTRIBUTES, None, {"+lite.sub.reset.offset.exclusive": "yes"})


@given(st.text(alphabet="+-=, ab.ü", max_size=30))
def test_any_text_is_changes_or_a_refusal(text: str) -> None:
    try:
        changes = parse_untrusted(text)
        alter(TOPIC_ATTRIBUTES, {}, changes)
    except ProtocolError:
        pass
