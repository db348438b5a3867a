"""Reads and writes the text of a manifest: YAML or JSON, with the same content. ``manifest`` defines what the content
means.

Keys are text, whatever YAML would make of them: a topic may be called ``on`` or ``12``. A duplicate key is an error;
most readers of YAML and JSON silently take the last one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from rmqadmin.core.user_files import decoded
from rmqproto.errors import UsageError

SIZE_MAX_BYTES = 64 * 1024 * 1024
"""Enough for a hundred thousand topics. A larger file is not a manifest."""

STANDARD_INPUT = "-"


class TextFormat(StrEnum):
    YAML = "yaml"
    JSON = "json"


def read_documents(file: str) -> list[dict[str, Any]]:
    """The documents of a file, or of standard input for ``-``: one of JSON, or any number of YAML. UsageError, with the
    place, for text that cannot be read and for a document that is not an object."""
    where = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            data = sys.stdin.buffer.read(SIZE_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {where}: {error.strerror}") from None
    if len(data) > SIZE_MAX_BYTES:
        raise UsageError(f"{where} is longer than {SIZE_MAX_BYTES:,} bytes")
    return parse_documents(decoded(data, where), where)


def parse_documents(text: str, where: str) -> list[dict[str, Any]]:
    """Like ``read_documents``, from text."""
    found = _of_json(text, where) if text.lstrip()[:1] in ("{", "[") else _of_yaml(text, where)
    for document in found:
        if not isinstance(document, dict):
            raise UsageError(f"{where} holds no object", hint="Write for example topics: {OrderTopic: {perm: RW}}")
    return found


def _of_json(text: str, where: str) -> list[Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"{where}: {twice} is there twice")
        return found

    try:
        return [json.loads(text, object_pairs_hook=unique)]
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}:{error.lineno}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise UsageError(f"{where}: this is nested too deeply") from None


def _of_yaml(text: str, where: str) -> list[Any]:
    import yaml  # 12 ms

    try:
        return [document for document in yaml.load_all(text, Loader=_loader()) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = where if mark is None else f"{where}:{mark.line + 1}"
        raise UsageError(f"{place}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{where}: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError) as error:  # ValueError: a date that does not exist
        raise UsageError(f"{where}: {error}") from None


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C version reads 20 times as fast

    class ManifestLoader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            said = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(None, None, "a name is one word", key.start_mark)
                if said.count(key.value) > 1:
                    problem = f"{key.value} is there twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            self.flatten_mapping(node)  # << merges the fields of an anchor
            return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}

    return ManifestLoader


def text_of(document: Mapping[str, Any], format: TextFormat) -> str:
    """The text that ``parse_documents`` reads back: ASCII without control characters, ending with a line feed."""
    if format is TextFormat.JSON:
        return json.dumps(document, indent=2) + "\n"
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(document, Dumper=dumper, sort_keys=False, explicit_start=True)
    return text
