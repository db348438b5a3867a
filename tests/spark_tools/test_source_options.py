import json
import time

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, UsageError
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.queue_ranges import DataLossError, resolve
from spark_tools.given_options import as_comment, plain_options, with_options_of_table
from spark_tools.source_options import ReadOptions, parse_loaded_options, parse_read_options, parse_stream_options
from tests.support.quick import in_one_test


def test_a_table_s_options_come_twice_and_count_once():
    passed = {
        "nameserver": "h:1", "option.nameServer": "h:1", "subscribe": "T", "option.subscribe": "T",
        "Option.endingOffsets": "latest", "owner": "me", "team": "a property of the table",
    }  # fmt: skip
    plain = plain_options(passed)
    assert plain == {"nameServer": "h:1", "subscribe": "T", "endingOffsets": "latest"}
    assert parse_read_options(plain).topics == ["T"]
    with pytest.raises(UsageError, match="no option subscrib"):
        parse_read_options(plain_options({"nameServer": "h:1", "option.subscrib": "T"}))
    assert plain_options({"owner": "me"}) == {}, "a table without options"
    of_files = plain_options({"location": "file:/a b", "path": "file:/a b", "provider": "rocketmq", "team": "x"})
    assert of_files == {"path": "file:/a b"}
    assert parse_read_options(of_files).paths == ["/a b"], "Spark makes a URI of a table's path"
    assert plain_options({"owner": "me", "subscribe": "T"}) == {"owner": "me", "subscribe": "T"}, "of no table"


def test_a_table_keeps_its_options_in_a_comment():
    given = {"nameServer": "h:1", "subscribe": "%DLQ%a", "startingOffsets": """{"T":{"b'\\\\":{"0":1}}}"""}
    comment = as_comment(given)
    assert not set("'\\") & set(comment)
    kept = with_options_of_table({"StartingOffsets": "earliest"}, [None, "another", comment])
    assert kept == {"nameserver": "h:1", "subscribe": "%DLQ%a", "startingoffsets": "earliest"}, "the query's own wins"
    assert with_options_of_table({}, [comment]) == {name.lower(): value for name, value in given.items()}
    assert with_options_of_table(given, [None, "another"]) == given, "of no table"
    with pytest.raises(UsageError, match="must not have a secretKey"):
        as_comment({"secretkey": "s"})
    with pytest.raises(UsageError, match="there are no options"):
        with_options_of_table({}, ["another"])


