"""The slaves of this broker, and how far their logs reach (``DefaultHAService``, ``GroupTransferService``, 5.5.0)."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import trio

from rmqproto.bodies.replication import HaConnection, HaStatus
from rmqproto.errors import UsageError
from rmqserver.advertise import open_listener
from rmqserver.broker.replicas.ha_link import NO_REPORT, HaLink
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.setting_values import BrokerRole
from rmqserver.operation import Refused
from rmqserver.remoting.traffic import BY_TASK, Traffic, take_much
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

LINKS_MAX = 64
"""Slaves at one time. Each may need the whole log."""


class HaMaster:
    """``waiting`` has the links that have sent the whole log. Code that makes messages visible calls ``grown`` if there
    are any."""

    def __init__(self, config: BrokerConfig, store: MessageStore, traffic: Traffic = BY_TASK):
        """``traffic`` decides how reports are received and the log is sent."""
        self.config = config
        self.store = store
        self._traffic = traffic
        self.waiting: set[HaLink] = set()
        self.on_report: Callable[[], None] = lambda: None
        """Called when a slave has reported: puts may have enough copies now."""
        self._links: list[HaLink] = []

    # --- what a put waits for ----------------------------------------------------------------------------------------

    @property
    def copies_needed(self) -> int:
        """How many brokers, this one among them, must have a message before its producer is told that it is stored."""
        return self.config.in_sync_replicas if self.config.broker_role is BrokerRole.SYNC_MASTER else 1

    @property
    def copied_offset(self) -> int:
        """Log offset up to which ``copies_needed`` brokers have the log written, though maybe not on their devices. As
        in Apache's broker, each connection counts as a slave."""
        needed = self.copies_needed
        if needed <= 1:
            return self.store.confirmed_offset
        acked = sorted((link.acked_offset for link in self._links), reverse=True)
        return acked[needed - 2] if len(acked) > needed - 2 else -1

    def lack(self, log_offset: int) -> bool:
        """Whether too few brokers have the log up to ``log_offset``."""
        return self.copies_needed > 1 and self.copied_offset < log_offset

    def put_refusal(self) -> Refused | None:
        """What a request is told that would have a message stored now; None if it may be."""
        return None

    @property
    def lease_left_ms(self) -> int | None:
        """None if messages are acknowledged without a lease."""
        return None

    @property
    def in_sync_count(self) -> int:
        """Number of slaves that are less than ``haMaxGapNotInSync`` behind."""
        end_offset = self.store.written_offset
        return sum(self._is_in_sync(link, end_offset) for link in self._links)

    # --- links -------------------------------------------------------------------------------------------------------

    async def serve(self, listener: socket.socket) -> None:
        """Serves slaves until cancelled. The caller closes the listener."""
        handle = listener.dup()  # trio closes the socket it is given
        handle.setblocking(False)
        await trio.serve_listeners(self._accept, [trio.SocketListener(trio.socket.from_stdlib_socket(handle))])

    async def _accept(self, stream: trio.SocketStream) -> None:
        take_much(stream)
        await self._serve(stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            link = self._make_link(stream)
        except OSError:  # the peer reset the connection before it was accepted, so it has no address
            await stream.aclose()
            return
        if len(self._links) >= LINKS_MAX:
            log.warning("event=slave-refused peer=%s reason='%d slaves are the most'", link.peer, LINKS_MAX)
            await stream.aclose()
            return
        self._links.append(link)
        try:
            await link.serve()
        finally:
            self._links.remove(link)
            self.waiting.discard(link)
            self._gone(link)

    def _make_link(self, stream: trio.SocketStream) -> HaLink:
        return HaLink(
            self.config, self.store, stream, self._traffic, lambda idle: self.waiting.add(idle), self._reported
        )

    def _reported(self, link: HaLink) -> None:
        self.on_report()

    def _gone(self, link: HaLink) -> None:
        """Called when a link's connection has ended."""

    def grown(self) -> None:
        """The log has grown."""
        waiting, self.waiting = self.waiting, set()
        for link in waiting:
            if link.send_at_once():
                self.waiting.add(link)
            else:
                link.has_news.set()

    def _is_in_sync(self, link: HaLink, end_offset: int) -> bool:
        """Apache's master also counts a slave that has not reported yet."""
        is_near = end_offset - link.acked_offset < self.config.ha_max_gap_not_in_sync_bytes
        return is_near and link.acked_offset != NO_REPORT

    # --- what tools ask ----------------------------------------------------------------------------------------------

    def status(self) -> HaStatus:
        """The master's ``HARuntimeInfo``. Apache's master counts only the heads of transfers as transferred."""
        end_offset = self.store.written_offset
        connections = [
            HaConnection(
                addr=link.peer,
                diff=end_offset - link.acked_offset,
                in_sync=self._is_in_sync(link, end_offset),
                slave_ack_offset=link.acked_offset,
                transfer_from_where=link.next_offset,
                transferred_byte_in_second=link.bytes_in_second,
            )
            for link in self._links
        ]
        return HaStatus(
            ha_connection_info=connections,
            in_sync_slave_nums=sum(connection.in_sync for connection in connections),
            master_commit_log_max_offset=end_offset,
        )


BACKLOG = 16


def open_ha_listener(host: str, port: int | None, usual_port: int) -> socket.socket:
    """A listener for slaves on ``port``, or, if that is None, on ``usual_port`` or any free port. As with Apache's
    brokers, the traffic is neither encrypted nor authenticated: only brokers may reach the port. Raises UsageError if
    it cannot be used. The caller closes the listener."""
    if port is not None:
        return _listener(host, port)
    try:
        return _listener(host, usual_port)
    except UsageError:
        return _listener(host, 0)


def _listener(host: str, port: int) -> socket.socket:
    hint = "choose another haListenPort, or leave it out"
    return open_listener(host, port, BACKLOG, what_for=" for slaves", hint=hint)
