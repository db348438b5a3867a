"""Tag expressions: their tags, and the messages that they match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.filters.subscription import parse_tags, subscription_data
from rmqproto.java.java_hash import tag_code
from rmqproto.wire import fastjson


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_and_a_star_are_everything(expression: str | None) -> None:
    wanted = parse_tags(expression)
    assert wanted.tags is None
    assert wanted.matches(None)
    assert wanted.matches("TagA")


def test_tags_are_split_at_double_bars_and_trimmed() -> None:
    wanted = parse_tags("TagA || 中文|| ||TagB")
    assert wanted.tags == {"TagA", "TagB", "中文"}
    assert 2598919 in wanted.codes  # Java's "TagA".hashCode()
    assert 646394 in wanted.codes
    assert wanted.matches("TagB")
    assert not wanted.matches(None)
    assert not wanted.matches("TagA || TagB")


def test_separators_alone_match_nothing_rather_than_everything() -> None:
    assert not parse_tags("||").matches("TagA")
    assert not parse_tags(" || ").codes


def test_tags_with_one_hash_differ_for_the_client_only() -> None:
    """A broker compares 32-bit hashes. Without the client's own check, a consumer of "Aa" would get messages for
    "BB"."""
    wanted = parse_tags("Aa")
    assert tag_code("Aa") == tag_code("BB")
    assert tag_code("BB") in wanted.codes
    assert not wanted.matches("BB")


def test_subscription_data_is_what_a_java_client_sends() -> None:
    assert fastjson.dumps(subscription_data("T", "B||A", version=17)) == (
        b'{"classFilterMode":false,"codeSet":[65,66],"expressionType":"TAG","subString":"B||A","subVersion":17,'
        b'"tagsSet":["A","B"],"topic":"T"}'
    )
    assert subscription_data("T", "", version=1).sub_string == "*"
    sql = subscription_data("T", "a > 1", version=1, expression_type="SQL92")
    assert (sql.sub_string, sql.tags_set, sql.code_set) == ("a > 1", [], [])


@given(st.lists(st.text(st.characters(exclude_characters="|"), min_size=1).filter(str.strip)))
def test_a_wanted_tag_always_matches(tags: list[str]) -> None:
    """If a wanted tag does not match, the group loses messages."""
    wanted = parse_tags(" || ".join(tags))
    for tag in {tag.strip() for tag in tags} - {"*"}:
        assert wanted.matches(tag)
        assert tag_code(tag) in wanted.codes
