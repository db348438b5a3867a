"""Admin calls about a broker as a whole: its state, its configuration, its housekeeping."""

from __future__ import annotations

from collections.abc import Mapping

from rmqclient.admin.caller import AdminCaller
from rmqclient.admin.config_text import config_request, config_values_untrusted
from rmqproto import headers
from rmqproto.bodies import BrokerStats, ConsumeStatsList, DelayOffsets, KvTable
from rmqproto.codes import RequestCode


class BrokerCalls(AdminCaller):
    """``broker_addr`` is ``host:port`` throughout."""

    def broker_runtime_info(self, broker_addr: str) -> dict[str, str]:
        """Everything a broker says about its state, all values as text (28)."""
        return self.read(broker_addr, RequestCode.GET_BROKER_RUNTIME_INFO, None, KvTable).table

    def broker_config(self, broker_addr: str) -> dict[str, str]:
        """A broker's properties (26)."""
        return config_values_untrusted(self.call(broker_addr, RequestCode.GET_BROKER_CONFIG).body)

    def update_broker_config(self, broker_addr: str, values: Mapping[str, str]) -> None:
        """Sets properties of a broker (25). Apache's passes over, without a word, unknown ones and values that do not
        parse: read them back where that matters. RefusedError with code 16 for those it will not have changed."""
        self.call(broker_addr, RequestCode.UPDATE_BROKER_CONFIG, body=config_request(values))

    def broker_stats(self, broker_addr: str, stats_name: str, stats_key: str) -> BrokerStats:
        """One statistic over the last minute, hour and day (315), for example TOPIC_PUT_NUMS of a topic. RefusedError
        with code 1 where nothing was counted under the key."""
        header = headers.ViewStatsHeader(stats_name=stats_name, stats_key=stats_key)
        return self.read(broker_addr, RequestCode.VIEW_BROKER_STATS_DATA, header, BrokerStats)

    def broker_consume_stats(
        self, broker_addr: str, *, ordered: bool = False, timeout_s: float | None = None
    ) -> ConsumeStatsList:
        """The offsets of every group on one broker, of its ordered or its other topics (317)."""
        header = headers.BrokerConsumeStatsHeader(is_order=ordered)
        code = RequestCode.GET_BROKER_CONSUME_STATS
        return self.read(broker_addr, code, header, ConsumeStatsList, timeout_s=timeout_s)

    def delay_offsets(self, broker_addr: str) -> DelayOffsets:
        """How far each delay level has been delivered: next queue offset by level (45)."""
        return self.read(broker_addr, RequestCode.GET_ALL_DELAY_OFFSET, None, DelayOffsets)

    def clean_expired_consume_queues(self, broker_addr: str) -> None:
        """Has a broker delete consume queue files whose messages are gone (306)."""
        self.call(broker_addr, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    def delete_expired_commit_log(self, broker_addr: str) -> None:
        """Has a broker delete commit log files past their time (329)."""
        self.call(broker_addr, RequestCode.DELETE_EXPIRED_COMMITLOG)

    def clean_unused_topics(self, broker_addr: str) -> None:
        """Has a broker delete the consume queues of topics that it does not know (316)."""
        self.call(broker_addr, RequestCode.CLEAN_UNUSED_TOPIC)
