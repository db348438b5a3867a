"""Turns the command line into settings: a flag is a short spelling of one of Apache's keys. Flags come first, then
``--set``, then ``--config``, then our defaults, then Apache's."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmqproto.errors import ProtocolError, UsageError
from rmqproto.hosts import is_loopback, is_port, not_a_port
from rmqproto.java import java_properties
from rmqserver.auth.auth_settings import (
    AUTH_KEYS,
    AUTHENTICATION,
    NAMESRV_AUTHENTICATION,
    OWN_KEYS,
    SECRET_KEYS,
    AuthSettings,
    auth_settings,
    check_namesrv,
)
from rmqserver.config import guards
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.config.keyed_settings import near_setting
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.config.setting_values import parse_host
from rmqserver.tls.settings import TLS_KEYS, TlsSettings, tls_settings

if TYPE_CHECKING:
    from rmqproto.fault_rules import FaultRule
    from rmqserver.seed.seed_file import Seed

log = logging.getLogger(__name__)

LISTEN_DEFAULT = "127.0.0.1"
"""Other machines can reach the server only if it is told so."""

ADVERTISE_AUTO = "auto"
METRICS_BY_PROMETHEUS = "PROM"
"""The only exporter of Apache's that this server has: Prometheus fetches the metrics."""

STANDALONE_DEFAULTS = {
    "enablePropertyFilter": "true",  # SQL92
    "recallMessageEnable": "true",
}
"""What Apache leaves off for the sake of production, and people who develop expect to work."""

_STORE_PATHS = ("storePathRootDir", "storePathCommitLog")
_READ_HERE = TLS_KEYS | AUTH_KEYS | {*_STORE_PATHS, "bindAddress"}
"""Settings that do not come to the configurations, which check the others."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line; None if an option was not given."""

    has_namesrv: bool
    has_broker: bool
    has_controller: bool = False
    """If set, the other two are not."""
    data: str | None = None
    listen: str | None = None
    port: int | None = None
    """The broker's port; the nameserver's or the controller's if there is no broker."""
    namesrv_port: int | None = None
    namesrv: str | None = None
    advertise: str | None = None
    """``auto``, ``HOST`` or ``HOST:PORT``."""
    flush: str | None = None
    config: str | None = None
    settings: Sequence[str] = ()
    """``KEY=VALUE`` of each ``--set``."""
    allow_unknown: bool = False
    """Whether ``--set`` may name a setting that nobody knows."""
    metrics_port: int | None = None
    seed: str | None = None
    faults: Sequence[str] = ()
    """The rule of each ``--fault``."""
    test_requests: str | None = None
    """``on`` or ``off``."""
    replicas: int | None = None
    """For a standalone: the number of brokers of a set, each a process."""
    brokers: int | None = None
    """For a standalone: the number of masters of one cluster, each a process."""
    etcd: str | None = None
    """For one of several controllers: URLs, separated by commas."""
    ready_file: str | None = None
    log_level: str = "info"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """What to serve. Without ``store_dir`` a broker takes a temporary one."""

    namesrv: NamesrvConfig | None
    broker: BrokerConfig | None
    controller: ControllerConfig | None
    listen: str
    store_dir: str | None
    kv_path: str | None
    advertise: tuple[str, int | None] | None
    """Host, and port if it is not the listener's. None: the address on which a peer reached us."""
    metrics: tuple[str, int] | None
    """Host and port for Prometheus, if there are metrics."""
    ready_file: str | None
    tls: TlsSettings
    auth: AuthSettings
    seed: Seed | None
    faults: Sequence[FaultRule]
    has_test_requests: bool
    """Whether clients may send the requests for tests (faults, reset, snapshots)."""

    def unasked(self) -> dict[str, str]:
        """Services that other machines can reach without authentication, with the setting that turns it on."""
        if is_loopback(self.listen):
            return {}
        found = {}
        if self.broker is not None and not self.auth.asks:
            found["broker"] = AUTHENTICATION
        if self.namesrv is not None and not self.namesrv.auth_enabled:
            found["namesrv"] = NAMESRV_AUTHENTICATION if self.auth.is_authenticating else AUTHENTICATION
        if self.controller is not None and not self.auth.is_authenticating:
            found["controller"] = AUTHENTICATION
        return found


