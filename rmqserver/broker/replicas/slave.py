"""This broker as a slave: it follows its master's log, copies its tables, and takes no messages
(``BrokerController.changeSpecialServiceStatus``, ``SendMessageProcessor.rejectRequest``, 5.5.0).
A slave's log contains only what its master has sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.statistics import DelayOffsets
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, RefusedError, StorageError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import PullAnswer, PullHeader
from rmqproto.headers.controller import HaInfoHeader, MasterFlushOffsetHeader
from rmqproto.wire.fastjson import dumps
from rmqserver.broker.relays import delay
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.broker.replicas.master_link import ASK_TIMEOUT_S
from rmqserver.broker.replicas.metadata_copy import MetadataCopy
from rmqserver.broker.replicas.same_log import OtherLog, check_same_log
from rmqserver.broker.replicas.slave_note import SlaveNote
from rmqserver.broker.tables.config_table import from_file
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.request_table import OnSlave, on_slave
from rmqserver.store.timers.timer_check import TimerCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.replicas.master_link import MasterLink
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler
    from rmqserver.store.disk.config_files import ConfigFiles
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)

REJECTED_TEXT = "[REJECTREQUEST]system busy, start flow control for a while"
NO_RESET_TEXT = "Can not reset offset in slave broker"
OTHER_LOG_TEXT = "the log of this slave is not its master's"

READS, WRITES, ENDINGS = on_slave(OnSlave.READ), on_slave(OnSlave.REFUSED), on_slave(OnSlave.ENDS_NOTHING)


def retry_at_master(pull: PullHeader, remark: str | None) -> Refused:
    """The refusal after which a consumer asks the master: after any other, it would ask here again."""
    at = pull.queue_offset
    again = PullAnswer(suggest_which_broker_id=MASTER_ID, next_begin_offset=at, min_offset=at, max_offset=at)
    return Refused(ResponseCode.PULL_RETRY_IMMEDIATELY, remark, again)


class Slave:
    """``run`` is a task of the broker."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        timer_store: TimerStore,
        files: ConfigFiles,
        address: OwnAddress,
        metadata: MetadataCopy,
        make_link: Callable[[], MasterLink],
        log_: HaSlave,
    ):
        """``log_`` follows the master's log."""
        self._config = config
        self._ip = address.ip
        self._make_link = make_link
        self._store = store
        self._files = files
        self._disk = store.disk
        self._timer_check_path = timer_store.check_path
        self._metadata = metadata
        self._note_in_store = SlaveNote(files)
        self._asked_to_copy = trio.Event()
        self._resting = trio.CancelScope()
        self._master_addr: str | None = None
        self._has_master = trio.Event()
        self._has_other_master = trio.lowlevel.ParkingLot()
        self._problem = ""
        self._has_copied = False
        """Whether the last attempt to copy the master's tables reached the master."""
        self.log = log_
        log_.check_log = self._check_log

    def load(self) -> None:
        """Call it before ``run``. Raises StorageError."""
        self._note_in_store.load()

    def handlers(self, table: Mapping[int, Handler]) -> dict[int, Handler]:
        """Handlers that replace some of the table's."""
        changed: dict[int, Handler] = dict.fromkeys(WRITES, self._reject) | dict.fromkeys(ENDINGS, self._reject_ending)
        for code in READS:
            changed[code] = self._read_by(table[code])
        reset = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        changed[reset] = self._reset_by(table[reset])
        changed[RequestCode.GET_BROKER_HA_STATUS] = self._ha_status
        changed[RequestCode.EXCHANGE_BROKER_HA_INFO] = self._take_ha_info
        changed[RequestCode.RESET_MASTER_FLUSH_OFFSET] = self._reset_master_flush_offset
        changed[RequestCode.GET_ALL_DELAY_OFFSET] = self._copied_delay_offsets
        if self._config.timer_wheel_enable:
            changed[RequestCode.GET_TIMER_CHECK_POINT] = self._copied_timer_check
        return {code: handler for code, handler in changed.items() if code in table}

    def _ha_status(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=dumps(self.log.status()))

    def _take_ha_info(self, request: Request[HaInfoHeader], connection: Connection) -> bytes:
        """The present connection to a master goes on; the address counts for the next one, until a nameserver tells
        another."""
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
        """Only shown in the status: our slave does not use the offset."""
        self.log.master_flush_offset = request.header.master_flush_offset
        return success(request)

    def _read_by(self, read: Handler) -> Handler:
        def handle(request: Request[Any], connection: Connection) -> bytes | None:
            if self.may_be_read:
                return read(request, connection)
            if self._note_in_store.is_other_log and self._has_copied:
                raise retry_at_master(request.header, OTHER_LOG_TEXT)
            return self._reject(request, connection)

        return handle

    def _reset_by(self, reset: Handler) -> Handler:
        """The next copy of the master's offsets would undo a reset in this broker; one that only tells the clients
        stays."""

        def handle(request: Request[Any], connection: Connection) -> bytes | None:
            if self._config.use_server_side_reset_offset:
                raise Refused(ResponseCode.SYSTEM_ERROR, NO_RESET_TEXT)
            return reset(request, connection)

        return handle

    @property
    def may_be_read(self) -> bool:
        """Whether consumers may read here. A slave whose log differs from the master's serves none: a consumer that
        goes on at the master would miss the messages that the master has in their place."""
        return self._config.slave_read_enable and self.log.may_be_read and not self._note_in_store.is_other_log

    @staticmethod
    def _reject(request: Request[Any], connection: Connection) -> bytes:
        raise Refused(ResponseCode.SYSTEM_BUSY, REJECTED_TEXT)

    @staticmethod
    def _reject_ending(request: Request[Any], connection: Connection) -> bytes:
        raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, None)

    def _copied_delay_offsets(self, request: Request[Any], connection: Connection) -> bytes:
        """The delay offsets copied from the master: how far it has delivered, as far as a slave knows."""
        copied = from_file(self._files.load(delay.FILE_NAME), DelayOffsets, delay.FILE_NAME)
        version = copied.data_version or DataVersion(timestamp=0)
        return success(request, body=dumps(DelayOffsets(data_version=version, offset_table=copied.offset_table)))

    def _copied_timer_check(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=TimerCheckpoint.read(self._disk, self._timer_check_path).packed())

    @property
    def master_addr(self) -> str | None:
        return self._master_addr

    @property
    def topics_known_until(self) -> int | None:
        """See ``MetadataCopy``."""
        return self._metadata.topics_known_until

    async def ask_ha_info(self, addr: str) -> HaInfoHeader:
        """Asks the master at ``addr`` where its slaves connect. Raises OSError or RefusedError."""
        link = self._make_link()
        try:
            await link.open(addr)
            return from_ext((await link.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)).ext, HaInfoHeader)
        finally:
            link.close()

    def take_master(self, addr: str, ha_addr: str) -> None:
        """Follows the master at ``addr``, whose slaves connect at ``ha_addr``."""
        if addr != self._master_addr:
            log.info("event=master-found addr=%s ha_addr=%s", addr, ha_addr)
            self._take_master_addr(addr)
        self.log.follow(ha_addr)

    async def _check_log(self) -> int:
        """Returns where the master's log ends; 0 if that is not known. Raises OtherLog if the master has another log;
        also OSError and ProtocolError."""
        if self._master_addr is None:  # this slave only knows where slaves connect
            return 0
        link = self._make_link()
        try:
            await link.open(self._master_addr)
            log_end = await check_same_log(link, self._store)
            self._note_in_store.compared(is_other_log=False)
            return log_end
        except OtherLog:
            self._note_in_store.compared(is_other_log=True)
            raise
        finally:
            link.close()

    def _take_master_addr(self, addr: str) -> None:
        self._master_addr = addr
        self._has_master.set()
        self._has_other_master.unpark_all()
        self._copy_soon()

    async def other_master(self) -> None:
        """Waits until a master is found, or another one."""
        await self._has_other_master.park()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.log.run)
            nursery.start_soon(self._copy_metadata)

    async def _copy_metadata(self) -> None:
        """Copies the master's tables regularly, and at once when asked to or when the master, one of ours, says that
        they have changed. An Apache slave copies once a minute, and consumers that go on at it start up to a minute
        back."""
        while True:
            await self._has_master.wait()
            assert self._master_addr is not None
            self._asked_to_copy = trio.Event()
            link = self._make_link()
            try:
                await link.open(self._master_addr)
                await self._copy_from(link)
            except (OSError, trio.TooSlowError, ProtocolError, StorageError) as error:
                self._has_copied = False
                self._note(str(error) or type(error).__name__)
            finally:
                link.close()
            with trio.move_on_after(self._config.sync_broker_metadata_period_ms / 1000):
                await self._asked_to_copy.wait()

    async def _copy_from(self, link: MasterLink) -> None:
        """Copies once. Goes on as long as the master has a stamp for its tables and this slave is not asked to copy:
        then the master may be another one."""
        stamp, are_tables_same = (await self._newer(link, 0))[0], False
        period_s = self._config.sync_broker_metadata_period_ms / 1000
        while True:
            is_other_log = self._note_in_store.is_other_log
            await self._metadata.round(link, is_other_log=is_other_log, are_tables_same=are_tables_same)
            self._has_copied = True
            self._note("")
            are_tables_same = False
            if stamp and not self._asked_to_copy.is_set():
                with trio.move_on_after(period_s) as self._resting:
                    stamp, are_tables_same = await self._newer(link, stamp, period_s + ASK_TIMEOUT_S)
            if not stamp or self._asked_to_copy.is_set():
                return

    async def _newer(self, link: MasterLink, stamp: int, timeout_s: float = ASK_TIMEOUT_S) -> tuple[int, bool]:
        """Waits until the master has something to copy since it told that stamp. Returns the new stamp, 0 if the master
        has none, and whether topics and groups are the same."""
        header = HaInfoHeader(slave_broker_id=self._config.broker_id, tables_stamp=stamp)
        try:
            answer = await link.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, header, timeout_s)
        except RefusedError:
            return 0, False
        found = from_ext(answer.ext, HaInfoHeader)
        return found.tables_stamp or 0, bool(found.tables_same)

    def _copy_soon(self) -> None:
        self._asked_to_copy.set()
        self._resting.cancel()

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("event=metadata-not-copied master=%s reason=%r", self._master_addr, problem)
        self._problem = problem
