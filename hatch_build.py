"""Builds the native modules if there are a C compiler and Python's headers. They are optional. Without them the index
costs three times the CPU. A pull with a filter by properties and a slave's copy of a log cost twice the CPU. The cost
that users and policies add to a request is a third higher. Everything else is the same.

The manual pages come along if `make release` has written them; a source package has them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = (
    Path("rmqserver/store/index/_index.c"),
    Path("rmqserver/store/append/_dispatch.c"),
    Path("rmqserver/store/queues/_properties.c"),
    Path("rmqproto/wire/_signed_fields.c"),
)


MANUAL = Path("man")


class Hook(BuildHookInterface):  # type: ignore[misc,type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if (Path(self.root) / MANUAL).is_dir():
            build_data["shared_data"][str(MANUAL)] = "share/man/man1"
        compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
        command = [*shlex.split(compiler), "-O2", "-fPIC", "-shared", f"-I{sysconfig.get_path('include')}"]
        for source in SOURCES:
            module = source.with_suffix(str(sysconfig.get_config_var("EXT_SUFFIX")))
            build = [*command, str(source), "-o", str(module)]
            try:
                subprocess.run(build, cwd=self.root, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                self.app.display_warning(f"{source} is not built, and not needed: {error}")
                continue
            build_data["artifacts"].append(str(module))
            build_data["infer_tag"], build_data["pure_python"] = True, False
