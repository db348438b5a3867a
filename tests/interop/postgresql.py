"""A real PostgreSQL: Debian's, as installed or unpacked from its packages without being installed."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.processes import end, free_ports, start_server, wait_until_ready

from .cache import built

READY_TIMEOUT_S = 60
ACCOUNT = "nobody"
"""PostgreSQL refuses to run as root, and wants an account that has a name."""


def programs() -> Path:
    """The folder of ``initdb`` and ``postgres``. Skips the test if they are neither installed nor to be had from
    apt."""
    if installed := sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return installed[-1].parent

    def unpack(folder: Path) -> None:
        """PostgreSQL, and those of its libraries that the machine lacks."""
        partial = folder / "archives/partial"
        partial.mkdir(parents=True)
        command = ["apt-get", "install", "--download-only", "--yes", "--no-install-recommends", "postgresql"]
        option = f"Dir::Cache::archives={partial.parent}"
        subprocess.run(["apt-get", "update"], check=False, capture_output=True, timeout=300)  # its lists may be old
        subprocess.run([*command, "-o", option], check=True, capture_output=True, timeout=600)
        for package in partial.parent.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True, capture_output=True, timeout=60)
        shutil.rmtree(partial.parent)

    try:
        (program,) = built("postgresql", [], unpack).glob("usr/lib/postgresql/*/bin/postgres")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        reason = f"{error} {said.decode(errors='replace').strip()[-300:]}"
        pytest.skip(f"there is no PostgreSQL, and apt-get install --download-only postgresql failed: {reason}")
    return program.parent


class Postgresql:
    """A server with an empty database, for one test or several; ended and removed on exit."""

    def __init__(self) -> None:
        # Not in the tests' own temporary folder, which other accounts may not enter.
        self._folder = Path(tempfile.mkdtemp(prefix="postgresql-", dir="/tmp"))
        self.port = free_ports()[0]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end(self._process, signal.SIGQUIT)
        shutil.rmtree(self._folder)

    def connect(self) -> Any:
        import pg8000.dbapi  # no types

        return pg8000.dbapi.connect(user="postgres", host="127.0.0.1", port=self.port, timeout=60)

    def _start(self) -> None:
        where, data, log = programs(), self._folder / "data", self._folder / "log"
        env: dict[str, str] = {}
        if not where.is_relative_to("/usr"):  # root's cache is closed to others
            unpacked = where.parents[3]
            shutil.copytree(unpacked, self._folder / "usr", symlinks=True)
            where = self._folder / "usr" / where.relative_to(unpacked)
            libraries = (self._folder / "usr/lib").glob("*-linux-*")
            env["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))
        account: list[str] = []
        if os.getuid() == 0:
            self._folder.chmod(0o755)
            data.mkdir()
            shutil.chown(data, ACCOUNT)
            data.chmod(0o700)
            account = ["setpriv", f"--reuid={ACCOUNT}", "--regid=65534", "--clear-groups", "--pdeathsig=QUIT"]
        made = subprocess.run(
            [*account, where / "initdb", "--pgdata", data, "--username=postgres", "--auth=trust", "--no-sync",
             "--no-locale", "--encoding=UTF8"],
            cwd="/", env={**os.environ, **env}, capture_output=True, text=True, timeout=READY_TIMEOUT_S,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        command = [
            *account, str(where / "postgres"), "-D", str(data), "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off",
        ]  # fmt: skip
        self._process = start_server(command, log, env)
        wait_until_ready("PostgreSQL", self._process, log, self._answers, READY_TIMEOUT_S)

    def _answers(self) -> bool:
        import pg8000.dbapi

        try:
            self.connect().close()
        except (OSError, pg8000.dbapi.Error):
            return False
        return True
