"""A plugin of mypy (``make lint``): ``msgspec.structs.replace`` takes the fields of its struct, each with its type. The
library declares any argument, so a renamed field would fail only where the call runs."""

from collections.abc import Callable

from mypy.plugin import FunctionSigContext, Plugin
from mypy.plugins.dataclasses import replace_function_sig_callback
from mypy.types import CallableType


class StructReplace(Plugin):
    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], CallableType] | None:
        return replace_function_sig_callback if fullname == "msgspec.structs.replace" else None


def plugin(_version: str) -> type[StructReplace]:
    return StructReplace
