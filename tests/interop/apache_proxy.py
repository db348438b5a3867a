"""A real Apache RocketMQ 5.5.0 whose broker runs inside Apache's proxy (local mode), for the clients of gRPC."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes import free_ports, start_server, wait_until_ready

from .apache import BENCHMARK_BROKER_JVM, HERE, READY_TIMEOUT_S, VERSION, ApacheRocketMQ, java_command, maven_jars


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
        conf, proxy_conf, log = self.work / "broker.conf", self.work / "rmq-proxy.json", self.work / "broker.out"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        proxy_conf.write_text(json.dumps(self._proxy))
        command = java_command(
            self.work, "org.apache.rocketmq.proxy.ProxyStartup", "-pm", "local", "-bc", str(conf),
            "-pc", str(proxy_conf), "-n", self.namesrv_addr, jvm=self._broker_jvm, logback="proxy",
            own_jars=proxy_jars(),
        )  # fmt: skip
        process = start_server(command, log, {"ROCKETMQ_HOME": str(self.work), "RMQ_PROXY_HOME": str(self.work)})
        self._processes[name] = process
        said = "rocketmq-proxy startup successfully"
        wait_until_ready(
            "Apache's proxy", process, log, lambda: said in log.read_text(errors="replace"), READY_TIMEOUT_S
        )
