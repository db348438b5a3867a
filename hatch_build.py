"""Builds the one native module, where there is a C compiler and Python's headers. It is never needed: without it the
index costs three times the CPU, and everything else is the same."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("rmqserver/store/index/_index.c")


class NativeHook(BuildHookInterface):  # type: ignore[misc,type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        module = SOURCE.with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX")))
        compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
        command = [*shlex.split(compiler), "-O2", "-fPIC", "-shared", f"-I{sysconfig.get_path('include')}"]
        try:
            subprocess.run([*command, str(SOURCE), "-o", str(module)], cwd=self.root, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"{SOURCE} is not built, and not needed: {error}")
            return
        build_data["artifacts"].append(str(module))
        build_data["infer_tag"], build_data["pure_python"] = True, False
