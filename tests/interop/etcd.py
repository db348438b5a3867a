"""A real etcd of one or three members. The program is Debian's ``etcd-server``, from PATH or unpacked from its package
without being installed."""

import json
import shutil
import signal
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import Self

import pytest

from rmqserver.controller.quorum.etcd_gateway import EtcdAccess
from tests.support.certificates import Authority
from tests.support.processes import end, free_ports, start_server, wait_until_ready

from .cache import built

READY_TIMEOUT_S = 60


def etcd_program() -> Path:
    """The path of the program. Skips the test if it is neither on PATH nor to be had from apt."""
    installed = shutil.which("etcd")
    if installed is not None:
        return Path(installed)

    def unpack(folder: Path) -> None:
        subprocess.run(["apt-get", "download", "etcd-server"], cwd=folder, check=True, capture_output=True, timeout=300)
        (package,) = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True, capture_output=True, timeout=60)
        package.unlink()

    try:
        return built("etcd", [], unpack) / "usr/bin/etcd"
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        reason = f"{error} {said.decode(errors='replace').strip()[-300:]}"
        pytest.skip(f"there is no etcd on PATH, and apt-get download etcd-server failed: {reason}")


class EtcdGroup:
    """A group of etcd members, started on entry and ended on exit. They are numbered from 0. ``kill`` one, and
    ``start`` it again."""

    def __init__(self, work: Path, count: int = 1, authority: Authority | None = None):
        """With an ``authority`` clients must use TLS and show a certificate that it signed."""
        self._program = str(etcd_program())
        self._work = work
        ports = [free_ports() for _ in range(count)]
        scheme = "https" if authority else "http"
        self.urls = [f"{scheme}://127.0.0.1:{client}" for client, _ in ports]
        self._tls: list[str] = []
        self._context: ssl.SSLContext | None = None
        if authority is not None:
            # With users, etcd refuses gateway requests that come with a certificate that has a common name.
            own, ours = (authority.sign(name, has_common_name=False) for name in ("etcd", "health"))
            self._tls = ["--cert-file", str(own.cert), "--key-file", str(own.key)]
            self._tls += ["--trusted-ca-file", str(authority.cert), "--client-cert-auth"]
            self._context = EtcdAccess("", "", str(authority.cert), str(ours.cert), str(ours.key)).context()
        self._peers = [f"http://127.0.0.1:{peer}" for _, peer in ports]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._work.mkdir(parents=True, exist_ok=True)
        try:
            for number in range(len(self.urls)):
                self.start(number, waits=False)
            for number in range(len(self.urls)):
                self._wait(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._processes):
            self.kill(number)

    def start(self, number: int, *, waits: bool = True) -> None:
        url, peer = self.urls[number], self._peers[number]
        group = ",".join(f"m{at}={each}" for at, each in enumerate(self._peers))
        command = [
            self._program, "--name", f"m{number}", "--data-dir", str(self._work / f"m{number}"),
            "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", group, "--log-level", "warn",
            "--logger", "zap", *self._tls,
        ]  # fmt: skip
        self._processes[number] = start_server(command, self._log(number))
        if waits:
            self._wait(number)

    def administer(self, path: str, body: dict[str, object], token: str = "") -> dict[str, object]:
        """Sends one request to the first member as etcd's own tool does, and returns the answer."""
        headers = {"Content-Type": "application/json", **({"Authorization": token} if token else {})}
        request = urllib.request.Request(f"{self.urls[0]}{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=10, context=self._context) as answer:
            return dict(json.load(answer))

    def pid(self, number: int) -> int:
        return self._processes[number].pid

    def kill(self, number: int) -> None:
        end(self._processes.pop(number), signal.SIGKILL)

    def _log(self, number: int) -> Path:
        return self._work / f"m{number}.log"

    def _is_healthy(self, number: int) -> bool:
        """Whether the member knows a leader and stores a value."""
        try:
            with urllib.request.urlopen(f"{self.urls[number]}/health", timeout=5, context=self._context) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

    def _wait(self, number: int) -> None:
        wait_until_ready(
            f"etcd {number}", self._processes[number], self._log(number),
            lambda: self._is_healthy(number), READY_TIMEOUT_S,
        )  # fmt: skip
