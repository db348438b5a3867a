"""What a slave copies of its master beside the log, from answers that a test gives."""

from __future__ import annotations

from typing import Any

import pytest

from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.wire.command import Command
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.replicas.metadata_copy import MetadataCopy


class RefusingMaster:
    def __init__(self) -> None:
        self.asked: list[int] = []

    async def ask(self, code: int, *_: object) -> Command:
        self.asked.append(code)
        raise RefusedError(ResponseCode.SYSTEM_ERROR, "not now")


@pytest.mark.trio
async def test_all_is_asked_for_in_apaches_order_whatever_is_refused(parts: BrokerParts) -> None:
    master = RefusingMaster()
    link: Any = master
    await MetadataCopy(parts).round(link)
    assert master.asked == [21, 43, 45, 201, 402, 60]
