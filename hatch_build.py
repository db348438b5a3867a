"""Builds the native core if there are a C compiler and Python's headers. ``RMQ_BUILD_WITH=ziglang`` brings a compiler
along: the wheel of that name, 100 MB, which the build takes for itself. The core is optional: without it Python does
the same, at half the rate of plain sends, a quarter of that of pulls, and a seventh of that of batches.

The manual pages come along if `make release` has written them; a source package has them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CORE = Path("rmqserver/core")
"""All C files in it make one module, ``_core``."""

FLAGS = ("-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-shared")

MANUAL = Path("man")

ZIGLANG = "ziglang"
"""The one value of ``RMQ_BUILD_WITH``, and the package that it asks for."""


def build_command(root: Path, module: Path, *more: str, compiler: str = "") -> list[str]:
    """To be run in ``root``: paths would otherwise be part of the module."""
    if not compiler and built_with_ziglang():
        compiler = shlex.join((sys.executable, "-m", ZIGLANG, "cc"))
    compiler = compiler or os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    sources = sorted(str(source.relative_to(root)) for source in (root / CORE).glob("*.c"))
    return [*shlex.split(compiler), *FLAGS, *more, f"-I{sysconfig.get_path('include')}", *sources, "-o", str(module)]


def built_with_ziglang() -> bool:
    """ValueError if ``RMQ_BUILD_WITH`` has another value."""
    asked = os.environ.get("RMQ_BUILD_WITH", "")
    if asked not in ("", ZIGLANG):
        raise ValueError(f"RMQ_BUILD_WITH={asked}: only {ZIGLANG} is known; CC names another compiler")
    return asked == ZIGLANG


class Hook(BuildHookInterface):  # type: ignore[misc,type-arg]
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [ZIGLANG] if built_with_ziglang() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if (Path(self.root) / MANUAL).is_dir():
            build_data["shared_data"][str(MANUAL)] = "share/man/man1"
        module = (CORE / "_core").with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX")))
        root = Path(self.root)
        try:
            subprocess.run(build_command(root, module), cwd=root, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            if built_with_ziglang():
                raise
            self.app.display_warning(f"The native core is not built, and not needed: {error}")
            return
        build_data["artifacts"].append(str(module))
        build_data["infer_tag"], build_data["pure_python"] = True, False
