"""The questions of the reports, in Spark's SQL. The names of their columns are those of the command's JSON."""

MESSAGES, TABLE = "rocketmq_messages", "rocketmq_table"
"""The views that are asked: messages, and a table of the source."""

MESSAGE_SCHEMA = (
    "topic string, brokerName string, queueId int, queueOffset bigint, storeSize int, bornTimestamp timestamp, "
    "storeTimestamp timestamp, msgId string, tags string, keys string, properties map<string,string>"
)

_SPLIT = "array_distinct(split(trim(keys), ' +'))"
"""The keys of a message: one that it names twice is no duplicate."""

_KEYS = f"SELECT *, explode({_SPLIT}) AS key FROM {MESSAGES} WHERE trim(keys) != ''"

HOURS = f"""
SELECT topic, date_trunc('hour', storeTimestamp) AS hour, count(*) AS messages FROM {MESSAGES}
GROUP BY topic, hour ORDER BY topic, hour"""

TOPICS = f"""
WITH bases AS (
  SELECT topic, count(*) AS messages, sum(storeSize) AS size_bytes, min(storeTimestamp) AS oldest,
    max(storeTimestamp) AS newest, percentile_approx(storeSize, 0.5) AS size_p50_bytes,
    percentile_approx(storeSize, 0.99) AS size_p99_bytes, max(storeSize) AS size_max_bytes
  FROM {MESSAGES} GROUP BY topic
), hours AS (
  SELECT topic, max_by(hour, messages) AS peak_hour, max(messages) AS peak_hour_messages,
    round(max(messages) / avg(messages), 2) AS hour_skew
  FROM ({HOURS}) GROUP BY topic
), queues AS (
  SELECT topic, count(*) AS queues, round(max(n) / avg(n), 2) AS queue_skew
  FROM (SELECT topic, count(*) AS n FROM {MESSAGES} GROUP BY topic, brokerName, queueId) GROUP BY topic
), tags AS (
  SELECT topic, count(tags) AS tags, concat_ws(', ', transform(slice(array_sort(collect_list(
    struct(-n AS less, tags))), 1, 5), x -> concat(coalesce(x.tags, '(none)'), ' ', -x.less))) AS top_tags
  FROM (SELECT topic, tags, count(*) AS n FROM {MESSAGES} GROUP BY topic, tags) GROUP BY topic
), keys AS (
  SELECT topic, count(*) AS keys, max_by(key, n) AS top_key, max(n) AS top_key_messages
  FROM (SELECT topic, key, count(*) AS n FROM ({_KEYS}) GROUP BY topic, key) GROUP BY topic
)
SELECT topic, messages, size_bytes, size_p50_bytes, size_p99_bytes, size_max_bytes, oldest, newest,
  round(messages / nullif((unix_millis(newest) - unix_millis(oldest)) / 1000, 0), 3) AS messages_tps,
  peak_hour, peak_hour_messages, hour_skew, queues, queue_skew, tags, top_tags, coalesce(keys, 0) AS keys, top_key,
  top_key_messages
FROM bases JOIN hours USING (topic) JOIN queues USING (topic) JOIN tags USING (topic) LEFT JOIN keys USING (topic)
ORDER BY messages DESC, topic"""

_SUCCESS = "outcome LIKE 'success%'"

