"""The file of a plan: a plan that is not as it was written is refused, in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError
from rmqreplay.plans.plan import PLAN_FILE, Plan, Source, TargetRule, Transform, load_plan, save_plan
from rmqreplay.source.offset_ranges import OffsetRange

PLAN = Plan(
    job="job", created_ms=1_700_000_000_000, source=Source(name_server="127.0.0.1:9876"),
    ranges=[OffsetRange(MessageQueue("%DLQ%billing", "broker-a", 0), 0, 10)], target=TargetRule(kind="same"),
    transform=Transform(), wave_count=1,
)  # fmt: skip


def document(tmp_path: Path) -> dict[str, Any]:
    save_plan(str(tmp_path), PLAN)
    found: dict[str, Any] = json.loads((tmp_path / PLAN_FILE).read_bytes())
    return found


def load(tmp_path: Path, content: str) -> Plan | None:
    (tmp_path / PLAN_FILE).write_text(content)
    return load_plan(str(tmp_path))


def test_it_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    assert load(tmp_path, json.dumps(document(tmp_path))) == PLAN


@pytest.mark.parametrize("change", [{"hash": None}, {"created_ms": 1}, {"job": "another"}])
def test_a_changed_one_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(StorageError, match="the plan was changed after it was written"):
        load(tmp_path, json.dumps({**document(tmp_path), **change}))


def test_one_without_its_hash_is_refused(tmp_path: Path) -> None:
    """It was called "not a plan: 'hash'"."""
    found = document(tmp_path)
    del found["hash"]
    with pytest.raises(StorageError, match="the plan was changed after it was written"):
        load(tmp_path, json.dumps(found))


@pytest.mark.parametrize("content", ["", "[]", "7", "{", "{}", '{"hash": "x", "job": 7}', '{"a":' * 20_000])
def test_another_file_is_no_plan(tmp_path: Path, content: str) -> None:
    with pytest.raises(StorageError, match=r"plan\.json: not a plan: "):
        load(tmp_path, content)
