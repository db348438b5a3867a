"""Property strings parsed all together, compared with the parser that takes one at a time."""

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from rmqproto.message import properties as props
from spark_tools.property_columns import PropertyColumns

NAMES = ["a", "bb", "LONG_NAME_1", "LONG_NAME_2", "\u00e9"]
values = st.text("ab\u00e9", min_size=1, max_size=3)
regular = st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=3).map(
    lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs)
)
anything = st.text("ab\x00\x01\x02", max_size=6)


@given(st.lists(regular, max_size=4), st.lists(st.one_of(regular, anything), max_size=2))
@example([], ["no separator at all"])
@example(["a\x01b\x02"], ["a\x01b"])
@example([], ["a\x01", "\x02"])
def test_same_properties_as_one_by_one(some: list[str], more: list[str]) -> None:
    texts = pa.array(["in front of the slice", *some, *more], pa.string())[1:]
    expected = [props.parse(text) for text in [*some, *more]]
    found = PropertyColumns(texts)
    assert [dict(each) for each in found.maps().to_pylist()] == expected
    for name in [*NAMES, "b", "LONG_NAM", "LONG_NAME_12"]:
        assert found.value(name).to_pylist() == [each.get(name) for each in expected], name
