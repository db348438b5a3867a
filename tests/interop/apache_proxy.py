"""Apache's proxy 5.5.0, for the clients of gRPC: with a broker inside (local mode), and in front of others (cluster
mode)."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import end, free_ports, start_server, wait_until_ready

from .apache import (
    BENCHMARK_BROKER_JVM,
    HERE,
    READY_TIMEOUT_S,
    SHORT_LIVED,
    VERSION,
    ApacheRocketMQ,
    java_command,
    maven_jars,
)


def proxy_jars() -> Path:
    return maven_jars(f"{VERSION}-proxy", HERE / "proxy-pom.xml", f"-Drocketmq.version={VERSION}")


class ApacheWithProxy(ApacheRocketMQ):
    """Nameserver, and broker and proxy in one process, as ``mqbroker --enable-proxy`` starts them. gRPC is served at
    ``grpc_addr``."""

    def __init__(
        self,
        work: Path,
        settings: Mapping[str, str],
        *,
        proxy: Mapping[str, object] | None = None,
        broker_jvm: tuple[str, ...] = BENCHMARK_BROKER_JVM,
    ):
        """``proxy``: entries of rmq-proxy.json."""
        super().__init__(work, settings, broker_jvm=broker_jvm)
        remoting_port, grpc_port = free_ports()
        self.grpc_addr = f"127.0.0.1:{grpc_port}"
        self._proxy = {
            **(proxy or {}),
            "rocketMQClusterName": self.settings["brokerClusterName"],
            "namesrvAddr": self.namesrv_addr,
            "grpcServerPort": grpc_port,
            "remotingListenPort": remoting_port,
        }

    def _start(self, name: str, main: str, settings: Mapping[str, str], ready: str) -> None:
        if name != "broker":
            super()._start(name, main, settings, ready)
            return
        conf = self.work / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        process = _start_proxy(self.work, self._proxy, "-pm", "local", "-bc", str(conf), jvm=self._broker_jvm)
        self._processes[name] = process
        _wait_for_proxy(self.work, process)


@contextmanager
def proxy_before(namesrv_addr: str, cluster: str, work: Path) -> Iterator[str]:
    """Apache's proxy in cluster mode, which reaches the brokers of a nameserver by remoting; its address for gRPC. The
    first broker must be up: the proxy makes a topic of its own there."""
    work.mkdir(parents=True, exist_ok=True)
    remoting_port, grpc_port = free_ports()
    settings = {
        "rocketMQClusterName": cluster,
        "namesrvAddr": namesrv_addr,
        "grpcServerPort": grpc_port,
        "remotingListenPort": remoting_port,
    }
    process = _start_proxy(work, settings, "-pm", "cluster", jvm=("-Xms128m", "-Xmx256m", *SHORT_LIVED))
    try:
        _wait_for_proxy(work, process)
        yield f"127.0.0.1:{grpc_port}"
    finally:
        end(process)


def _start_proxy(
    work: Path, settings: Mapping[str, object], *args: str, jvm: tuple[str, ...]
) -> subprocess.Popen[bytes]:
    conf = work / "rmq-proxy.json"
    conf.write_text(json.dumps(settings))
    command = java_command(
        work, "org.apache.rocketmq.proxy.ProxyStartup", *args, "-pc", str(conf), "-n", str(settings["namesrvAddr"]),
        jvm=jvm, logback="proxy", own_jars=proxy_jars(),
    )  # fmt: skip
    return start_server(command, work / "proxy.out", {"ROCKETMQ_HOME": str(work), "RMQ_PROXY_HOME": str(work)})


def _wait_for_proxy(work: Path, process: subprocess.Popen[bytes]) -> None:
    log, said = work / "proxy.out", "rocketmq-proxy startup successfully"
    wait_until_ready("Apache's proxy", process, log, lambda: said in log.read_text(errors="replace"), READY_TIMEOUT_S)
