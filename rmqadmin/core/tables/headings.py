"""What a person calls a field: the heading of its column, and its name in the lines below a table.

Most words follow from the field's name, without its unit, because the cells carry that. The others are listed here.
"""

_UNITS = ("_ms", "_bytes", "_ratio", "_s", "_addr")
_COUNTS, _RATE = ("_count", "_nums", "_addrs"), "_tps"

_WORDS = {
    "unread_count": "unread",
    "again_count": "again",
    "broker_addr": "address",
    "broker_addrs": "addresses",
    "broker_id": "id",
    "broker_name": "broker",
    "broker_offset": "end",
    "broker_names": "brokers",
    "cached_count": "in hand",
    "client_addr": "address",
    "client_host": "from",
    "client_id": "client",
    "commit_log_disk_ratio": "log disk",
    "consume_broadcast_enable": "broadcast",
    "consume_enable": "enabled",
    "consume_from_min_enable": "from first",
    "consume_from_where": "begins at",
    "consume_message_orderly": "in order",
    "consume_queue_disk_ratio": "queue disk",
    "consume_timeout_minute": "timeout, minutes",
    "consume_tps": "consumed/s",
    "consume_type": "type",
    "consumer_offset": "committed",
    "committed_offset": "committed",
    "drain": "nothing left",
    "drain_ms": "nothing left after",
    "earliest_message_ms": "oldest",
    "fail_count": "failed",
    "in_day": "in 24h",
    "in_tps": "in/s",
    "in_yesterday": "in, yesterday",
    "inflight_count": "in flight",
    "lag_count": "lag",
    "lag_count_max": "largest lag",
    "last_consumed_ms": "consumed",
    "light_queue_count_max": "at most",
    "last_updated_ms": "newest",
    "max_offset": "end",
    "mean_rt_ms": "mean time",
    "message_model": "model",
    "message_tps": "messages/s",
    "mb_tps": "MB/s",
    "min_offset": "begin",
    "namesrv_addr": "name server",
    "new_lag_count": "new lag",
    "offset_message_id": "offset id",
    "old_lag_count": "old lag",
    "original_message_id": "original id",
    "out_day": "out 24h",
    "out_tps": "out/s",
    "out_yesterday": "out, yesterday",
    "overdue_ms": "overdue by",
    "p50_ms": "p50",
    "p90_ms": "p90",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "page_cache_wait_ms": "log held",
    "ours": "rmqserver",
    "put_tps": "in/s",
    "queue_id": "queue",
    "queue_offset": "offset",
    "reconsume_times": "retries",
    "retry_max_times": "retries",
    "rt_ms": "time",
    "same_subscription": "same subscription",
    "seconds": "duration",
    "success_count": "succeeded",
    "timer_behind_count": "timers due",
    "timer_behind_s": "timers behind",
    "timer_congested_count": "timers waiting",
    "unchanged_count": "left as they are",
    "wait_ack_count": "not acknowledged",
    "waiting_count": "waiting",
}


def words(field: str) -> str:
    """``lag`` for ``lag_count``, ``stored`` for ``stored_ms``, ``clients`` for ``client_count``, ``skipped`` for
    ``skipped_count``."""
    known = _WORDS.get(field)
    if known is not None:
        return known
    for count in _COUNTS:
        if field.endswith(count):
            noun = field.removesuffix(count).replace("_", " ")
            return noun if noun.endswith("ed") else noun + "s"
    if field.endswith(_RATE):
        return field.removesuffix(_RATE).replace("_", " ") + "/s"
    field = field.removeprefix("is_")
    for unit in _UNITS:
        field = field.removesuffix(unit)
    return field.replace("_", " ")