def plan(options: Options) -> ServerPlan:
    """What to serve, from options, files and defaults. UsageError for a file that cannot be read, and for every bad
    value."""
    given = {**defaults_of(options), **settings_of(options)}
    for key in sorted(_READ_HERE & given.keys()):  # without a path or a guard it would keep nothing, or guard nothing
        if not given[key].strip() and not key.endswith("Password"):
            raise UsageError(f"{key}= has no value", hint="give it one, or leave it out")
    tls = tls_settings(given)
    auth = auth_settings(given)
    for key in SECRET_KEYS & dict(map(_split, options.settings)).keys():
        log.warning("event=secret-on-command-line key=%s reason='every user of this machine can read it there'", key)
    listed = {key: value.strip() for key, value in given.items() if key in AUTH_KEYS - SECRET_KEYS - OWN_KEYS}
    given = {key: value for key, value in given.items() if key not in TLS_KEYS | AUTH_KEYS}
    namesrv = NamesrvConfig() if options.has_namesrv else None
    broker = BrokerConfig() if options.has_broker else None
    controller = ControllerConfig() if options.has_controller else None
    listen = _listen(options, given)
    store_dir = None
    if broker is not None:
        # A key that neither knows is reported once: by the broker, if there is one. Limits are for both.
        mine = {key: text for key, text in given.items() if broker.knows(key) or not (namesrv and namesrv.knows(key))}
        store_dir = _store_dir(options, mine)
        broker.record({"useTLS": "true" if tls.link is not None else "false", **listed})
        broker.load(_broker_settings(options, mine, listen, store_dir))
        if store_dir is not None:
            broker.record(store_paths(store_dir))
    if namesrv is not None:
        check_namesrv(auth, has_broker=broker is not None)
        mine = {
            key: text
            for key, text in given.items()
            if broker is None or (namesrv.knows(key) and (namesrv.is_own(key) or not broker.knows(key)))
        }
        namesrv.load(_namesrv_settings(options, mine, listen, store_dir))
        is_asking = auth.is_authenticating if broker is None else auth.guards_namesrv
        namesrv.record({NAMESRV_AUTHENTICATION: "true" if is_asking else "false"})
    if controller is not None:
        check_namesrv(auth, has_broker=False)
        controller.load(_controller_settings(options, given, listen))
        controller.record({AUTHENTICATION: "true" if auth.is_authenticating else "false"})
    seed: Seed | None = None
    if options.seed is not None:
        from rmqserver.seed.seed_file import read_seed  # 20 ms, most of it PyYAML

        seed = read_seed(options.seed)
    faults: list[FaultRule] = []
    if options.faults:
        from rmqproto.fault_rules import parse_rule

        faults = [parse_rule(text) for text in options.faults]
    has_kv_file = bool(options.data or store_dir or "kvConfigPath" in given)
    return ServerPlan(
        namesrv=namesrv,
        broker=broker,
        controller=controller,
        listen=listen,
        store_dir=store_dir,
        kv_path=namesrv.kv_config_path if namesrv and has_kv_file else None,
        advertise=_advertise(options, given),
        metrics=_metrics(options, broker, listen),
        ready_file=options.ready_file,
        tls=tls,
        auth=auth,
        seed=seed,
        faults=faults,
        has_test_requests=options.test_requests == "on" or (options.test_requests is None and store_dir is None),
    )


def _listen(options: Options, given: Mapping[str, str]) -> str:
    listen = options.listen or given.get("bindAddress") or LISTEN_DEFAULT
    try:
        return parse_host(listen)
    except ValueError as error:
        raise UsageError(f"{'--listen' if options.listen else 'bindAddress='} {listen}: {error}") from None


