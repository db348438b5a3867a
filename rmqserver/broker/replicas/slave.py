"""This broker as a slave: it follows its master's log and copies its tables
(``BrokerController.changeSpecialServiceStatus``, 5.5.0). A slave's log contains only what its master has sent."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
import trio

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.replication import SlaveLog, SlaveLogFile
from rmqproto.bodies.statistics import DelayOffsets
from rmqproto.codes import RequestCode
from rmqproto.errors import ProtocolError, RefusedError, StorageError
from rmqproto.headers.base import from_ext
from rmqproto.headers.controller import HaInfoHeader
from rmqserver.broker.relays import delay
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.broker.replicas.metadata_copy import MetadataCopy
from rmqserver.broker.replicas.same_log import ASK_TIMEOUT_S, OtherLog, check_same_log
from rmqserver.broker.tables.config_table import from_file
from rmqserver.store.timers.timer_check import TimerCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqserver.broker.replicas.same_log import MasterLink
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)


class Slave:
    """``run`` is a task of the broker."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, timer_store: TimerStore, files: ConfigFiles,
        metadata: MetadataCopy, make_link: Callable[[], MasterLink], log_: HaSlave,
    ):  # fmt: skip
        """``log_`` follows the master's log."""
        self._config = config
        self._make_link = make_link
        self._store = store
        self._files = files
        self._timer_check_path = timer_store.check_path
        self._metadata = metadata
        self._note_in_store = SlaveNote(files)
        self._asked_to_copy = trio.Event()
        self._resting = trio.CancelScope()
        self.master_addr: str | None = None
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

    # --- what it is asked --------------------------------------------------------------------------------------------

    def told_master(self, header: HaInfoHeader) -> None:
        """The present connection to a master goes on; the address counts for the next one, until a nameserver tells
        another."""
        if header.master_ha_address:
            log.info("event=master-told addr=%s ha_addr=%s", header.master_address, header.master_ha_address)
            self.log.follow_next(header.master_ha_address)
            if header.master_address:
                self._take_master_addr(header.master_address)
            if self._config.sync_master_flush_offset_when_startup and not self.log.master_flush_offset:
                self.log.master_flush_offset = header.master_flush_offset or 0

    @property
    def may_be_read(self) -> bool:
        """Whether consumers may read here. A slave whose log differs from the master's serves none: a consumer that
        goes on at the master would miss the messages that the master has in their place."""
        return self._config.slave_read_enable and self.log.may_be_read and not self._note_in_store.is_other_log

    @property
    def is_beside_master(self) -> bool:
        """Whether its log differs from its master's, and the master is there."""
        return self._note_in_store.is_other_log and self._has_copied

    def delay_offsets(self) -> DelayOffsets:
        """The delay offsets copied from the master: how far it has delivered, as far as a slave knows."""
        copied = from_file(self._files.load(delay.FILE_NAME), DelayOffsets, delay.FILE_NAME)
        version = copied.data_version or DataVersion(timestamp=0)
        return DelayOffsets(data_version=version, offset_table=copied.offset_table)

    def timer_checkpoint(self) -> bytes:
        """As copied from the master."""
        return TimerCheckpoint.read(self._store.disk, self._timer_check_path).packed()

    # --- following ---------------------------------------------------------------------------------------------------

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
        if addr != self.master_addr:
            log.info("event=master-found addr=%s ha_addr=%s", addr, ha_addr)
            self._take_master_addr(addr)
        self.log.follow(ha_addr)

    async def _check_log(self) -> int:
        """Returns where the master's log ends; 0 if that is not known. Raises OtherLog if the master has another log;
        also OSError and ProtocolError."""
        if self.master_addr is None:  # this slave only knows where slaves connect
            return 0
        link = self._make_link()
        try:
            await link.open(self.master_addr)
            log_end = await check_same_log(link, self._store)
            self._note_in_store.compared(is_other_log=False)
            return log_end
        except OtherLog:
            self._note_in_store.compared(is_other_log=True)
            raise
        finally:
            link.close()

    def _take_master_addr(self, addr: str) -> None:
        self.master_addr = addr
        self._has_master.set()
        self._has_other_master.unpark_all()
        self._asked_to_copy.set()
        self._resting.cancel()

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
            assert self.master_addr is not None
            self._asked_to_copy = trio.Event()
            link = self._make_link()
            try:
                await link.open(self.master_addr)
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
        copied = 0  # what the master is told: progress that waits for the log is not copied yet
        period_s = self._config.sync_broker_metadata_period_ms / 1000
        while True:
            is_other_log = self._note_in_store.is_other_log
            await self._metadata.round(link, is_other_log=is_other_log, are_tables_same=are_tables_same)
            self._has_copied = True
            self._note("")
            if not self._metadata.is_waiting:
                copied = stamp
            are_tables_same = False
            if stamp and not self._asked_to_copy.is_set():
                with trio.move_on_after(period_s) as self._resting:
                    newer, is_same = await self._newer(link, copied, period_s + ASK_TIMEOUT_S)
                    stamp, are_tables_same = newer, is_same or newer == stamp
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

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("event=metadata-not-copied master=%s reason=%r", self.master_addr, problem)
        self._problem = problem


FILE_NAME = "slaveLog.json"
"""Apache's brokers have no such file."""


class SlaveNote:
    """What a slave records in its store for its next start: that it was a slave, and whether its log differs from its
    master's. The logs cannot be compared while the master is away."""

    def __init__(self, files: ConfigFiles):
        self.is_other_log = False
        self._files = files

    def load(self) -> None:
        """Call it when the broker starts as a slave. Raises StorageError."""
        self.is_other_log = _read(self._files).is_other_log
        self._save()

    def compared(self, *, is_other_log: bool) -> None:
        if is_other_log is not self.is_other_log:
            self.is_other_log = is_other_log
            self._save()

    def _save(self) -> None:
        _save(self._files, SlaveLog(is_slave=True, is_other_log=self.is_other_log))


def was_slave(files: ConfigFiles) -> bool:
    """Whether the broker's tables are copies of another broker's, whose log may be longer. Raises StorageError."""
    return _read(files).is_slave


def forget_slave_note(files: ConfigFiles) -> None:
    """Records that this broker is no longer a slave."""
    if was_slave(files):
        _save(files, SlaveLog())


def _read(files: ConfigFiles) -> SlaveLog:
    return from_file(files.load(FILE_NAME), SlaveLogFile, FILE_NAME).slave_log


def _save(files: ConfigFiles, note: SlaveLog) -> None:
    files.save_now(FILE_NAME, {"slaveLog": msgspec.to_builtins(note)})
