"""Deliberate differences between our broker's answers and Apache's that recorded exchanges show, with the reasons, to
which the plays of those exchanges hold the broker. ``docs/compatibility-requests.md`` is made from them; other
differences stand in the pages ``docs/differences-*.md``."""

from typing import NamedTuple


class Difference(NamedTuple):
    """A deliberate difference: what we answer, and why."""

    ours: str
    reason: str


RECORDED = {
    "309-CONSUME_MESSAGE_DIRECTLY/03": Difference(
        "1, with the text that the id is not an offset message id",
        "Apache's remark names a class of the Java library and a line of its source",
    ),
    "309-CONSUME_MESSAGE_DIRECTLY/06": Difference("as 03", "as 03"),
    "223-INVOKE_BROKER_TO_GET_CONSUMER_STATUS/02": Difference(
        "1 `No Any Consumer online in the consumer group: [NormalGroup]`, the text that Apache has for it",
        "Apache fails with a NullPointerException before it gets to that text",
    ),
    "223-INVOKE_BROKER_TO_GET_CONSUMER_STATUS/04": Difference("as 02", "as 02"),
    "10-SEND_MESSAGE/10": Difference("1, with the name of the missing field", "as 309 03"),
    "10-SEND_MESSAGE/25": Difference("as 10", "as 10"),
    "310-SEND_MESSAGE_V2/26": Difference("as 10 10", "as 10 10"),
    "310-SEND_MESSAGE_V2/52": Difference("as 10 10", "as 10 10"),
    "320-SEND_BATCH_MESSAGE/03": Difference("1, with the byte at which the batch is none", "as 309 03"),
    "320-SEND_BATCH_MESSAGE/06": Difference("as 03", "as 03"),
    "37-END_TRANSACTION/06": Difference(
        "1 `Find prepared transaction message failed`",
        "the message there is none of a transaction; Apache fails with a NullPointerException",
    ),
    "37-END_TRANSACTION/13": Difference("as 06", "as 06"),
    "315-VIEW_BROKER_STATS_DATA/08": Difference(
        "1 `… not exist`",
        "our transaction check does not read its queue as a consumer group, so nothing is counted for it",
    ),
    "200077-GET_LITE_CLIENT_INFO/01": Difference(
        "liteTopicCount 2: what the client subscribed to for another group is left out",
        "the answer is about one group and one parent topic; Apache puts all lite topics of the client together",
    ),
}
"""Differences that a recorded exchange shows, by the exchange's name."""

NOT_PLAYED = {
    "10-SEND_MESSAGE/16": "requests never wait for a thread here, so none can wait too long",
    "320-SEND_BATCH_MESSAGE/02": "to a topic with batch queues, which are not served",
    "320-SEND_BATCH_MESSAGE/05": "to a topic with batch queues, which are not served",
    "361-LITE_PULL_MESSAGE/03": "of a compacted topic, which is not served",
    "361-LITE_PULL_MESSAGE/04": "of a compacted topic, which is not served",
    "361-LITE_PULL_MESSAGE/09": "of a compacted topic, which is not served",
    "361-LITE_PULL_MESSAGE/10": "of a compacted topic, which is not served",
    "907-GET_BROKER_HA_STATUS/01": "of a master with a slave",
    "907-GET_BROKER_HA_STATUS/02": "of a master with a slave",
    "1007-GET_BROKER_EPOCH_CACHE/04": "of a broker with a controller",
    "1005-CONTROLLER_GET_METADATA_INFO/01": "of a controller that did not answer",
}
"""Recorded exchanges of requests that we serve but do not play against our broker, and why. A whole run of the tests
checks that all others are played."""