def test_an_unknown_option_names_the_nearest_one():
    with pytest.raises(UsageError, match="no option endingoffset") as caught:
        parse_read_options({"path": "/s", "endingoffset": "latest"})
    assert caught.value.hint == "did you mean endingOffsets?"
    with pytest.raises(UsageError, match="no option maxoffsetpertrigger") as caught:
        parse_loaded_options({"nameServer": "h:1", "subscribe": "T", "maxoffsetpertrigger": "5"})
    assert caught.value.hint == "did you mean maxOffsetsPerTrigger?"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "exactly one of the options path"),
        ({"path": "/s", "nameServer": "h:1"}, "exactly one of the options path"),
        ({"nameServer": "h:1"}, "exactly one of the options subscribe"),
        ({"path": "/s", "subscribe": "a", "subscribePattern": "b"}, "exactly one of the options subscribe"),
        ({"path": "/s", "startingTimestamp": "2026-01-01T00:00:00"}, "has no zone"),
        ({"path": "/s", "startingTimestamp": "yesterday"}, "is not a time"),
        ({"path": "/s", "startingTimestamp": "09:30"}, "has no zone"),
        ({"path": "/s", "startingTimestamp": "1767222000"}, "in milliseconds is 1970"),
        ({"path": "/s", "startingTimestamp": "-3600000"}, "negative"),
        ({"path": "/s", "startingTimestamp": "2099-01-01T00:00:00Z"}, "begins in the future"),
        ({"path": "/s", "startingTimestamp": "1h", "endingTimestamp": "2h"}, "ends before it begins"),
        ({"path": "/s", "startingTimestamp": "1h", "startingOffsets": "earliest"}, "exclude each other"),
        ({"path": "/s", "endingOffsetsByTimestamp": '{"T": {"b": {"0": 1}}}', "endingOffsets": "latest"}, "exclude"),
        ({"path": "/s", "splitSize": "64kb"}, "whole number"),
        ({"path": "/s", "startingOffsetsByTimestamp": '{"T": {"b": {"0": -1}}}'}, "at least 0"),
        ({"path": "/s", "startingOffsets": "latest"}, "neither earliest"),
        ({"path": "/s", "endingOffsets": '{"T": 1}'}, "is not valid"),
        ({"path": "/s", "mode": "fast"}, "none of auto, scan, index"),
        ({"path": "/s", "splitSize": "big"}, "not a whole number"),
        ({"path": "/s", "minPartitions": "9" * 5000}, "of at least 0 and at most 9223372036854775807"),
        ({"nameServer": "h:1", "subscribe": "T", "pullTimeoutMs": "2147483648"}, "and at most 2147483647"),
        ({"paths": '["/s"]', "nameServer": "h:1"}, "exactly one of the options path"),
        ({"paths": "/s"}, "option paths=/s is not valid"),
        ({"path": "/s", "includeBody": "maybe"}, "neither true nor false"),
        ({"path": "/s", "subscribePattern": "("}, "not a regular expression"),
        ({"path": "/s", "accessKey": "a"}, "belong together"),
        ({"path": "/s", "maxOffsetsPerTrigger": "5"}, "for streams"),
        ({"nameServer": "h:1", "topic": "T"}, "option topic is for writing"),
        ({"path": "/s", "startingOffsets": "group:"}, "startingOffsets=group: is neither earliest, group:<name>"),
        ({"path": "/s", "sql92": "a ==== 1"}, r"^sql92: Encountered .* at line 1, column 4. Was expecting one of: .*$"),
    ],
)  # fmt: skip
def test_options_without_a_meaning_are_refused(given, problem):
    with pytest.raises(UsageError, match=problem):
        parse_read_options(given)


def test_no_spelling_of_a_time_is_advised_that_lacks_a_zone():
    with pytest.raises(UsageError, match="is not a time") as caught:
        parse_read_options({"path": "/s", "startingTimestamp": "yesterday"})
    assert caught.value.hint is not None
    for advised in caught.value.hint.removeprefix("Write ").removesuffix(" or now.").split(", "):
        parse_read_options({"path": "/s", "startingTimestamp": advised.split(" (")[0]})


def test_whoever_saves_to_a_path_is_told_where_topics_are_named():
    """``df.write.format("rocketmq").option("nameServer", …).save("orders")``: nobody knows yet that it is a write."""
    with pytest.raises(UsageError, match="exactly one of the options path") as caught:
        parse_loaded_options({"nameServer": "h:1", "path": "orders"})
    assert caught.value.hint == "to write, name the topic by the option topic, and no path"


def test_names_are_taken_in_any_case_and_sizes_with_a_unit():
    found = parse_read_options({"PATH": "/a, /b", "splitsize": "64m", "STARTINGTIMESTAMP": "2026-01-01T00:00:00+01:00"})
    assert found.paths == ["/a", "/b"]
    assert parse_read_options({"paths": '["/a, b", "file:/c"]'}).paths == ["/a, b", "/c"], "of load([...])"
    assert found.split_size_bytes == 64 << 20
    assert found.start.timestamp_ms == 1767222000000


@pytest.mark.parametrize(
    ("text", "meant_ms"), [("0", 0), ("1767222000000", 1767222000000), ("@1767222000", 1767222000000)]
)
def test_times_are_those_of_the_commands(text, meant_ms):
    """`0` was "not a time", because ten digits were asked for."""
    assert parse_read_options({"path": "/s", "startingTimestamp": text}).start.timestamp_ms == meant_ms


