"""The files with which servers are reached by TLS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rmqproto.errors import UsageError

if TYPE_CHECKING:
    import ssl


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of PEM files; None is what was not given."""

    ca: str | None = None
    """What signed the servers' certificates; None: what the system trusts."""
    cert: str | None = None
    key: str | None = None


def tls_context(files: TlsFiles, *, insecure: bool) -> ssl.SSLContext:
    """Checks the servers' certificates and their names, unless ``insecure``. UsageError, which names the file, if one
    cannot be used."""
    import ssl  # 10 ms, which a plain call does not need

    if insecure and files.ca:
        raise UsageError("--tls-ca and --tls-insecure: the one checks what the other does not", hint="Give one.")
    if files.key and not files.cert:
        raise UsageError("--tls-key is of no use without --tls-cert")
    for path in filter(None, (files.ca, files.cert, files.key)):
        _check_readable(path)
    read = files.ca
    try:
        context = ssl.create_default_context(cafile=files.ca)
        read = files.key or files.cert
        if files.cert:
            context.load_cert_chain(files.cert, files.key)
    except ssl.SSLError as error:
        raise UsageError(f"{read}: PEM that belongs together is needed ({error.reason})") from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _check_readable(path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
