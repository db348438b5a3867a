"""A controller's credentials for etcd - user and password, or a certificate - and the certificates that it trusts."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from rmqproto.errors import UsageError


class EtcdAccess(NamedTuple):
    """Each field may be empty. The password is in a file, so that no list of settings or processes shows it."""

    user_name: str = ""
    password_path: str = ""
    ca_path: str = ""
    """A PEM file; if empty, the system's certificates are trusted."""
    cert_path: str = ""
    key_path: str = ""

    def password(self) -> str:
        """Reads the password each time, since it may change. Raises UsageError."""
        try:
            return Path(self.password_path).read_text("utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"etcdPasswordPath={self.password_path}: {error}") from None

    def context(self) -> ssl.SSLContext:
        """Raises UsageError for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_path or None)
        except (OSError, ValueError) as error:
            raise UsageError(f"etcdCaPath={self.ca_path}: {error}") from None
        if self.cert_path:
            try:
                context.load_cert_chain(self.cert_path, self.key_path or None)
            except (OSError, ValueError) as error:
                raise UsageError(f"etcdCertPath={self.cert_path}, etcdKeyPath={self.key_path}: {error}") from None
        return context

    def check(self, urls: tuple[str, ...]) -> None:
        """Raises UsageError for settings without effect, and for files that cannot be used."""
        if bool(self.user_name) is not bool(self.password_path):
            raise UsageError(
                "etcdUserName and etcdPasswordPath belong together: the latter is a file with its password"
            )
        if self.key_path and not self.cert_path:
            raise UsageError("etcdKeyPath is given, and no etcdCertPath to which it belongs")
        if (self.ca_path or self.cert_path) and not all(url.startswith("https://") for url in urls):
            raise UsageError("etcdCaPath and etcdCertPath have an effect on https:// URLs alone; some are http://")
        if self.user_name:
            self.password()
