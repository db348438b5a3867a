"""TLS to servers: its files, as plain data for a command line and for tasks on other machines, and the handshake of a
blocking socket. ``ssl`` is slow to load, so it is loaded when a connection needs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rmqproto.errors import ConnectError, UsageError

if TYPE_CHECKING:
    import ssl


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of PEM files; None if not given."""

    ca: str | None = None
    """The certificates of the authorities that signed the servers' certificates; None for the system's."""
    cert: str | None = None
    key: str | None = None
    insecure: bool = False
    """Whether any certificate is accepted."""

    def context(self) -> ssl.SSLContext:
        """A context that checks the servers' certificates and their names, unless ``insecure``. UsageError, which names
        the file, if a file cannot be used."""
        import ssl

        if self.insecure and self.ca:
            raise UsageError("TLS: a CA certificate and insecure exclude each other")
        if self.key and not self.cert:
            raise UsageError("TLS: a key needs its certificate")
        for path in filter(None, (self.ca, self.cert, self.key)):
            _check_readable(path)
        read = self.ca
        try:
            context = ssl.create_default_context(cafile=self.ca)
            read = self.key or self.cert
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except ssl.SSLError as error:
            raise UsageError(f"{read}: a matching certificate and key in PEM are needed ({error.reason})") from None
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def tls_context(files: TlsFiles | None) -> ssl.SSLContext | None:
    """The context of ``files``; None for plain connections. UsageError as for ``TlsFiles.context``."""
    return None if files is None else files.context()


def shake_hands(connected: ssl.SSLSocket, address: str) -> None:
    """Does the handshake within the socket's time-out. ConnectError for a failure that the user can fix, OSError for
    any other. The caller then closes the socket."""
    import ssl

    try:
        connected.do_handshake()
        return
    except ssl.SSLCertVerificationError as error:
        problem, hint = error.verify_message, "Give the certificate that signed the server's, and its name as address."
    except ssl.SSLError as error:
        problem, hint = error.reason or str(error), "Does the server speak TLS on this port?"
    raise ConnectError(f"no TLS with {address}: {problem}", address=address, hint=hint)


def _check_readable(path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
