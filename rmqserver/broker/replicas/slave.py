"""What a slave does: it follows its master's log, copies its tables, and takes no messages
(``BrokerController.changeSpecialServiceStatus``, ``SendMessageProcessor.rejectRequest``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.fastjson import dumps
from rmqproto.headers.base import from_ext
from rmqproto.headers.controller import HaInfoHeader, MasterFlushOffsetHeader
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.broker.replicas.metadata_copy import MetadataCopy
from rmqserver.remoting.answer import Refused, Request, success

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqserver.broker.parts import BrokerParts
    from rmqserver.broker.replicas.master_link import MasterLink
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

log = logging.getLogger(__name__)

REJECTED_TEXT = "[REJECTREQUEST]system busy, start flow control for a while"

_READS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_WRITES = (
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.POP_MESSAGE, RequestCode.POP_LITE_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
)  # fmt: skip
_ENDINGS = (RequestCode.END_TRANSACTION, RequestCode.RECALL_MESSAGE)


class Slave:
    """``run`` is a task of the broker."""

    def __init__(self, parts: BrokerParts, make_link: Callable[[], MasterLink], log_: HaSlave):
        """``log_`` follows the master's log."""
        self._config = parts.config
        self._make_link = make_link
        self._metadata = MetadataCopy(parts)
        self._master_addr: str | None = None
        self._has_master = trio.Event()
        self._problem = ""
        self.log = log_

    def handlers(self, table: Mapping[int, Handler]) -> dict[int, Handler]:
        """What takes the place of some of these."""
        changed: dict[int, Handler] = dict.fromkeys(_WRITES, self._reject) | dict.fromkeys(
            _ENDINGS, self._reject_ending
        )
        for code in _READS:
            changed[code] = self._read_by(table[code])
        changed[RequestCode.GET_BROKER_HA_STATUS] = self._ha_status
        changed[RequestCode.EXCHANGE_BROKER_HA_INFO] = self._take_ha_info
        changed[RequestCode.RESET_MASTER_FLUSH_OFFSET] = self._reset_master_flush_offset
        return {code: handler for code, handler in changed.items() if code in table}

    def _ha_status(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=dumps(self.log.status()))

    def _take_ha_info(self, request: Request[HaInfoHeader], connection: Connection) -> bytes:
        """Who follows a master goes on; the address counts for the next connection, until a nameserver tells one."""
        header = request.header
        if header.master_ha_address:
            log.info("event=master-told addr=%s ha_addr=%s", header.master_address, header.master_ha_address)
            self.log.follow_next(header.master_ha_address)
            if header.master_address:
                self._take_master_addr(header.master_address)
            if self._config.sync_master_flush_offset_when_startup and not self.log.master_flush_offset:
                self.log.master_flush_offset = header.master_flush_offset or 0
        return success(request, HaInfoHeader())

    def _reset_master_flush_offset(self, request: Request[MasterFlushOffsetHeader], connection: Connection) -> bytes:
        """It is shown, and nothing hangs on it: our slave never takes from it what it has itself."""
        self.log.master_flush_offset = request.header.master_flush_offset
        return success(request)

    def _read_by(self, read: Handler) -> Handler:
        def handle(request: Request[Any], connection: Connection) -> bytes | None:
            may_read = self._config.slave_read_enable and self.log.may_be_read
            return read(request, connection) if may_read else self._reject(request, connection)

        return handle

    @staticmethod
    def _reject(request: Request[Any], connection: Connection) -> bytes:
        raise Refused(ResponseCode.SYSTEM_BUSY, REJECTED_TEXT)

    @staticmethod
    def _reject_ending(request: Request[Any], connection: Connection) -> bytes:
        raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, None)

    @property
    def master_addr(self) -> str | None:
        return self._master_addr

    async def ask_ha_info(self, addr: str) -> HaInfoHeader:
        """What the master there says of where its slaves connect. OSError, RefusedError."""
        link = self._make_link()
        try:
            await link.open(addr)
            return from_ext((await link.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)).ext, HaInfoHeader)
        finally:
            link.close()

    def take_master(self, addr: str, ha_addr: str) -> None:
        """A nameserver has told where the master is, and where its slaves connect."""
        if addr != self._master_addr:
            log.info("event=master-found addr=%s ha_addr=%s", addr, ha_addr)
            self._take_master_addr(addr)
        self.log.follow(None if self._metadata.is_ahead else ha_addr)

    def _take_master_addr(self, addr: str) -> None:
        self._master_addr = addr
        self._has_master.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.log.run)
            nursery.start_soon(self._copy_metadata)

    async def _copy_metadata(self) -> None:
        """An Apache slave asks once a minute, and consumers that go on at it then start up to a minute back."""
        while True:
            await self._has_master.wait()
            assert self._master_addr is not None
            link = self._make_link()
            try:
                await link.open(self._master_addr)
                await self._metadata.round(link)
                self._note("")
            except (OSError, trio.TooSlowError, ProtocolError, StorageError) as error:
                self._note(str(error) or type(error).__name__)
            finally:
                link.close()
            if self._metadata.is_ahead:
                self.log.follow(None)
            await trio.sleep(self._config.sync_broker_metadata_period_ms / 1000)

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("event=metadata-not-copied master=%s reason=%r", self._master_addr, problem)
        self._problem = problem
