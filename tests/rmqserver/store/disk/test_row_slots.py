"""A table whose rows are changed in place is a whole table after every single write."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rmqserver.store.disk.row_slots import SLOT_BYTES, Change, RowSlots

HEAD, END = b'{"version":0,"rows":{', b'},"after":1}'
KEYS = st.text(min_size=1, max_size=5)
VALUES = st.integers(0, 1 << 40) | st.text(max_size=40) | st.text("x", min_size=SLOT_BYTES, max_size=SLOT_BYTES + 1)
TABLES = st.dictionaries(KEYS, VALUES, max_size=8)
CHANGES = st.lists(st.tuples(KEYS, VALUES | st.none()), max_size=20)


def rows_of(table: dict[str, Any]) -> dict[str, bytes]:
    return {key: msgspec.json.encode(key) + b":" + msgspec.json.encode(value) for key, value in table.items()}


def read(content: bytes) -> dict[str, Any]:
    document = msgspec.json.decode(content)
    assert document["after"] == 1
    rows: dict[str, Any] = document["rows"]
    return rows


def changed(content: bytes, change: Change) -> bytes:
    assert len(change.data) == SLOT_BYTES
    assert change.at % SLOT_BYTES == 0, "a sector"
    assert change.at + SLOT_BYTES <= len(content), "in place"
    return content[: change.at] + change.data + content[change.at + SLOT_BYTES :]


@given(TABLES, CHANGES)
def test_the_file_is_the_table_before_or_after_each_change(
    table: dict[str, Any], wanted: list[tuple[str, Any]]
) -> None:
    rows = rows_of(table)
    if not RowSlots.can_hold(rows):
        assert not rows or min(map(len, rows.values())) > SLOT_BYTES - 2
        return
    slots = RowSlots(HEAD, rows, END)
    content = slots.content(HEAD, rows)
    assert read(content) == table
    for key, value in wanted:
        if value is None and key not in table:
            continue
        after = {**table, key: value} if value is not None else {k: v for k, v in table.items() if k != key}
        changes = slots.changes(HEAD, [(key, rows_of(after).get(key))], END)
        if changes is None:
            return
        for change in changes:
            content = changed(content, change)
            assert read(content) in (table, after)
        assert read(content) == after
        table = after


def test_a_slot_that_is_free_again_is_taken_again() -> None:
    """A table in which topics come and go does not grow."""
    rows = rows_of({"first": 1})
    slots = RowSlots(HEAD, rows, END)
    for number in range(100):
        key = str(number)
        assert slots.changes(HEAD, [(key, rows_of({key: 1})[key])], END) is not None
        assert slots.changes(HEAD, [(key, None)], END) is not None


def test_what_does_not_fit_is_laid_out_anew() -> None:
    rows = rows_of({"first": 1, "long": "x" * SLOT_BYTES})

    def changes(key: str, row: bytes | None, head: bytes = HEAD, end: bytes = END) -> list[Change] | None:
        return RowSlots(HEAD, rows, END).changes(head, [(key, row)], end)

    assert changes("first", b'"first":2') is not None
    assert changes("first", b'"first":2', head=HEAD.ljust(SLOT_BYTES + 1)) is None
    assert changes("first", b'"first":2', end=END + b" ") is None
    assert changes("first", None) is None, "the one without a comma"
    assert changes("long", b'"long":1') is None
    assert changes("long", None) is None
    assert changes("new", b'"new":"%s"' % (b"x" * SLOT_BYTES)) is None


def test_the_head_is_written_before_the_rows() -> None:
    """A version that is newer than its table does no harm; an older one would hide a change."""
    changes = RowSlots(HEAD, rows_of({"first": 1}), END).changes(HEAD, [("new", b'"new":2')], END)
    assert changes is not None
    assert [change.at for change in changes] == [0, 2 * SLOT_BYTES]
