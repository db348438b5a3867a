"""Requests that Apache's broker does not know, played against ours: codes without a handler, brokers in a container,
and the codes above 65,535, for which binary headers have no room."""

import pytest

from rmqproto.codes import ResponseCode
from tests.rmqserver.broker.golden_play import play
from tests.support.golden import exchange, names
from tests.support.wire import Wire


def is_unknown(name: str) -> bool:
    answer = exchange(name).recorded_answer
    return answer is not None and answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("name", [name for name in names() if is_unknown(name)])
def test_unknown_to_both(admin: Wire, name: str) -> None:
    play(admin, name)
