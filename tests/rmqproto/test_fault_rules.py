from __future__ import annotations

import pytest

from rmqproto.errors import UsageError
from rmqproto.fault_rules import FaultRule, parse_rule


def test_what_a_rule_says() -> None:
    text = "SEND_MESSAGE:delay=1.5s:error=SYSTEM_BUSY:remark=later:share=0.25:count=3:topic=T:group=G"
    assert parse_rule(text) == FaultRule(
        text,
        frozenset({10, 310, 320}),
        delay_ms=1500,
        error=2,
        remark="later",
        share=0.25,
        count=3,
        topic="T",
        group="G",
    )
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
