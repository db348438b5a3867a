"""What Spark's writes promise on the real broker."""

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import UsageError
from rmqreplay.source.live import LiveCluster
from spark_tools.writing.plan import make_plan
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Fresh

from ..cluster import Cluster

pytestmark = pytest.mark.interop


def test_idempotent_writes_are_refused_where_repeats_would_be_stored(cluster: Cluster, fresh: Fresh) -> None:
    """Before a row is sent: Apache's broker stores whatever comes again."""
    topic = fresh("WriteOnce")
    with AdminClient(cluster.namesrv_addr) as admin:
        admin.create_topic(cluster.broker_addr, TopicConfig(topic_name=topic, perm=6))
        wait_for_route(admin, topic)
    with LiveCluster(cluster.namesrv_addr) as live:
        if cluster.name == "ours":
            assert make_plan(live, topic).topic == topic
        else:
            with pytest.raises(UsageError, match="needs rmqserver, and broker-a is another: it would store repeats"):
                make_plan(live, topic)
