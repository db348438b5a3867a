"""``--transform``: the changes that a user's function may make to a batch, without Spark."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqreplay.plans.plan import Plan, Source, TargetRule, Transform, load_plan, save_plan
from rmqreplay.plans.user_function import RowTransform, TransformError, UserFunction, find_function
from rmqreplay.source.offset_ranges import OffsetRange
from tests.support.quick import in_one_test

SCHEMA = pa.schema([
    ("topic", pa.string()), ("brokerName", pa.string()), ("queueId", pa.int32()), ("queueOffset", pa.int64()),
    ("flag", pa.int32()), ("originTopic", pa.string()), ("properties", pa.map_(pa.string(), pa.string())),
    ("body", pa.binary()), ("corrupt", pa.string()),
])  # fmt: skip

EVEN_ONES = """
import pyarrow.compute as pc

def change(batch):
    kept = batch.filter(pc.equal(pc.bit_wise_and(batch["queueOffset"], 1), 0))
    at = kept.schema.get_field_index("body")
    return kept.set_column(at, "body", pc.binary_join_element_wise(kept["body"].cast("string"), "!", ""))
"""


def a_batch(offsets: list[int]) -> Any:
    rows = [
        {
            "topic": "T", "brokerName": "b", "queueId": 0, "queueOffset": at, "flag": 3, "originTopic": "T",
            "properties": [("k", "v")], "body": b"%d" % at, "corrupt": None,
        }
        for at in offsets
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def changed(source: str, offsets: list[int], *, is_rehearsal: bool = True) -> list[dict[str, Any]]:
    batch = a_batch(offsets)
    transform = RowTransform(UserFunction("m:change", source), is_rehearsal=is_rehearsal)
    return transform.rows(batch, batch.to_pylist(maps_as_pydicts="lossy"))


@given(st.lists(st.integers(0, 1 << 40), unique=True, max_size=20), st.integers(0, 20))
def test_the_same_messages_come_of_it_however_the_batches_are_cut(offsets: list[int], cut: int) -> None:
    """A second attempt reads other batches, and must still send the same messages as the first."""
    whole = changed(EVEN_ONES, offsets)
    assert whole == changed(EVEN_ONES, offsets[:cut]) + changed(EVEN_ONES, offsets[cut:])
    assert [row["queueOffset"] for row in whole] == [at for at in offsets if at % 2 == 0], "their order is kept"
    assert all(row["body"] == b"%d!" % row["queueOffset"] and row["flag"] == 3 for row in whole)


def test_the_function_of_the_manual() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "spark-replay.md").read_text()
    example = manual[manual.index("import pyarrow.compute as pc  # fixes.py") :].partition("```")[0]
    batch = a_batch([1, 2])
    bodies = pa.array([b'{"paid":true}', b'{"paid":false}'])
    batch = batch.set_column(batch.schema.get_field_index("body"), "body", bodies)
    transform = RowTransform(UserFunction("fixes:only_paid", example), is_rehearsal=True)
    rows = transform.rows(batch, batch.to_pylist(maps_as_pydicts="lossy"))
    assert [row["queueOffset"] for row in rows] == [1]


def test_properties_may_be_changed_and_the_order_may_not() -> None:
    found = changed(
        "import pyarrow as pa\n"
        "def change(batch):\n"
        "    rows = batch.to_pylist()\n"
        "    return pa.RecordBatch.from_pylist([row | {'properties': [('new', '1')]} for row in reversed(rows)],"
        " batch.schema)",
        [5, 6, 7],
    )
    assert [(row["queueOffset"], row["properties"], row["body"]) for row in found] == [
        (at, {"new": "1"}, b"%d" % at) for at in (5, 6, 7)
    ]


@in_one_test(
    ("return None", "returned NoneType"),
    ("1 / 0", "ZeroDivisionError: division by zero"),
    ("return batch.select(['body'])", "left out the column topic"),
    ("return pa.concat_batches([batch, batch])", "a message twice"),
    ("return batch.set_column(3, 'queueOffset', pa.array([9] * len(batch)))", "not given"),
    ("return batch.set_column(7, 'body', pa.array([1] * len(batch)))", "of other types"),
    ("return batch.slice(0, 1)", "gives other messages when it is called again"),
    ("return batch.filter(pa.array([next(chance) for _ in batch['topic']]))", "when it is called again"),
)
def test_what_would_lose_or_double_a_message_is_refused(body: str, said: str) -> None:
    """The dry run detects functions that depend on chance or on neighbouring rows: a second call has no consequences
    there."""
    head = "import itertools\nimport pyarrow as pa\nchance = itertools.cycle([True, True, False])\n"
    with pytest.raises(TransformError, match=said):
        changed(f"{head}def change(batch):\n    {body}", [1, 2])


def test_the_source_is_frozen_in_the_plan(tmp_path: Path) -> None:
    """The file may change or vanish between a dry run and a resume, but the function that was shown is the one that
    runs."""
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "changes.py"
    file.write_text(EVEN_ONES)
    found = find_function("mine.changes:change", str(tmp_path))
    plan = Plan(
        job="j", created_ms=1, source=Source(path="/s"), ranges=[OffsetRange(MessageQueue("T", "b", 0), 0, 9)],
        target=TargetRule(kind="topic", name="X"), transform=Transform(function=found),
    )  # fmt: skip
    save_plan(str(tmp_path), plan)
    file.unlink()
    loaded = load_plan(str(tmp_path))
    assert loaded is not None
    assert loaded == plan
    assert loaded.transform.function.source == EVEN_ONES
    other = Transform(function=UserFunction(found.name, EVEN_ONES.replace("!", "?")))
    assert msgspec.structs.replace(plan, transform=other).identity != plan.identity


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("changes", "not of the form module:function"),
        (":change", "not of the form module:function"),
        ("nosuchmodule_:change", "there is no module"),
        ("no.such.module:change", "No module named"),
        ("sys:exit", "there is no module"),
        ("changes:other", "has no function other"),
        ("broken:change", "SyntaxError"),
    ],
)
def test_a_function_that_is_not_there_is_said_before_spark_starts(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "changes.py").write_text(EVEN_ONES)
    (tmp_path / "broken.py").write_text("def change(")
    with pytest.raises(UsageError, match=said):
        find_function(name, str(tmp_path))
