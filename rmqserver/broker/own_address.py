"""The broker's own address, in records, in answers, and in remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.message.record import host_text

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer


class OwnAddress:
    """``advertised_host`` is the record host field that every peer is told; None: the address on which each peer
    reached us. It becomes known when the listeners are there, just before the store is opened."""

    __slots__ = ("_config", "advertised_host")

    def __init__(self, config: BrokerConfig):
        self._config = config
        self.advertised_host: bytes | None = None

    def record_host(self, peer: Peer) -> bytes:
        """The store host of a message that came from this peer."""
        return self.advertised_host or peer.local_host

    def address(self, peer: Peer) -> str:
        """``host:port``, for answers."""
        return peer.local_addr if self.advertised_host is None else host_text(self.advertised_host)

    def ip(self, local_addr: str) -> str:
        """For remarks to a client that reached us at that ``host:port``."""
        return self._config.broker_ip1 or local_addr.rpartition(":")[0]

    def ip_in(self, store_host: bytes) -> str:
        """For remarks on a message that came without a connection, or whose connection is no longer known."""
        return self._config.broker_ip1 or host_text(store_host).rpartition(":")[0]
