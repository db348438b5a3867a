"""OpenSSL contexts from settings, and the self-made certificate for tests."""

from __future__ import annotations

import ipaddress
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rmqproto.errors import UsageError
from rmqserver.tls.settings import ClientAuth, DoorSettings, KeyPair, LinkSettings

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}

SELF_SIGNED_DAYS = 365


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
    context.set_alpn_protocols(["h2"])  # clients of gRPC ask for it, and those of the remoting protocol for nothing
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
    except OSError as error:  # replaced at this moment
        raise UsageError(f"{pair.cert_path} or {pair.key_path}: {error.strerror}") from None


def _load_trust(context: ssl.SSLContext, path: str) -> None:
    _check_readable(path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise UsageError(f"{path}: certificates in PEM are needed ({error.reason})") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _check_readable(path: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _load_self_signed(context: ssl.SSLContext) -> None:
    """Python's library reads certificate and key from files alone. These are in memory: the key gets to no disk, and a
    server that may write nowhere has them as well."""
    from cryptography.hazmat.primitives import serialization as pem  # 100 ms

    key, certificate = _make_self_signed()
    with os.fdopen(os.memfd_create("rmqserver-certificate"), "wb") as file:
        file.write(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()))
        file.write(certificate.public_bytes(pem.Encoding.PEM))
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")


def _make_self_signed() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """A new key, and its certificate for this machine's loopback addresses."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rmqserver test")])
    addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=SELF_SIGNED_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), *addresses]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key, certificate
