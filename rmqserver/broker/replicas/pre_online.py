"""How a master whose slaves act for it comes back (``BrokerPreOnlineService``, 5.5.0): before it registers with a
nameserver, it tells each slave, lets it follow again, and asks it how far consumers have come.

Unlike Apache's master, it does not ask how far a slave has delivered delays and timers elsewhere
(``enableRemoteEscape``): a slave may have heard of a delivery whose record is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from rmqproto.bodies.master import HaStatus
from rmqproto.bodies.statistics import ConsumerOffsetsBody
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, RefusedError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.controller import HaInfoHeader
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.broker.replicas.slave import ENDINGS, WRITES
from rmqserver.broker.tables.offsets import NOTHING
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.broker.replicas.master_link import MasterLink
    from rmqserver.broker.replicas.members import Addrs, KnownMembers
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

log = logging.getLogger(__name__)

NOT_ASKED_TEXT = "service not available now: this master comes back, and has not asked its slaves yet"

AGAIN_AFTER_S = 1.0
FOLLOWED_MAX_S = 10.0
"""How long to wait for a slave to follow. A slave that does not has to find this master by itself."""

FOLLOWED_LOOK_S = 0.05

LATE_S = 90.0
LATE_LOOK_S = 2.0
"""For how long, and how often, slaves are asked again: clients ask nameservers only every 30 s where the master is. An
Apache slave forgets offsets committed to it within a minute."""


class NotYet(Exception):
    """Why this master may not register with nameservers yet."""


class PreOnline:
    """``run`` returns when the master may register with nameservers."""

    def __init__(
        self,
        parts: BrokerParts,
        members: KnownMembers,
        make_link: Callable[[], MasterLink],
        own_addr: Callable[[], str | None],
    ):
        """``own_addr`` returns the address under which this broker registers, once a nameserver is connected."""
        self._config = parts.config
        self._store = parts.store
        self._offsets = parts.offsets
        self._replicas = parts.replicas
        self._members = members
        self._make_link = make_link
        self._own_addr = own_addr
        self._done: set[str] = set()
        self._has_asked = False
        self._ahead: dict[str, str] = {}
        """Slaves whose log is longer than this master's: what to do about each, by address."""
        self._running = trio.Lock()
        self._returned = trio.Event()
        self._late_until_s = 0.0
        self._seen: dict[str, ConsumerOffsetsBody] = {}
        """The last answer of each slave that was asked, by address."""
        self._problem = ""

    def handlers(self, table: Mapping[int, Handler]) -> dict[int, Handler]:
        """Handlers that refuse some requests until the slaves were asked. Otherwise clients that still know this
        address could have messages stored at queue offsets where others were read at a slave. And a slave could copy
        offsets that are as old as their file, and forget its own, which are further."""
        codes = (*WRITES, *ENDINGS, RequestCode.GET_ALL_CONSUMER_OFFSET)
        return {code: self._once_asked(table[code]) for code in codes if code in table}

    def _once_asked(self, handle: Handler) -> Handler:
        def handle_then(request: Request[Any], connection: Connection) -> bytes | None:
            if not self._has_asked:
                raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, NOT_ASKED_TEXT)
            return handle(request, connection)

        return handle_then

    async def run(self) -> None:
        """Tries until each slave that the nameservers know has been asked. Apache's master does this only at its start,
        and only with ``totalReplicas`` above 1."""
        async with self._running:
            self._done.clear()
            while not await self._try():
                await trio.sleep(AGAIN_AFTER_S)
        self._note("")
        self._has_asked = True
        self._late_until_s = trio.current_time() + LATE_S
        self._returned.set()
        log.info("event=online slaves_asked=%d", len(self._done))

    async def _try(self) -> bool:
        try:
            found = await self._members.ask(connects=True)
            if not found:
                raise NotYet("no nameserver answers")
            for broker_id, addr in sorted(_slaves(found).items()):
                if addr not in self._done:
                    await self._ask_slave(broker_id, addr)
                    self._done.add(addr)
            for problem in self._ahead.values():  # its operator may be about to make it the master
                raise NotYet(f"{problem}; it is away now")
        except (OSError, trio.TooSlowError, ProtocolError, RefusedError, NotYet) as error:
            self._note(str(error) or type(error).__name__)
            return False
        return True

    async def _ask_slave(self, broker_id: int, addr: str) -> None:
        link = self._make_link()
        try:
            await link.open(addr)
            await self._check_log(link, addr)
            own_addr = self._own_addr()
            if own_addr is None:
                raise NotYet("the nameserver is gone")
            ha_addr = self._config.ha_addr(own_addr.rpartition(":")[0])
            end = self._store.written_offset
            header = HaInfoHeader(master_address=own_addr, master_flush_offset=end, master_ha_address=ha_addr)
            await link.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, header)
            await self._until_followed(addr)
            offsets = await _offsets_of(link)
        finally:
            link.close()
        count = self._offsets.catch_up(offsets, self._store.max_offset)
        self._offsets.save()  # at once: the slave forgets its commits as soon as it sees them here
        self._seen[addr] = offsets
        log.info("event=slave-asked broker_id=%d addr=%s offsets_taken=%d", broker_id, addr, count)

    async def take_late_commits(self) -> None:
        """Runs until cancelled. Takes offsets that clients commit to a slave because they do not know yet that this
        master is back."""
        while True:
            await self._returned.wait()
            while trio.current_time() < self._late_until_s:
                await trio.sleep(LATE_LOOK_S)
                for addr in sorted(self._done):
                    await self._take_late_commits(addr)
            self._returned = trio.Event()
            self._seen.clear()

    async def _take_late_commits(self, addr: str) -> None:
        """Takes only offsets that have moved at the slave. The slave copied the rest from this master, where an
        operator may have set them back since."""
        link = self._make_link()
        try:
            await link.open(addr)
            offsets = await _offsets_of(link)
        except (OSError, trio.TooSlowError, ProtocolError, RefusedError):
            return  # the slave is gone, and its offsets with it
        finally:
            link.close()
        before, max_offset = self._seen.get(addr), self._store.max_offset
        self._seen[addr] = offsets
        if before is not None and (count := self._offsets.catch_up(_moved(before, offsets), max_offset)):
            log.info("event=late-commits-taken addr=%s count=%d", addr, count)

    async def _check_log(self, link: MasterLink, addr: str) -> None:
        """Raises NotYet if the slave's log is longer: consumers may have read messages there that this log lacks.
        Apache's master goes on with other messages in their place."""
        status = loads_untrusted((await link.ask(RequestCode.GET_BROKER_HA_STATUS)).body, HaStatus)
        slave_end, own_end = status.ha_client_runtime_info.max_offset, self._store.written_offset
        self._ahead.pop(addr, None)
        if slave_end > own_end:
            problem = self._ahead[addr] = (
                f"the slave at {addr} has the log up to {slave_end}, and this master up to {own_end}: make the slave "
                "the master, and take this store away; or set skipPreOnline=true, and lose what only the slave has"
            )
            raise NotYet(problem)

    async def _until_followed(self, addr: str) -> None:
        """Waits until the slave follows. Slaves do not identify themselves, so this counts connections."""
        with trio.move_on_after(FOLLOWED_MAX_S):
            while self._replicas.followed_count <= len(self._done):
                await trio.sleep(FOLLOWED_LOOK_S)
            return
        log.warning("event=slave-does-not-follow addr=%s after_s=%g", addr, FOLLOWED_MAX_S)

    def _note(self, problem: str) -> None:
        """Logs a problem when it changes, not each time it recurs."""
        if problem and problem != self._problem:
            log.warning("event=not-online-yet reason=%r", problem)
        self._problem = problem


def _slaves(found: list[Addrs]) -> dict[int, str]:
    return {broker_id: addr for addrs in found for broker_id, addr in addrs.items() if broker_id != MASTER_ID}


async def _offsets_of(link: MasterLink) -> ConsumerOffsetsBody:
    return loads_untrusted((await link.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).body, ConsumerOffsetsBody)


def _moved(before: ConsumerOffsetsBody, now: ConsumerOffsetsBody) -> ConsumerOffsetsBody:
    """The offsets of ``now`` that are further than in ``before``, or missing there."""
    table = {}
    for key, queues in now.offset_table.items():
        seen = before.offset_table.get(key, {})
        table[key] = {queue_id: at for queue_id, at in queues.items() if at > seen.get(queue_id, NOTHING)}
    return ConsumerOffsetsBody(offset_table=table)
