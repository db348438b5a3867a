"""Admin calls to name servers. Reading calls ask any of them. Changing calls go to the one given: a caller changes all
of them in turn (``admin.namesrv_addrs``) and has to know which failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqclient.admin.caller import AdminCaller, body_of, config_request, config_values_untrusted
from rmqproto import bodies, headers
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.base import Header, from_ext


class NameserverCalls(AdminCaller):
    """Routes, the cluster, and the name servers' own tables."""

    def cluster_info(self) -> bodies.routes.ClusterInfo:
        """Every broker by name, and every cluster's broker names (106)."""
        return body_of(self.call_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO), bodies.routes.ClusterInfo)

    def topic_route(self, topic: str) -> bodies.routes.TopicRoute:
        """A topic's route (105). RefusedError with code 17 for a topic that no broker registered."""
        header = headers.nameserver.RouteHeader(topic=topic, accept_standard_json_only=True)
        return body_of(self.call_namesrv(RequestCode.GET_ROUTEINFO_BY_TOPIC, header), bodies.routes.TopicRoute)

    def routes_at(self, namesrv_addr: str, topics: Sequence[str]) -> dict[str, bodies.routes.TopicRoute]:
        """The routes that one name server has; topics without one are left out (105, all sent together)."""
        asked = [headers.nameserver.RouteHeader(topic=topic, accept_standard_json_only=True) for topic in topics]
        accept = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
        answers = self.call_all(namesrv_addr, RequestCode.GET_ROUTEINFO_BY_TOPIC, asked, accept)
        return {
            topic: body_of(answer, bodies.routes.TopicRoute)
            for topic, answer in zip(topics, answers, strict=True)
            if answer.code == ResponseCode.SUCCESS
        }

    def topic_list(self) -> list[str]:
        """Every topic that a broker registered, including system topics (206)."""
        return self._topics(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).topic_list

    def topic_list_of_cluster(self, cluster: str) -> list[str]:
        """The topics of one cluster (224); an unknown one has none."""
        return self._topics(
            RequestCode.GET_TOPICS_BY_CLUSTER, headers.nameserver.ClusterHeader(cluster=cluster)
        ).topic_list

    def system_topics_of_namesrv(self) -> bodies.routes.TopicList:
        """Cluster and broker names, and the address of a broker that knows the rest of the system topics (304)."""
        return self._topics(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)

    def unit_topics(self) -> list[str]:
        """Topics with the unit flag (311)."""
        return self._topics(RequestCode.GET_UNIT_TOPIC_LIST).topic_list

    def unit_subscribed_topics(self) -> list[str]:
        """Topics with the flag for subscription by a unit (312)."""
        return self._topics(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST).topic_list

    def unit_subscribed_plain_topics(self) -> list[str]:
        """Those of ``unit_subscribed_topics`` without the unit flag (313)."""
        return self._topics(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST).topic_list

    def broker_member_group(self, cluster: str, broker_name: str) -> bodies.routes.BrokerMemberGroup:
        """The live members of one broker name (901); an unknown one has none."""
        header = headers.nameserver.MemberGroupHeader(cluster_name=cluster, broker_name=broker_name)
        answer = self.call_namesrv(RequestCode.GET_BROKER_MEMBER_GROUP, header)
        return body_of(answer, bodies.routes.BrokerMemberGroupAnswer).broker_member_group

    def delete_topic_in_namesrv(self, namesrv_addr: str, topic: str, cluster: str | None = None) -> None:
        """Forgets a topic's route, on one cluster or on all (216)."""
        header = headers.nameserver.DeleteTopicHeader(topic=topic, cluster_name=cluster)
        self.call(namesrv_addr, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)

    def wipe_write_perm(self, namesrv_addr: str, broker_name: str) -> int:
        """Removes the write permission from all routes of a broker (205). Returns the number of topics found."""
        header = headers.nameserver.BrokerNameHeader(broker_name=broker_name)
        answer = self.call(namesrv_addr, RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        return from_ext(answer.ext, headers.nameserver.WipeWritePermAnswer).wipe_topic_count

    def add_write_perm(self, namesrv_addr: str, broker_name: str) -> int:
        """Restores the write permission (327). Returns the number of topics found."""
        header = headers.nameserver.BrokerNameHeader(broker_name=broker_name)
        answer = self.call(namesrv_addr, RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        return from_ext(answer.ext, headers.nameserver.AddWritePermAnswer).add_topic_count

    def namesrv_config(self, namesrv_addr: str, *, with_own_defaults: bool = False) -> dict[str, str]:
        """A name server's configuration (319); ``with_own_defaults`` as for ``config_values_untrusted``."""
        answer = self.call(namesrv_addr, RequestCode.GET_NAMESRV_CONFIG)
        return config_values_untrusted(answer.body, with_own_defaults=with_own_defaults)

    def update_namesrv_config(self, namesrv_addr: str, values: Mapping[str, str]) -> None:
        """Sets properties of a name server (318), which ignores unknown ones."""
        self.call(namesrv_addr, RequestCode.UPDATE_NAMESRV_CONFIG, body=config_request(values))

    def kv_value(self, namespace: str, key: str) -> str:
        """One value of the name servers' key-value table (101). RefusedError with code 22 if there is none."""
        header = headers.nameserver.KvHeader(namespace=namespace, key=key)
        return from_ext(
            self.call_namesrv(RequestCode.GET_KV_CONFIG, header).ext, headers.nameserver.KvValueAnswer
        ).value

    def kv_namespace(self, namespace: str) -> dict[str, str]:
        """All of one namespace (219). RefusedError with code 22 if there is none."""
        header = headers.nameserver.NamespaceHeader(namespace=namespace)
        return body_of(self.call_namesrv(RequestCode.GET_KVLIST_BY_NAMESPACE, header), bodies.routes.KvTable).table

    def put_kv(self, namesrv_addr: str, namespace: str, key: str, value: str) -> None:
        """Writes one value (100)."""
        header = headers.nameserver.PutKvHeader(namespace=namespace, key=key, value=value)
        self.call(namesrv_addr, RequestCode.PUT_KV_CONFIG, header)

    def delete_kv(self, namesrv_addr: str, namespace: str, key: str) -> None:
        """Deletes one value (102), which need not exist."""
        header = headers.nameserver.KvHeader(namespace=namespace, key=key)
        self.call(namesrv_addr, RequestCode.DELETE_KV_CONFIG, header)

    def _topics(self, code: RequestCode, header: Header | None = None) -> bodies.routes.TopicList:
        return body_of(self.call_namesrv(code, header), bodies.routes.TopicList)
