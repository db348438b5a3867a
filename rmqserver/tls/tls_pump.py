"""TLS between the bytes of a socket and those of frames, by ``ssl.MemoryBIO``: no I/O, no waiting."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress

from rmqserver.remoting.pump import HANDSHAKE_MAX_S, PumpError

_READ_SIZE_BYTES = 64 << 10

_NOT_TRUSTED = "the peer does not trust the certificate that it was shown: give it the one that signed it"
_IN_WORDS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate, and tls.server.need.client.auth=require",
    "CERTIFICATE_VERIFY_FAILED": "the peer's certificate is not signed by one that is trusted here",
    "TLSV1_ALERT_UNKNOWN_CA": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_TRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer does not take the certificate that it was shown",
    "UNSUPPORTED_PROTOCOL": "the peer speaks only versions of TLS older than 1.2",
    "NO_SHARED_CIPHER": "peer and server have no cipher in common",
    "HTTP_REQUEST": "the peer does not speak TLS",
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS",
}
"""OpenSSL's reasons that an administrator can do something about."""


class TlsPump:
    """The pump of one connection, for either side. A client's pump wants to write at once: its hello.

    Nothing here may refer to the pump itself. OpenSSL's buffers behind a connection that has ended would then wait
    for the garbage collector, which counts them as one object, and which the broker lets run seldom.
    """

    def __init__(self, context: ssl.SSLContext, *, is_server: bool):
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._early = b""
        """Frames queued before the end of the handshake."""
        self.wants_to_write = False
        self.opens_by_s = time.monotonic() + HANDSHAKE_MAX_S
        if not is_server:
            self._shake_hands()
            self.wants_to_write = True

    def received(self, data: memoryview, /) -> bytes:
        self._incoming.write(data)
        try:
            if self.opens_by_s != math.inf and not self._shake_hands():
                return b""
            parts = []
            with suppress(ssl.SSLWantReadError):
                while part := self._tls.read(_READ_SIZE_BYTES):
                    parts.append(part)
            return b"".join(parts)
        except ssl.SSLZeroReturnError:
            raise ConnectionResetError("closed by the peer") from None
        except ssl.SSLError as error:
            words = _IN_WORDS.get(error.reason or "", "TLS failed")
            text = f"{words} ({getattr(error, 'verify_message', '') or error.reason or error})"
            raise PumpError("TLS", text) from None
        finally:
            self.wants_to_write = bool(self._outgoing.pending)

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.opens_by_s = math.inf
        early, self._early = self._early, b""
        self._encrypt(early)
        return True

    def to_send(self, frames: Sequence[bytes], /) -> bytes:
        data = b"".join(frames)
        if self.opens_by_s != math.inf:
            self._early += data
        else:
            self._encrypt(data)
        self.wants_to_write = False
        return self._outgoing.read()

    def _encrypt(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:  # one record a call, of 16 KiB at most
            rest = rest[self._tls.write(rest) :]
