"""The commands about lite topics, given answers that were not recorded."""

from rmqadmin.commands.group.lite_groups import LiteClientInfos, LiteLags, LiteOffsets
from rmqadmin.commands.group.lite_topics import LiteTopicInfos, ParentTopicInfos
from rmqproto.bodies.lite import ClientGroup, LiteClientInfo, LiteGroupInfo, LiteLag, LiteTopicInfo, ParentTopicInfo
from rmqproto.bodies.statistics import ConsumeOffset
from rmqproto.codes import RequestCode
from rmqproto.errors import RefusedError
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.replayed import Replayed

NOW_MS = 1_700_000_000_000
REFUSED = RefusedError(26, "Group [g] not exist.")


def group(**fields: object) -> LiteGroupInfo:
    return LiteGroupInfo(group="g", parent_topic="T", **fields)  # type: ignore[arg-type]


def test_the_clients_of_a_lite_topic_are_named_with_their_groups() -> None:
    info = LiteTopicInfo(lite_topic="a", parent_topic="T", subscriber=[ClientGroup(client_id="c1", group="g")])
    result = LiteTopicInfos({"broker-a": info}, "T", "a", show_client_id=True)
    assert result.rows()[0].subscribers == ["c1@g"]
    assert result.mqadmin_text().endswith(" 1                  \n[c1@g]\n")


def test_a_topic_that_no_group_reads_has_null_where_mqadmin_prints_it() -> None:
    """The broker leaves the groups out in that case. The text used to be []."""
    without, of_one = ParentTopicInfo(topic="T"), ParentTopicInfo(topic="T", groups=["g"])
    result = ParentTopicInfos({"a": without, "b": of_one}, "T")
    assert [row.groups for row in result.rows()] == [[], ["g"]]
    assert [line.split()[-1] for line in result.mqadmin_text().splitlines()[2:4]] == ["null", "[g]"]


def test_an_unknown_client_has_no_count_and_a_known_one_its_light_queues() -> None:
    unknown = LiteClientInfo(client_id="c", group="g", parent_topic="T")
    known = LiteClientInfo(
        client_id="c", group="g", parent_topic="T", lite_topic_count=1, last_access_time=NOW_MS,
        lite_topic_set=["%LMQ%$T$a"],
    )  # fmt: skip
    result = LiteClientInfos({"a": unknown, "b": known}, "", show_detail=True)
    assert [row.lite_topic_count for row in result.rows()] == [None, 1]
    assert [row.last_access_ms for row in result.rows()] == [None, NOW_MS]
    assert "Lite Topics: [%LMQ%$T$a]\n\n" in result.mqadmin_text()


def test_lags_are_merged_and_the_worst_comes_first() -> None:
    lags = [LiteLag(lite_topic="a", lag_count=1), LiteLag(lite_topic="b", lag_count=5)]
    old = LiteLag(lite_topic="a", lag_count=1, earliest_unconsumed_timestamp=NOW_MS - 60_000)
    info = group(
        lag_count_top_k=lags,
        lag_timestamp_top_k=[old],
        total_lag_count=6,
        earliest_unconsumed_timestamp=NOW_MS - 60_000,
    )
    result = LiteLags({"broker-a": info, "broker-b": REFUSED}, "[g] [T]", NOW_MS)
    assert [(row.lite_topic, row.lag_count) for row in result.rows()] == [("b", 5), ("a", 1)]
    assert (result.summary().lag_count, result.summary().earliest_unconsumed_ms) == (6, NOW_MS - 60_000)
    assert result.problem() == f"1 of 2 brokers: {REFUSED}"
    text = result.mqadmin_text()
    assert f"[broker-b] error.\nTotal Lag Count: 6\nMin Unconsumed Timestamp: {NOW_MS - 60_000} (60 s ago)\n" in text
    assert text.index("1      b ") < text.index("2      a ") < text.index("lag time") < text.rindex("1      a ")


def test_the_offsets_in_one_lite_topic() -> None:
    offsets = ConsumeOffset(broker_offset=7, consumer_offset=4, last_timestamp=0)
    known = group(lite_topic_offset_wrapper=offsets, total_lag_count=3)
    result = LiteOffsets({"broker-a": known, "broker-b": group()}, "[g] [T]", NOW_MS)
    assert [(row.broker_offset, row.lag_count) for row in result.rows()] == [(7, 3), (None, None)]
    first, second = result.mqadmin_text().splitlines()[2:4]
    assert first.split() == ["broker-a", "7", "4", "3", "-"]
    assert second.split() == ["broker-b", "-", "-", "-", "-"]


def test_a_dispatch_is_asked_of_the_named_broker_alone(rmqadmin: Rmqadmin) -> None:
    with Replayed() as apache:
        args = ("triggerLiteDispatch", "-p", "T", "-g", "g", "-n", apache.address)
        ran = rmqadmin(*args, "-b", "broker-z")
        assert (ran.status, "The broker[broker-z] not exist" in ran.err) == (5, True)
        ran = rmqadmin(*args, "-b", "broker-a", status=1)
        assert f"request type {int(RequestCode.TRIGGER_LITE_DISPATCH)} not supported" in ran.err
        assert rmqadmin(*args, "--dry-run").status == 0
