"""What a server has made of a new value of a property."""

from collections.abc import Mapping

import pytest

from rmqadmin.core.servers.server_configs import PassedOverError, plan_property


@pytest.mark.parametrize(
    ("value", "made", "said"),
    [
        ("48", "48", None),
        ("048", "48", None),
        ("+48", "48", None),
        ("9000", "9000.0", None),
        ("ON", "on", None),
        ("abc", "72", "it stays '72'"),
        ("9", "0", "is now '0'"),
    ],
)
def test_a_value_that_is_not_what_was_asked_for_is_an_error(value: str, made: str, said: str | None) -> None:
    """Only the old value was: Apache's broker made false of yes, and that was a success."""
    config = {"k": "72"}

    def read(_addr: str, /, *, with_own_defaults: bool) -> dict[str, str]:
        return config

    def write(_addr: str, _values: Mapping[str, str]) -> None:
        config["k"] = made

    step = plan_property(
        "broker b", "b", "k", value, read=read, write=write, is_checked=True, listing="", undo=["updateBrokerConfig"]
    )
    if said is None:
        step.act()
    else:
        with pytest.raises(PassedOverError, match=said):
            step.act()
