"""A single value as text, for people and for machines."""

from __future__ import annotations

from typing import Annotated, Any

from rmqadmin.core.results import Row, columns, doc
from rmqadmin.core.tables.values import machine_text, person_text


class Configured(Row, frozen=True):
    config: Annotated[dict[str, Any], doc("by Apache's names")]


def test_what_is_not_set_within_a_value_is_not_called_as_python_calls_it() -> None:
    """`exportMetadata` used to show ``subscriptionDataSet=None``, also in csv."""
    (column,) = columns(Configured)
    value = {"subscriptionDataSet": None, "type": "CUSTOMIZED"}
    assert person_text(value, column, None) == "subscriptionDataSet=none type=CUSTOMIZED"
    assert machine_text(value, column) == "subscriptionDataSet= type=CUSTOMIZED"
