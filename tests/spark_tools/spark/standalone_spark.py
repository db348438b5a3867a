"""A standalone Spark as clusters have it: a master and two workers, processes of their own. The workers are at
127.0.0.1 and 127.0.0.2, which Spark takes for two machines."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyspark

from rmqadmin.testing.server_process import DIE_WITH_PARENT
from spark_tools.session import find_java
from tests.support.processes import end
from tests.support.servers import until

HOSTS = ("127.0.0.1", "127.0.0.2")
EXECUTOR_MEMORY = "512m"
_DAEMON = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


class StandaloneSpark:
    """Use it as a context manager. ``url`` is the master for a session. Executors are descendants of this process, and
    log below ``directory``."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._stack = stack
            self.url = self._start("master.Master", HOSTS[0], r"Starting Spark master at (spark://\S+)", [])
            for host in HOSTS:
                own = ["--cores", "1", "--memory", EXECUTOR_MEMORY, "--work-dir", str(self._directory / host)]
                self._start("worker.Worker", host, r"Successfully registered with (\S+)", [*own, self.url])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, name: str, host: str, says: str, args: list[str]) -> str:
        """Starts a daemon and waits for what it says in its log."""
        log = self._directory / f"{name}-{host}.log"
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [str(program), f"org.apache.spark.deploy.{name}", "--host", host, "--port", "0", "--webui-port", "0"]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-S", "-c", DIE_WITH_PARENT, *command, *args],
                env={**os.environ, **_DAEMON, "JAVA_HOME": find_java().home, "SPARK_LOCAL_IP": host},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._stack.callback(end, process)
        said: list[str] = []

        def has_said() -> bool:
            assert process.poll() is None, log.read_text()[-2000:]
            said[:] = re.findall(says, log.read_text())
            return bool(said)

        until(has_said)
        return said[0]
