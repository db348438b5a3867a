"""What members manage by their own word."""

from rmqadmin.core.groups.running_info import Pace, pace_of, pace_text
from rmqproto.bodies.statistics import ConsumeRates, ConsumerRunningInfo


def test_what_a_client_of_java_tells() -> None:
    """Its retry topic counts, too; a topic of which it has consumed nothing lately has no time."""
    table = {
        "t": ConsumeRates(consume_ok_tps=30.0, consume_rt=10.0),
        "%RETRY%G": ConsumeRates(consume_ok_tps=8.0, consume_failed_tps=2.0, consume_rt=50.0),
        "u": ConsumeRates(),
    }
    told = pace_of(ConsumerRunningInfo(status_table=table, properties={"PROP_THREADPOOL_CORE_SIZE": "20"}))
    assert told == Pace(38.0, 20.0, 20)
    assert pace_text(told) == "38.0/s, 20 ms each, 20 threads"


def test_what_others_do_not_tell() -> None:
    assert pace_of(ConsumerRunningInfo()) is None, "gRPC"
    goes = ConsumerRunningInfo(status_table={"t": ConsumeRates()}, properties={"PROP_THREADPOOL_CORE_SIZE": "-1"})
    assert pace_of(goes) == Pace(0.0, None, None)
    assert pace_text(None) == "not known"
