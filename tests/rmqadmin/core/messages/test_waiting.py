"""Half messages of open transactions, read from a real broker without moving anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqadmin.core.messages import waiting
from rmqadmin.core.messages.waiting import half_rows
from rmqclient.admin import AdminClient
from rmqproto.codes import RequestCode
from rmqproto.headers.sending import COMMIT, ROLLBACK
from rmqproto.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC
from tests.rmqserver.broker.transactions.test_server import GROUP, ending, send_half
from tests.support.servers import standalone, until
from tests.support.wire import Wire


@pytest.mark.slow
def test_ended_transactions_are_not_open_and_those_past_the_bound_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("--set", "transactionOpBatchInterval=50", "--set", "transactionCheckInterval=3600000")
    with standalone(tmp_path, *settings) as server, AdminClient(server.namesrv_addr) as admin:
        addr = server.broker_addr
        assert half_rows(admin, "broker-a", addr) == ([], True)
        with Wire(addr) as wire:
            halves = [send_half(wire, body) for body in (b"a", b"b", b"c", b"d")]
            for half, decision in ((halves[0], COMMIT), (halves[2], ROLLBACK)):
                assert wire.ask(RequestCode.END_TRANSACTION, ending(half, decision)).code == 0
            until(lambda: half_rows(admin, "broker-a", addr)[0][0].open_count == 2)
            [row], is_all = half_rows(admin, "broker-a", addr)
        assert (row.broker_name, row.topic, row.group, row.check_count) == ("broker-a", "TransTopic", GROUP, 0)
        assert is_all
        before = admin.consumer_offset(addr, TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0)
        monkeypatch.setattr(waiting, "READ_MAX", 3)
        [few], is_all = half_rows(admin, "broker-a", addr)
        assert (few.open_count, is_all) == (1, False)
        assert admin.consumer_offset(addr, TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0) == before
