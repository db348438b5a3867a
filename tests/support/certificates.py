"""Certificates as a site would have them: an authority and the certificates that it signs."""

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


@dataclass(frozen=True, slots=True)
class Signed:
    """Paths of PEM files."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates for localhost and 127.0.0.1."""

    def __init__(self, directory: Path, name: str = "authority"):
        self._directory = directory
        self._own = trustme.CA(organization_name=name)
        self.cert = directory / f"{name}.pem"
        self._own.cert_pem.write_to_path(self.cert)

    def sign(self, name: str, password: str = "", *, has_common_name: bool = True) -> Signed:
        """With a ``password`` the key is encrypted."""
        issued = self._own.issue_cert("localhost", "127.0.0.1", common_name=name if has_common_name else None)
        made = Signed(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        made.cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        key = issued.private_key_pem.bytes()
        made.key.write_bytes(_encrypted(key, password) if password else key)
        return made


def _encrypted(key: bytes, password: str) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
