"""``--transform module:function``: a user's function over Arrow batches. Its source is frozen in the plan and travels
with it, so that a second attempt, an executor on another machine and a resume next week run the function that was
shown."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import msgspec

from rmqproto.errors import RocketMQError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE_SIZE_MAX_BYTES = 256 << 10
"""The limit is low because it travels in the options of every task."""

PLACE_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset")
NULLABLE_COLUMNS = ("body", "properties")
CHANGEABLE_COLUMNS = (*NULLABLE_COLUMNS, "flag", "originTopic")

BatchFunction = Callable[["pa.RecordBatch"], "pa.RecordBatch"]
Row = dict[str, Any]


class UserFunction(msgspec.Struct, frozen=True):
    """``name`` is module:function. ``source`` is that of the module; its imports must be installed where tasks run."""

    name: str
    source: str


class TransformError(RocketMQError):
    """The user's function failed, or returned something that cannot become a message."""


def find_function(name: str, directory: str) -> UserFunction:
    """The current function. Its module is looked for in ``directory`` first. UsageError if there is none."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name.isidentifier():
        raise UsageError(f"--transform {name} is not of the form module:function")
    sys.path.insert(0, directory)
    importlib.invalidate_caches()
    try:
        spec = importlib.util.find_spec(module_name)
    except Exception as error:  # the packages around it are also the user's code
        raise UsageError(f"--transform {name}: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove(directory)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UsageError(f"--transform {name}: there is no module {module_name} in Python's path or in {directory}")
    try:
        source = Path(spec.origin).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--transform {name}: {error}") from None
    if len(source.encode()) > SOURCE_SIZE_MAX_BYTES:
        raise UsageError(f"--transform {name}: the module has more than {SOURCE_SIZE_MAX_BYTES >> 10} KiB")
    found = UserFunction(name, source)
    try:
        load_function(found)
    except TransformError as error:
        raise UsageError(str(error)) from None
    return found


@functools.cache
def load_function(function: UserFunction) -> BatchFunction:
    """Runs the module's source once per process. TransformError if it fails or does not define the function."""
    module_name, _, function_name = function.name.partition(":")
    digest = hashlib.sha256(function.source.encode()).hexdigest()[:12]
    module = ModuleType(f"{module_name}_{digest}")  # a later version of the module may use its own name
    module.__package__ = module_name.rpartition(".")[0]
    sys.modules[module.__name__] = module  # dataclasses look up their module
    try:
        exec(compile(function.source, f"{module_name}.py", "exec"), module.__dict__)
    except Exception as error:  # the user's code
        raise TransformError(f"--transform {function.name}: {type(error).__name__}: {error}") from None
    found = getattr(module, function_name, None)
    if not callable(found):
        raise TransformError(f"--transform {function.name}: the module has no function {function_name}")
    return cast(BatchFunction, found)


class RowTransform:
    """Applies the user's function to rows before they become messages.

    Its rows are matched to the input by the message's place. It may leave out messages and change their
    ``CHANGEABLE_COLUMNS``, but nothing else, not even the order. ``is_rehearsal`` (a dry run) calls it again on the two
    halves of every batch: a second attempt may get other batches and must give the same messages.
    """

    def __init__(self, function: UserFunction, *, is_rehearsal: bool = False):
        self._name = function.name
        self._function = load_function(function)
        self._is_rehearsal = is_rehearsal

    def rows(self, batch: pa.RecordBatch, rows: list[Row]) -> list[Row]:
        """The function's rows; ``rows`` are those of ``batch``, as Python values. TransformError if the function
        fails."""
        if not rows:
            return []
        made = self._call(batch)
        if self._is_rehearsal:
            middle = len(rows) // 2
            halves = [*self._call(batch.slice(0, middle)), *self._call(batch.slice(middle))] if middle else []
            again = halves or self._call(batch)
            if sorted(made, key=_place) != sorted(again, key=_place):
                raise TransformError(
                    f"--transform {self._name} gives other messages when it is called again: what becomes of a message "
                    "may depend on that message only, not on its neighbours, on chance or on the time"
                )
        originals = {_place(row): row for row in rows}
        changed = {}
        for row in made:
            place = _place(row)
            if place not in originals:
                raise TransformError(f"--transform {self._name} returned a message that it was not given: {place}")
            if place in changed:
                raise TransformError(f"--transform {self._name} returned a message twice: {place}")
            changed[place] = {
                name: value for name, value in row.items() if value is not None or name in NULLABLE_COLUMNS
            }
        return [{**row, **changed[place]} for place, row in originals.items() if place in changed]

    def _call(self, batch: pa.RecordBatch) -> list[Row]:
        """The places and the changeable columns that the function returned, in the types of the source."""
        import pyarrow as pa

        try:
            made = self._function(batch)
        except Exception as error:  # the user's code
            raise TransformError(f"--transform {self._name}: {type(error).__name__}: {error}") from None
        if not isinstance(made, pa.RecordBatch | pa.Table):
            raise TransformError(f"--transform {self._name} returned {type(made).__name__}, not an Arrow batch")
        missing = [name for name in PLACE_COLUMNS if name not in made.schema.names]
        if missing:
            raise TransformError(
                f"--transform {self._name} left out the column {missing[0]}, which says whose row it is"
            )
        names = [name for name in (*PLACE_COLUMNS, *CHANGEABLE_COLUMNS) if name in made.schema.names]
        try:
            columns = {name: made.column(name).cast(batch.schema.field(name).type) for name in names}
            rows: list[Row] = pa.table(columns).to_pylist(maps_as_pydicts="lossy")
        except pa.ArrowException as error:
            raise TransformError(f"--transform {self._name} returned columns of other types: {error}") from None
        return rows


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE_COLUMNS)