def settings_of(options: Options) -> dict[str, str]:
    """The settings of ``--set`` and ``--config``. UsageError."""
    given = dict(_split(text) for text in options.settings)
    if not options.allow_unknown:
        _check_known(given)
    return {**_read_file(options.config), **given}


def defaults_of(options: Options) -> Mapping[str, str]:
    """Defaults that differ from Apache's. Who writes a ``broker.conf``, or starts a broker alone, has Apache's."""
    is_standalone = options.has_namesrv and options.has_broker
    return STANDALONE_DEFAULTS if is_standalone and options.config is None else {}


def _check_known(given: Mapping[str, str]) -> None:
    """UsageError for a setting that no server has, of Apache's or ours: it was meant to do something."""
    kinds = (BrokerConfig, NamesrvConfig, ControllerConfig)
    known = {key for kind in kinds for key in kind().kinds} | TLS_KEYS | AUTH_KEYS if given else set()
    for key in given:
        if key not in known and not guards.is_guard(key):
            near = near_setting(key, known)
            meant = f"Did you mean {near}? " if near else ""
            raise UsageError(
                f"--set {key}: no server has such a setting",
                hint=f"{meant}--allow-unknown starts all the same.",
            )


def _broker_settings(
    options: Options, given: Mapping[str, str], listen: str, store_dir: str | None
) -> Mapping[str, str]:
    # A lasting store must survive a crash; a temporary one is removed at the end anyway.
    settings = {"flushDiskType": "SYNC_FLUSH" if store_dir else "ASYNC_FLUSH", **given, "bindAddress": listen}
    if options.port is not None:
        settings["listenPort"] = str(options.port)
    if options.flush is not None:
        settings["flushDiskType"] = f"{options.flush.upper()}_FLUSH"
    if not options.has_namesrv:
        namesrv = options.namesrv or given.get("namesrvAddr") or os.environ.get("NAMESRV_ADDR") or ""
        if not namesrv.strip("; \t"):
            none = f", and {namesrv!r} names none" if namesrv else ""
            raise UsageError(f"a broker needs a nameserver{none}", hint="give --namesrv HOST:PORT, or use standalone")
        settings["namesrvAddr"] = namesrv
    return {key: value for key, value in settings.items() if key not in _STORE_PATHS}


def _metrics(options: Options, broker: BrokerConfig | None, listen: str) -> tuple[str, int] | None:
    """From the flag or from Apache's keys. The keys are a broker's: Apache's nameserver has no metrics."""
    port = options.metrics_port
    if broker is None:
        return (listen, port) if port is not None else None
    if port is not None:
        broker.record({"metricsExporterType": METRICS_BY_PROMETHEUS, "metricsPromExporterPort": str(port)})
    if broker.metrics_exporter_type != METRICS_BY_PROMETHEUS:
        return None
    return broker.metrics_host or listen, broker.metrics_port


def _namesrv_settings(
    options: Options, given: Mapping[str, str], listen: str, store_dir: str | None
) -> Mapping[str, str]:
    settings = {**given, "bindAddress": listen}
    port = options.namesrv_port if options.has_broker else options.port
    if port is not None:
        settings["listenPort"] = str(port)
    if "kvConfigPath" not in given and (store_dir or options.data):
        settings["kvConfigPath"] = (
            f"{store_dir}/namesrv/kvConfig.json" if store_dir else f"{options.data}/kvConfig.json"
        )
    return settings


