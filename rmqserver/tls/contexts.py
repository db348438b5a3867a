"""OpenSSL contexts from settings, and the self-made certificate for tests."""

from __future__ import annotations

import ssl
import subprocess
import tempfile
from pathlib import Path

from rmqproto.errors import UsageError
from rmqserver.tls.settings import ClientAuth, DoorSettings, KeyPair, LinkSettings

_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}

SELF_SIGNED_DAYS = 365
_MAKE_TIMEOUT_S = 30


def door_context(settings: DoorSettings) -> ssl.SSLContext:
    """The context for incoming connections. UsageError, with the file, if one cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if settings.key_pair is not None:
        _load_key_pair(context, settings.key_pair)
    else:
        _load_self_signed(context)
    if settings.trust_path:
        _load_trust(context, settings.trust_path)
    context.verify_mode = _VERIFY[settings.client_auth]
    return context


def link_context(settings: LinkSettings) -> ssl.SSLContext:
    """The context for connections to nameservers. UsageError, with the file, if one cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if not settings.checks_server:
        context.verify_mode = ssl.CERT_NONE
    elif settings.trust_path:
        _load_trust(context, settings.trust_path)
    else:
        context.load_default_certs()
    if settings.key_pair is not None:
        _load_key_pair(context, settings.key_pair)
    return context


def _load_key_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    for path in (pair.cert_path, pair.key_path):
        _check_readable(path)
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(pair.cert_path, pair.key_path, lambda: pair.key_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"this is not the key of {pair.cert_path}"
        else:
            problem = f"certificate and key in PEM, and the key's password if it has one, are needed ({error.reason})"
        raise UsageError(f"{pair.key_path}: {problem}") from None


def _load_trust(context: ssl.SSLContext, path: str) -> None:
    _check_readable(path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise UsageError(f"{path}: certificates in PEM are needed ({error.reason})") from None


def _check_readable(path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _load_self_signed(context: ssl.SSLContext) -> None:
    """Uses the program ``openssl``: Python's library reads certificates but makes none. The key is on a disk only while
    this runs, readable by this user only."""
    with tempfile.TemporaryDirectory(prefix="rmqserver-tls-") as directory:
        cert, key = f"{directory}/cert.pem", f"{directory}/key.pem"
        command = [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=rmqserver test", "-days", str(SELF_SIGNED_DAYS), "-keyout", key, "-out", cert,
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1",
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_MAKE_TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise UsageError(
                f"tls.test.mode.enable=true: no certificate could be made, because openssl failed: {error}",
                hint="install the program openssl, or give tls.server.certPath and tls.server.keyPath",
            ) from None
        _load_key_pair(context, KeyPair(cert_path=cert, key_path=key))
