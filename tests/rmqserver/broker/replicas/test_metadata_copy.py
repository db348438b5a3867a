"""What a slave copies of its master beside the log, from answers that a test gives."""

from __future__ import annotations

from typing import Any

import pytest

from rmqproto.bodies.master import HaStatus
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.replicas.metadata_copy import MetadataCopy
from tests.rmqserver.store.conftest import put


class BusyMaster:
    """Says how long its log is; while the answer is on its way, both logs grow."""

    def __init__(self, parts: BrokerParts):
        self._store = parts.store

    async def ask(self, code: int) -> Command:
        status = HaStatus(master_commit_log_max_offset=self._store.written_offset)
        put(self._store)
        self._store.commit()
        return Command(code=0, body=dumps(status))


class RefusingMaster:
    def __init__(self) -> None:
        self.asked: list[int] = []

    async def ask(self, code: int, *_: object) -> Command:
        self.asked.append(code)
        raise RefusedError(ResponseCode.SYSTEM_ERROR, "not now")


@pytest.mark.trio
async def test_all_is_asked_for_in_apaches_order_whatever_is_refused(parts: BrokerParts) -> None:
    """First how long the log is, which is ours."""
    master = RefusingMaster()
    link: Any = master
    await MetadataCopy(parts).round(link)
    assert master.asked == [907, 21, 43, 45, 201, 402, 60]


@pytest.mark.trio
async def test_a_log_that_grows_meanwhile_is_not_ahead(parts: BrokerParts) -> None:
    """A slave that took itself to be ahead followed nobody until a nameserver told it again, half a minute later."""
    copy, master = MetadataCopy(parts), BusyMaster(parts)
    for _ in range(3):
        link: Any = master
        await copy._log_end(link)
        assert not copy.is_ahead
