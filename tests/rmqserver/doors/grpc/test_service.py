from typing import Any
from unittest.mock import MagicMock

import pytest
import trio
import trio.testing

from rmqserver.doors.grpc.grpc_service import RENEW_EVERY_S, GrpcService


def test_a_broker_that_asks_who_calls_takes_plain_calls_too() -> None:
    broker: Any = MagicMock(slave=None)
    broker.auth_settings.asks = True
    broker.config.max_requests_in_flight_per_connection = 0
    broker.replicas.put_refusal.return_value = None
    assert GrpcService(broker, lambda places: []).plain_calls() is not None


@pytest.mark.trio
async def test_a_mistake_in_a_renewal_does_not_end_the_broker(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[float] = []
    broker: Any = MagicMock()
    broker.end_round = lambda: rounds.append(trio.current_time())
    service = GrpcService(broker, list)

    def fails(now_s: float) -> None:
        raise OverflowError("more than a struct takes")

    monkeypatch.setattr(service.clients, "expire", fails)
    with trio.move_on_after(3.5 * RENEW_EVERY_S):
        await service.run()
    assert len(rounds) == 3