def _controller_settings(options: Options, given: Mapping[str, str], listen: str) -> Mapping[str, str]:
    """UsageError if there is no place for its state: a controller that forgets which brokers were in sync could elect
    any."""
    endpoints = options.etcd or given.get("etcdEndpoints")
    store_path = options.data or given.get("controllerStorePath")
    if endpoints and options.data:
        raise UsageError(
            "--etcd and --data: the state is in the one or in the other",
            hint="give --etcd alone; what is in the directory is not taken along",
        )
    if not endpoints and not store_path:
        raise UsageError(
            "a controller keeps who is in sync, and needs a place for it",
            hint="give --data DIR; or --etcd URL[,URL...], where there are several controllers",
        )
    settings = {**given, "bindAddress": listen}
    if endpoints:
        settings["etcdEndpoints"] = endpoints
    elif store_path:
        settings["controllerStorePath"] = absolute(store_path)
    if options.port is not None:
        settings["listenPort"] = str(options.port)
    elif "listenPort" not in given and given.get("controllerDLegerPeers"):
        settings["listenPort"] = _own_peer_port(given)
    return settings


def _own_peer_port(given: Mapping[str, str]) -> str:
    """The port of the only peer, or of the peer with our own id."""
    own_id = given.get("controllerDLegerSelfId", "n0").strip()
    peers = [peer.strip() for peer in given["controllerDLegerPeers"].split(";") if peer.strip()]
    mine = peers if len(peers) == 1 else [peer for peer in peers if peer.partition("-")[0] == own_id]
    port = mine[0].rpartition(":")[2] if mine else ""
    if not port.isdecimal():
        raise UsageError(
            f"controllerDLegerPeers={given['controllerDLegerPeers']}: ID-HOST:PORT is needed, one of them for "
            f"controllerDLegerSelfId={own_id}"
        )
    return port


def store_paths(store_dir: str) -> dict[str, str]:
    """The settings that tell where a store is."""
    return dict(zip(_STORE_PATHS, (store_dir, f"{store_dir}/commitlog"), strict=True))


def _store_dir(options: Options, given: Mapping[str, str]) -> str | None:
    store_dir = options.data or given.get("storePathRootDir")
    commit_log = given.get("storePathCommitLog")
    if commit_log and not options.data and (not store_dir or Path(commit_log) != Path(store_dir, "commitlog")):
        raise UsageError(
            f"storePathCommitLog={commit_log}: the commit log is kept in commitlog/ below the store",
            hint="set storePathRootDir alone, or give --data",
        )
    if store_dir and not Path(store_dir, "commitlog").exists() and Path(store_dir, "broker-a/commitlog").exists():
        raise UsageError(
            f"{store_dir} holds the stores of several brokers, broker-a among them",
            hint="give --brokers as before, or name one of them (docs/brokers.md)",
        )
    return absolute(store_dir) if store_dir else None


def absolute(path: str) -> str:
    """UsageError if the current directory, where a relative path begins, is gone."""
    try:
        return str(Path(path).absolute())
    except OSError as error:
        raise UsageError(
            f"{path} is a path below the current directory, and there is none ({error.strerror})",
            hint="change to another directory, or give a whole path",
        ) from None


def _advertise(options: Options, given: Mapping[str, str]) -> tuple[str, int | None] | None:
    text = options.advertise or given.get("brokerIP1") or ADVERTISE_AUTO
    if text == ADVERTISE_AUTO:
        return None
    host, colon, port = text.rpartition(":") if text.count(":") == 1 or text.startswith("[") else (text, "", "")
    if not colon or text.endswith("]"):
        return text.strip("[]"), None
    if host and port.isdecimal() and not is_port(port):
        raise UsageError(f"--advertise {text}: {not_a_port(port)}")
    if not host or not is_port(port):
        raise UsageError(f"--advertise {text}: must be auto, HOST or HOST:PORT")
    return host.strip("[]"), int(port)


def _read_file(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        pairs = java_properties.parse_file_untrusted(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from None
    except ProtocolError as error:
        raise UsageError(f"--config {path}: {error}") from None
    if not pairs:
        log.warning("event=config-empty file=%s reason='it holds no setting, so all have their defaults'", path)
    return pairs


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text}: must be KEY=VALUE")
    return key.strip(), value.strip()
