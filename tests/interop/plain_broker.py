"""The last Apache broker that enforces ACL 1.0, 5.3.2, on loopback. Its nameserver is of 5.5.0, because no artifact of
the 5.3.2 nameserver is published; neither authenticates anybody."""

import time
from pathlib import Path

from rmqproto.codes import RequestCode
from rmqproto.wire.credentials import Credentials
from tests.support.auth_walk import ask_as
from tests.support.wire import Wire

from .apache import HERE, READY_TIMEOUT_S, ApacheRocketMQ, maven_jars
from .cluster import SETTINGS

VERSION = "5.3.2"


class PlainApache(ApacheRocketMQ):
    """``work`` contains ``conf/plain_acl.yml``; ``admin`` is an administrator in it."""

    name = "apache-5.3.2"

    def __init__(self, work: Path, admin: Credentials):
        jars = maven_jars(VERSION, HERE / "acl1/pom.xml", f"-Drocketmq.version={VERSION}")
        super().__init__(work, {**SETTINGS, "aclEnable": "true"}, broker_jars=jars)
        self._admin = admin

    def _register(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        with Wire(self.namesrv_addr) as namesrv, Wire(self.broker_addr) as broker:
            while not namesrv.cluster_addrs():
                assert time.monotonic() < deadline, "the broker has not registered"
                ask_as(broker, RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=6\n", self._admin)