def test_a_duration_counts_back_from_now():
    before_ms = time.time_ns() // 1_000_000
    found = parse_read_options({"path": "/s", "startingTimestamp": "2h", "endingTimestamp": "1h"})
    assert 0 <= (found.start.timestamp_ms or 0) - (before_ms - 7_200_000) < 60_000
    assert 0 <= (found.end.timestamp_ms or 0) - (before_ms - 3_600_000) < 60_000


def test_a_secret_shows_nowhere():
    found = parse_read_options({"nameServer": "h:1", "subscribe": "T", "accessKey": "ak", "secretKey": "hush"})
    assert "hush" not in repr(found)


class Cluster:
    """Two queues with offsets 5 to 10, stored 1000 ms apart. The group g has committed offset 7."""

    def topics(self):
        return ["T", "SCHEDULE_TOPIC_XXXX"]

    def queues(self, topic):
        return [MessageQueue(topic, "b", number) for number in range(2)] if topic in self.topics() else []

    def bounds(self, queue):
        return 5, 10

    def offset_for_time(self, queue, timestamp_ms):
        return min(max(5, -(-timestamp_ms // 1000)), 10)

    def committed(self, group, queue):
        return 7 if group == "g" and queue.queue_id == 0 else None


def ranges(**given: str) -> list[tuple[int, int, int]]:
    options = parse_read_options(
        {"nameServer": "h:1", **({"subscribe": "T"} if "assign" not in given else {}), **given}
    )
    return [(each.queue.queue_id, each.start, each.end) for each in resolve(options, Cluster()).ranges]


def test_where_ranges_begin_and_end():
    assert ranges() == [(0, 5, 10), (1, 5, 10)]
    assert ranges(startingOffsets="group:g") == [(0, 7, 10), (1, 5, 10)]
    table = json.dumps({"T": {"b": {"0": 8, "1": -2}}})
    assert ranges(startingOffsets=table) == [(0, 8, 10), (1, 5, 10)]
    assert ranges(assign=json.dumps({"T": {"b": [1]}}), endingOffsets=json.dumps({"T": {"b": {"1": 6}}})) == [(1, 5, 6)]
    assert ranges(startingTimestamp="0000006500", endingTimestamp="0000008000") == [(0, 7, 8), (1, 7, 8)]
    by_time = {side: json.dumps({"T": {"b": {"0": at}}}) for side, at in (("starting", 6500), ("ending", 8000))}
    assert ranges(
        startingOffsetsByTimestamp=by_time["starting"], endingOffsetsByTimestamp=by_time["ending"]
    ) == [(0, 7, 8), (1, 5, 10)]  # fmt: skip
    assert ranges(endingOffsets="group:g") == [(0, 5, 7)], (
        "to where the group has come; it has read nothing of the other"
    )


def test_what_is_named_twice_is_read_once():
    assert ranges(subscribe="T,T") == [(0, 5, 10), (1, 5, 10)]
    assert ranges(assign=json.dumps({"T": {"b": [1, 0, 1]}})) == [(1, 5, 10), (0, 5, 10)]


def test_a_range_that_is_gone_is_an_error_or_a_reported_gap():
    table = json.dumps({"T": {"b": {"0": 2, "1": 5}}})
    with pytest.raises(DataLossError, match="2 to 10 were asked for"):
        ranges(startingOffsets=table)
    options = parse_read_options(
        {"nameServer": "h:1", "subscribe": "T", "startingOffsets": table, "failOnDataLoss": "false"}
    )
    found = resolve(options, Cluster())
    queue = MessageQueue("T", "b", 0)
    assert found.gaps == [OffsetRange(queue, 2, 10)]
    assert found.ranges[0] == OffsetRange(queue, 5, 10), "read what is left, never from earliest again"


def test_names_that_do_not_exist_are_errors():
    for given in ({"subscribe": "Gone"}, {"assign": json.dumps({"T": {"b": [9]}})}):
        with pytest.raises(NotFoundError):
            resolve(parse_read_options({"nameServer": "h:1", **given}), Cluster())


def test_a_topic_that_cannot_be_read_is_not_called_missing():
    class Closed(Cluster):
        def queues(self, topic):
            return []

    options = parse_read_options({"nameServer": "h:1", "subscribe": "T"})
    with pytest.raises(NotFoundError, match="no queue of the topic T can be read"):
        resolve(options, Closed())


def test_a_start_after_the_last_message_is_an_error_unless_allowed():
    late = {"startingTimestamp": "9999999999"}
    with pytest.raises(UsageError, match="no message at or after"):
        ranges(**late)
    assert ranges(**late, startingOffsetsByTimestampStrategy="latest") == []


def test_internal_topics_are_read_only_when_asked_for():
    options = ReadOptions(name_server="h:1", topic_pattern=".*")
    assert {each.queue.topic for each in resolve(options, Cluster()).ranges} == {"T"}
    options = ReadOptions(name_server="h:1", topic_pattern=".*", include_internal_topics=True)
    assert {each.queue.topic for each in resolve(options, Cluster()).ranges} == {"T", "SCHEDULE_TOPIC_XXXX"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingTimestamp", "yesterday"),
        ("endingTimestamp", "2026-11-21T14:00:00"),
        ("startingOffsets", '{"T": 5}'),
        ("endingOffsetsByTimestamp", "{"),
        ("assign", "[1]"),
        ("subscribePattern", "("),
        ("mode", "fast"),
        ("splitSize", "1.5m"),
    ],
)
def test_a_wrong_value_is_named_with_its_option(name, value):
    """Which of two times was wrong, one had to guess."""
    with pytest.raises(UsageError) as caught:
        parse_read_options({"path": "/s", name: value})
    assert name in str(caught.value)
    assert value in str(caught.value)


STREAM = {"nameServer": "h:1", "subscribe": "T"}


@in_one_test(
    ({"endingoffsets": "latest"}, "option endingOffsets has no meaning in a stream: it has no end"),
    ({"path": "/s"}, "option path has no meaning in a stream: it reads a live cluster"),
    ({"mode": "scan"}, "option mode has no meaning in a stream"),
    ({"maxOffsetsPerTriger": "5"}, "no option maxOffsetsPerTriger"),
    ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0 is not a whole number of at least 1"),
    ({"maxTriggerDelay": "soon", "minOffsetsPerTrigger": "5"}, "maxTriggerDelay=soon is not a duration"),
    ({"maxTriggerDelay": "5m"}, "maxTriggerDelay needs minOffsetsPerTrigger"),
    ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "is more than maxOffsetsPerTrigger=5"),
    ({"startingOffsets": "now"}, "neither earliest, latest, group:<name> nor JSON"),
)
def test_stream_options_without_a_meaning_are_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_stream_options(STREAM | given)


def test_a_stream_begins_at_the_end_unless_told() -> None:
    assert parse_stream_options(STREAM).read.start.keyword == "latest"
    assert parse_stream_options(STREAM | {"startingOffsets": "Earliest"}).read.start.keyword == "earliest"
    assert parse_stream_options(STREAM | {"startingTimestamp": "2h"}).read.missing_timestamp == "latest"
    given = STREAM | {"startingOffsets": "earliest", "maxtriggerdelay": "30s", "minoffsetspertrigger": "1k"}
    found = parse_stream_options(given)
    assert (found.read.start.keyword, found.limits.delay_ms, found.limits.offsets_min) == ("earliest", 30_000, 1024)


def test_what_is_loaded_may_be_a_batch_or_a_stream() -> None:
    """Spark loads both in the same way."""
    for given in ({"startingOffsets": "latest"}, {"endingOffsets": "latest"}, {"maxOffsetsPerTrigger": "5"}):
        parse_loaded_options(STREAM | given)
    with pytest.raises(UsageError, match=r"no option endingOffset$"):
        parse_loaded_options(STREAM | {"endingOffset": "latest"})
    with pytest.raises(UsageError, match="endingOffsets has no meaning in a stream"):
        parse_loaded_options(STREAM | {"endingOffsets": "latest", "maxOffsetsPerTrigger": "5"})
