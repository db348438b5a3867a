"""The product's own modules, loaded a second time: in this copy, ``trio``, ``time`` and the functions that open
connections are the simulation's. The modules that the rest of the process imports stay unchanged, so a broker that runs
in another thread is not affected, and a broken variant (``variants.py``) changes only its copy."""

import builtins
import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from types import CodeType, ModuleType
from typing import Any

from tests.simulation import clocks, tasks

_CONTROLLED = "rmqserver.broker.controlled"
_REPLICAS = "rmqserver.broker.replicas"
_CONTROLLER = "rmqserver.controller"

MODULES = (
    "rmqserver.logs",
    "rmqserver.system",
    "rmqserver.remoting.outward", "rmqserver.remoting.traffic",
    "rmqserver.store.append.confirmation",
    "rmqserver.store.epochs",
    f"{_CONTROLLER}.elections", f"{_CONTROLLER}.in_sync_sets", f"{_CONTROLLER}.live_brokers",
    f"{_CONTROLLER}.replica_ids", f"{_CONTROLLER}.event_log", f"{_CONTROLLER}.decider",
    f"{_CONTROLLER}.handovers",
    f"{_CONTROLLER}.controller",
    f"{_CONTROLLER}.quorum.quorum_store",
    f"{_REPLICAS}.ha_link", f"{_REPLICAS}.ha_master", f"{_REPLICAS}.ha_slave",
    f"{_CONTROLLED}.set_state", f"{_CONTROLLED}.controllers", f"{_CONTROLLED}.set_master",
    f"{_CONTROLLED}.set_slave", f"{_CONTROLLED}.set_watch", f"{_CONTROLLED}.identity", f"{_CONTROLLED}.duties",
    f"{_CONTROLLED}.member",
    "rmqserver.doors.remoting.role_answers",
    "rmqserver.broker.sending.pending",
)  # fmt: skip
"""The modules that decide, wait, or read a clock, in the order of their imports. Others - headers, bodies, codes,
settings, events of the controller, errors - are shared with the rest of the process."""

ASK_TIMEOUT_S = 0.4
"""How long a broker waits for a controller's answer: a third of the lease, as with the usual settings, while the
simulated leases are shorter."""

Change = Callable[["Product"], None]


class Product:
    """Modules by the last part of their names: ``product.set_master.SetMaster``."""

    def __init__(self, change: Change | None = None) -> None:
        """``change`` breaks one of its rules."""
        self._modules: dict[str, ModuleType] = {}
        for name in MODULES:
            self._modules[name] = self._load(name)
            setattr(self, name.rpartition(".")[2], self._modules[name])
            if name == "rmqserver.remoting.outward":
                self.outward.connect, self.outward.open_stream = _connect, _open_stream
            elif name == "rmqserver.remoting.traffic":
                self.traffic.write_now, self.traffic.write_all = _write_now, _write_all
        self.member.cut_back = _cut_back
        self.controllers.ASK_TIMEOUT_S = ASK_TIMEOUT_S
        # A master wakes its links in the order of a set, which would otherwise depend on memory addresses.
        self.ha_link.HaLink.__hash__ = lambda link: link._stream.number
        if change is not None:
            change(self)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} is none of the simulated modules")

    def _load(self, name: str) -> ModuleType:
        importlib.import_module(name)  # dataclasses look up their module by name
        module = ModuleType(name)
        module.__dict__["__builtins__"] = {**builtins.__dict__, "__import__": self._import}
        exec(_code(name), module.__dict__)
        return module

    def _import(
        self,
        name: str,
        globals_: Mapping[str, object] | None = None,
        locals_: Mapping[str, object] | None = None,
        fromlist: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if name == "trio":
            return tasks
        if name == "time":
            return clocks
        if name in self._modules and fromlist:
            return self._modules[name]
        found = builtins.__import__(name, globals_, locals_, fromlist or (), level)
        own = {part: self._modules[f"{name}.{part}"] for part in fromlist or () if f"{name}.{part}" in self._modules}
        if not own:
            return found
        view = ModuleType(name)  # `from rmqserver.controller import elections` gets the one of this copy
        view.__dict__.update({part: getattr(found, part) for part in fromlist or ()} | own)
        return view


@functools.cache
def _code(name: str) -> CodeType:
    spec = importlib.util.find_spec(name)
    code = spec.loader.get_code(name)  # type: ignore[union-attr]
    assert isinstance(code, CodeType)
    return code


@functools.cache
def as_it_is() -> Product:
    return Product()


def _cut_back(root: str, file_size_bytes: int, log_offset: int, disk: Any) -> None:
    tasks.running.task.machine.cut_log(log_offset)  # type: ignore[attr-defined]


async def _connect(loop: Any, service: Any, addr: str, pump: Any) -> Any:
    return await loop.connect(service, addr)


async def _open_stream(addr: str) -> Any:
    return await tasks.running.task.machine.open_stream(addr)  # type: ignore[attr-defined]


def _write_now(stream: Any, parts: Any) -> int:
    return int(stream.write_now(parts))


async def _write_all(stream: Any, parts: Any) -> None:
    await stream.write_all(parts)
