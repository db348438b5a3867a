from __future__ import annotations

from rmqadmin.core.near_names import did_you_mean, near_name


def test_the_nearest_name_in_any_case_as_it_is_written() -> None:
    assert near_name("TOPICLIST", ["topicStatus", "topicList"]) == "topicList"
    assert near_name("topiclst", ["topicStatus", "topicList"]) == "topicList"


def test_nothing_is_near() -> None:
    assert near_name("zzz", ["topicList"]) is None
    assert did_you_mean("zzz", ["topicList"]) is None


def test_a_hint() -> None:
    assert did_you_mean("topiclst", ["topicList"]) == "Did you mean topicList?"
