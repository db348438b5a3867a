"""What is said when a broker does not take the new mapping of a static topic."""

from typing import Any

import pytest

from rmqadmin.core.topics.static_mapping import empty
from rmqadmin.core.topics.static_topics import MappingWriter
from rmqproto.bodies.routes import TopicRemappingDetail
from rmqproto.errors import NotConnectedError, RefusedError, RequestTimeoutError, RocketMQError

ADDRS = {"a": "a:1", "b": "b:1"}
PLAN = TopicRemappingDetail(topic="T", epoch=1, broker_config_map={name: empty("T", name) for name in ADDRS})


class Brokers:
    """Brokers of which one fails."""

    def __init__(self, failing: str, error: RocketMQError):
        self.failing = failing
        self.error = error

    def create_static_topic(self, addr: str, *_: Any, force: bool) -> None:
        if addr == self.failing:
            raise self.error


@pytest.mark.parametrize(
    ("failing", "error", "those"),
    [
        ("a:1", RefusedError(1, "no", hint="its own"), None),
        ("a:1", NotConnectedError("nobody there", hint="its own"), None),
        ("b:1", RefusedError(1, "no", hint="its own"), "a"),
        ("a:1", RequestTimeoutError("silent"), "a"),
        ("b:1", RequestTimeoutError("silent"), "a, b"),
    ],
)
def test_only_brokers_that_were_given_the_mapping_are_said_to_have_it(
    failing: str, error: RocketMQError, those: str | None
) -> None:
    """After a refusal by the only broker, other brokers were said to have the new mapping."""
    brokers: Any = Brokers(failing, error)
    with pytest.raises(type(error)) as caught:
        MappingWriter(brokers, ADDRS, "/tmp/T-1.after", force=False).update(PLAN)
    wanted = f"{those} may have the new mapping: apply it to all with -mf /tmp/T-1.after -fr true."
    assert caught.value.hint == (wanted if those is not None else "its own")