TRACES = f"""
WITH sent AS (
  SELECT topic, count_if({_SUCCESS}) AS sent, count_if(NOT {_SUCCESS}) AS failed_sends
  FROM {TABLE} WHERE kind = 'sent' GROUP BY topic
), consumed AS (
  SELECT topic, `group`, count(DISTINCT if({_SUCCESS}, msgId, null)) AS consumed,
    count(DISTINCT if({_SUCCESS} AND latencyMs IS NOT NULL, msgId, null)) AS consumed_of_sent,
    count_if(retries > 0) AS retries,
    percentile_approx(latencyMs, 0.5) AS latency_p50_ms, percentile_approx(latencyMs, 0.95) AS latency_p95_ms,
    percentile_approx(latencyMs, 0.99) AS latency_p99_ms, max(latencyMs) AS latency_max_ms,
    percentile_approx(costMs, 0.5) AS cost_p50_ms, max(costMs) AS cost_max_ms
  FROM {TABLE} WHERE kind IN ('delivered', 'consumed') GROUP BY topic, `group`
)
SELECT coalesce(sent.topic, consumed.topic) AS topic, `group`, sent, failed_sends, coalesce(consumed, 0) AS consumed,
  sent - coalesce(consumed_of_sent, 0) AS missing, coalesce(retries, 0) AS retries, latency_p50_ms, latency_p95_ms,
  latency_p99_ms, latency_max_ms, cost_p50_ms, cost_max_ms
FROM sent FULL JOIN consumed ON sent.topic <=> consumed.topic
ORDER BY missing DESC NULLS LAST, topic, `group`"""

TRACE_TOTALS = f"""
SELECT count(DISTINCT msgId) AS traced, count_if(kind = 'sent' AND {_SUCCESS}) AS sent, count_if(missing) AS missing
FROM {TABLE}"""

LETTERS = f"""
SELECT `group`, originTopic AS origin_topic, substring(element_at(split(cause, '\\n'), 1), 1, 200) AS cause, tags,
  count(*) AS letters, count_if(again) AS again, sum(int(redriven)) AS redriven,
  min(firstFailureTimestamp) AS first_failure, max(storeTimestamp) AS newest
FROM {TABLE} GROUP BY ALL ORDER BY letters DESC, `group`, origin_topic, cause, tags"""

IDENTITIES = {"id": f"SELECT *, msgId AS identity FROM {MESSAGES}", "key": f"SELECT *, key AS identity FROM ({_KEYS})"}
"""What a duplicate has in common with another message of its topic."""

_ORDERED = f"""
SELECT *, explode(if(properties['__SHARDINGKEY'] IS NOT NULL, array(properties['__SHARDINGKEY']),
  {_SPLIT})) AS key FROM {MESSAGES}"""
"""Messages with the keys by which they should be in order: the sharding key if there is one."""

_PLACE = "concat_ws(':', brokerName, queueId, queueOffset)"

CHECKS = {
    "duplicates": f"""
SELECT 'duplicates' AS check, topic, identity AS subject, count(*) - 1 AS count,
  concat('at ', concat_ws(', ', slice(array_sort(collect_list({_PLACE})), 1, 5))) AS detail
FROM ({{identity}}) GROUP BY topic, identity HAVING count(*) > 1""",
    "gaps": f"""
SELECT 'gaps' AS check, topic, concat_ws(':', brokerName, queueId) AS subject, queueOffset - before - 1 AS count,
  concat('offsets ', before + 1, ' to ', queueOffset - 1) AS detail
FROM (SELECT *, lag(queueOffset) OVER (PARTITION BY topic, brokerName, queueId ORDER BY queueOffset) AS before
  FROM {MESSAGES}) WHERE queueOffset > before + 1""",
    "order": f"""
SELECT 'order' AS check, topic, key AS subject, count_if(is_late) + count(DISTINCT brokerName, queueId) - 1 AS count,
  if(count(DISTINCT brokerName, queueId) > 1,
    concat('in queues ', concat_ws(', ', array_sort(collect_set(concat_ws(':', brokerName, queueId))))),
    concat('stored after a younger one at ', min(if(is_late, {_PLACE}, null)))) AS detail
FROM (SELECT *, bornTimestamp < lag(bornTimestamp) OVER (PARTITION BY topic, key, brokerName, queueId
  ORDER BY queueOffset) AS is_late FROM ({_ORDERED}) WHERE key != '')
GROUP BY topic, key HAVING count(DISTINCT brokerName, queueId) > 1 OR count_if(is_late) > 0""",
}
"""What ``verify`` looks for; {identity} is one of ``IDENTITIES``."""
