"""The pumps of new connections, with the current certificates: changed files are loaded while the server runs."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from functools import partial

import trio

from rmqproto.errors import UsageError
from rmqserver.remoting.pump import FirstBytePump
from rmqserver.system import WATCH_INTERVAL_S, stamps
from rmqserver.tls.contexts import door_context, link_context
from rmqserver.tls.settings import DoorSettings, KeyPair, LinkSettings, TlsMode
from rmqserver.tls.tls_pump import TlsPump

log = logging.getLogger(__name__)


class WatchedContext:
    """A context that follows its files. ``watch`` is a trio task."""

    def __init__(self, make: Callable[[], ssl.SSLContext], key_pair: KeyPair | None, trust_path: str):
        """``make`` reads the files of ``key_pair`` and ``trust_path``. UsageError if it cannot use one."""
        self._make = make
        self._paths = [key_pair.cert_path, key_pair.key_path] if key_pair is not None else []
        if trust_path:
            self._paths.append(trust_path)
        self._seen = stamps(self._paths)
        self.context = make()

    async def watch(self) -> None:
        """A key is replaced a moment before or after its certificate. Until both match, the old ones stay."""
        while True:
            await trio.sleep(WATCH_INTERVAL_S)
            found = stamps(self._paths)
            if found == self._seen:
                continue
            self._seen = found
            try:
                self.context = await trio.to_thread.run_sync(self._make)
            except UsageError as error:
                log.warning("event=certificates-not-loaded reason=%r until=%r", str(error), "the files change again")
            else:
                log.info("event=certificates-loaded files=%s", ",".join(self._paths))


class TlsDoor(WatchedContext):
    """For incoming connections."""

    def __init__(self, settings: DoorSettings):
        super().__init__(partial(door_context, settings), settings.key_pair, settings.trust_path)
        self._takes_plain = settings.mode is TlsMode.PERMISSIVE

    def pump(self) -> FirstBytePump:
        return FirstBytePump(lambda on_pump: on_pump(self.tls_pump()), takes_plain=self._takes_plain)

    def tls_pump(self) -> TlsPump:
        """For a connection that has begun with TLS."""
        return TlsPump(self.context, is_server=True)


class TlsLink(WatchedContext):
    """For the broker's own connections to nameservers."""

    def __init__(self, settings: LinkSettings):
        super().__init__(partial(link_context, settings), settings.key_pair, settings.trust_path)

    def pump(self) -> TlsPump:
        return TlsPump(self.context, is_server=False)
