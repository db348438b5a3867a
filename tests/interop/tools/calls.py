"""The calls that ``test_every_command`` makes with Apache's mqadmin and with ours, to try every command and option of
mqadmin on a real broker. ``tests/rmqadmin/cli/test_registry.py`` checks that the list is complete.

Names in braces are filled in. ``{own}`` differs between the two programs, for calls that work only once. The calls of a
part are made in order.
"""

import shlex

CALLS = {
    "topics": """
        updateTopic -c {cluster} -t {fresh}1 -r 4 -w 4 -p 6 -o true
        updateTopic --brokerAddr {broker} --topic {fresh}2 --unit true --hasUnitSub true --attributes +message.type=FIFO
        updateTopicList -b {broker} -f {dir}/topics.json
        updateTopicPerm -b {broker} -t {topic} -p 6
        updateTopicPerm -c {cluster} -t {topic} -p 4
        updateTopicPerm -c {cluster} -t {topic} -p 6
        topicRoute -t {topic} -l
        topicStatus -t {topic} -c {cluster}
        topicClusterList -t {topic}
        topicList -c
        updateOrderConf -m put -t {topic} -v {name}:4
        updateOrderConf -m get -t {topic}
        updateOrderConf -m delete -t {topic}
        updateKvConfig -s {fresh} -k a -v 1
        deleteKvConfig -s {fresh} -k a
        allocateMQ -t {topic} -i 127.0.0.1
        statsAll -a -t {topic}
        statsAll
        cleanUnusedTopic -b {broker}
        cleanUnusedTopic -c {cluster}
        deleteTopic -c {cluster} -t {fresh}1
        TOPICLIST
        topicroute -t {topic}
    """,
    "static topics": """
        updateStaticTopic -t {own} -qn 2 -c {cluster}
        updateStaticTopic -t {own} -qn 3 -b {name} -fr true
        remappingStaticTopic -t {own} -b {name} -fr true
        remappingStaticTopic -t {own} -c {cluster}
        deleteTopic -c {cluster} -t {own}
    """,
    "groups": """
        updateSubGroup -b {broker} -g {fresh}1 -s true -m false -d true -o false -q 1 -r 5 -i 0 -w 1 -a true
        updateSubGroup -b {broker} -g {fresh}1 --attributes +priority.factor=3
        updateSubGroup -c {cluster} -g {fresh}1 -p {policy}
        updateSubGroupList -b {broker} -f {dir}/groups.json
        getConsumerConfig -g {group}
        setConsumeMode -b {broker} -t {topic} -g {group} -m PULL -q 8
        setConsumeMode -c {cluster} -t {topic} -g {group} -m PULL
        resetOffsetByTime -g {group} -t {topic} -s -1 -f true -c {cluster}
        resetOffsetByTime -g {group} -t {topic} -s now
        resetOffsetByTime -g {group} -t {topic} -s 2026-01-01#00:00:00:000
        resetOffsetByTime -g {group} -t {topic} -s -1 -b {broker} -q 0 -o 1
        skipAccumulatedMessage -g {group} -t {topic} -f true -c {cluster}
        cloneGroupOffset -s {group} -d {other} -t {topic} -o true
        consumerProgress -g {group} -t {topic} -s true -c {cluster}
        consumerProgress -g {other}
        brokerConsumeStats -b {broker} -o false -l 1000000 -t 30000
        queryCq -t {topic} -q 0 -i 0 -c 2 -b {broker} -g {group}
        deleteSubGroup -b {broker} -g {own} -r true
        deleteSubGroup -c {cluster} -g {own}
    """,
    "messages": """
        queryMsgById -i {offset_id} -t {topic} -c {cluster} -f UTF-8
        queryMsgById -i {id} -t {topic}
        queryMsgByKey -t {topic} -k {key} -b 0 -e 99999999999999 -m 2 -c {cluster}
        queryMsgByKey -t {topic} -k TagA -p T -m 2
        queryMsgByUniqueKey -t {topic} -i {id} -s 0 -e 99999999999999 -c {cluster} -a
        queryMsgByOffset -t {topic} -b {name} -i 1 -o 1 -f UTF-8 -r {topic}
        queryMsgByUniqueKey -t {topic} -i {id}
        queryMsgTraceById -i {id} -b 0 -e 99999999999999 -c 10 -t {topic}
        printMsg -t {topic} -c UTF-8 -d true -s TagA -b 0 -e 1
        printMsg -t {topic} -c UTF-8 -d true
        printMsg -t {topic} -s NoSuchTag -d false
        printMsgByQueue -t {topic} -a {name} -i 0 -p true -s "TagA || TagB"
        printMsgByQueue -t {topic} -a {name} -i 1 -c UTF-8 -b 0 -e 99999999999999 -p true -d true -f true -s TagA
        consumeMessage -t {topic}
        consumeMessage -t {topic} -b {name} -i 0 -o 1 -c 2 -g {group}
        consumeMessage -t {topic} -b {name} -i 0 -o 4 -c 2
        consumeMessage -t {topic} -s 2020-01-01#00:00:00:000 -e 2020-01-02#00:00:00:000
        sendMessage -t {topic} -p text -k K -c TagB -b {name} -i 1 -m false
        checkMsgSendRT -t {topic} -a 3 -s 10
        sendMsgStatus -b {name} -s 10 -c 2
    """,
    "members": """
        consumerConnection -g {group} -b {broker}
        consumerStatus -g {group} -b {broker}
        consumerStatus -g {group} -i {client} -b {broker}
        consumerProgress -g {group} -s true
        consumerConnection -g {group}
        queryMsgById -i {offset_id} -t {topic} -g {group} -d {client}
        queryMsgByUniqueKey -t {topic} -i {id} -g {group} -d {client}
    """,
    "producers": """
        producer -b {broker}
        producerConnection -g {producers} -t {topic}
    """,
    "brokers": """
        brokerStatus -b {broker}
        brokerStatus -c {cluster}
        clusterList
        clusterList -c {cluster} -m
        getBrokerConfig -b {broker}
        getBrokerConfig -c {cluster}
        updateBrokerConfig -b {broker} -k traceOn -v true
        updateBrokerConfig -b {broker} -k noSuchKey -v 1
        updateBrokerConfig -c {cluster} -k traceOn -v true -a true
        getNamesrvConfig
        updateNamesrvConfig -k serverChannelMaxIdleTimeSeconds -v 120
        wipeWritePerm -b {name}
        addWritePerm -b {name}
        wipeWritePerm -b no-broker
        cleanExpiredCQ -b {broker}
        cleanExpiredCQ -c {cluster}
        deleteExpiredCommitLog -b {broker}
        deleteExpiredCommitLog -c {cluster}
        resetMasterFlushOffset -b {broker} -o 0
        haStatus -b {broker}
        haStatus -c {cluster}
        getColdDataFlowCtrInfo -b {broker}
        getColdDataFlowCtrInfo -c {cluster}
        updateColdDataFlowCtrGroupConfig -b {broker} -g {group} -v 1000
        updateColdDataFlowCtrGroupConfig -c {cluster} -g {group} -v 1000
        removeColdDataFlowCtrGroupConfig -b {broker} -g {group}
        removeColdDataFlowCtrGroupConfig -c {cluster} -g {group}
        setCommitLogReadAheadMode -b {broker} -m 1
        setCommitLogReadAheadMode -c {cluster} -m 0
        switchTimerEngine -b {broker} -e F
        switchTimerEngine -c {cluster} -e F
        checkRocksdbCqWriteProgress -n {namesrv} -c {cluster} -t {topic} -cf 0
        exportPopRecord -b {broker}
        exportPopRecord -c {cluster}
        exportConfigs -c {cluster} -f {dir}
        exportMetadata -b {broker} -g -f {dir}
        addBroker -c {broker} -b {dir}/broker.conf
        removeBroker -c {broker} -b {cluster}:broker-z:1
        getBrokerLiteInfo -b {broker} -d
        getBrokerLiteInfo -c {cluster}
        getParentTopicInfo -p {lite}
    """,
    "guarded": """
        createUser -b {broker} -u {own} -p secret-1 -t Normal
        createUser -c {cluster} -u {own}2 -p secret-1
        updateUser -b {broker} -u {own} -s disable
        updateUser -c {cluster} -u {own} -t Normal
        updateUser -c {cluster} -u {own} -p secret-2
        getUser -b {broker} -u {own}
        getUser -c {cluster} -u {own}
        listUser -b {broker} -f root
        listUser -c {cluster} -f root
        createAcl -b {broker} -s User:{own} -r Topic:T1,Group:G* -a Pub,Sub -d Allow -i 127.0.0.1
        createAcl -c {cluster} -s User:{own} -r Topic:T2 -a Pub -d Deny
        updateAcl -b {broker} -s User:{own} -r Topic:T1 -a Pub -d Allow -i 10.0.0.0/8
        updateAcl -c {cluster} -s User:{own} -r Topic:T1 -a Sub -d Deny
        getAcl -b {broker} -s User:{own}
        getAcl -c {cluster} -s User:{own}
        listAcl -b {broker} -s {own}
        listAcl -c {cluster} -s {own} -r T1
        copyUser -f {broker} -t {broker} -u {own}
        copyAcl -f {broker} -t {broker} -s User:{own}
        deleteAcl -b {broker} -s User:{own} -r Topic:T1
        deleteAcl -c {cluster} -s User:{own}
        deleteUser -b {broker} -u {own}
        deleteUser -c {cluster} -u {own}
        exportMetadata -c {cluster} -f {dir}
        exportMetadata -c {cluster} -t -f {dir}
        exportMetadata -c {cluster} -s -g -f {dir}
        exportMetrics -c {cluster} -f {dir}
    """,
}  # fmt: skip
"""``guarded`` is a new cluster that keeps users. mqadmin 5.5.0 cannot export from a cluster with static topics."""

MASKS = {
    "brokerStatus": r"(?m)(?<=:) .*$| *\d+\.\d+( \d+\.\d+)* *",
    "checkMsgSendRT": r"(?m) +\d+$|\d+\.\d+",
    "clusterList": r" *\d+ *",
    "consumerProgress": r"\d+\.\d+",
    "consumerStatus": r"\d+\.\d+|(?<=Timestamp=)\d{17}|\d{13}/| {2,}",
    "producer": r"(?m)^producer group \(CLIENT_INNER_PRODUCER\).*$|(?<=lastUpdateTimestamp=)\d+",
    "queryMsgById": r"(?<=spentTimeMills=)\d+|(?<=Consume Time: ).*",
    "queryMsgByUniqueKey": r"(?<=spentTimeMills=)\d+",
    "remappingStaticTopic": r"\d{13}",
    "resetOffsetByTime": r"\(long\)\[\d+\]",
    "sendMessage": r"[0-9A-F]{32}",
    "sendMsgStatus": r"rt=\d+ms|[0-9A-F]{32}|(?<=queueOffset=)\d+",
    "statsAll": r"( +\d+(\.\d+)?)+ *",
    "updateStaticTopic": r"\d{13}",
    "updateTopicPerm": r"from [46] to",
}
"""The parts of the output that change from one call to the next."""

REFUSED = frozenset({"addBroker", "removeBroker", "queryMsgTraceById"})
"""Both programs fail and print nothing: there is no container here, and no trace."""

_CONTROLLER = "needs a controller: tests/interop/sets/"
_FILE = "reads files, and asks no broker"
_LITE = "needs lite topics with clients: tests/rmqadmin/commands/group/test_lite.py"
_FOREVER = "repeats until it is stopped"

ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        ["getSyncStateSet", "getBrokerEpoch", "getControllerMetaData", "getControllerConfig", "updateControllerConfig",
         "electMaster", "cleanBrokerMetadata"], _CONTROLLER,
    ),
    **dict.fromkeys(["dumpCompactionLog", "exportMetadataInRocksDB", "rocksDBConfigToJson"], _FILE),
    **dict.fromkeys(["getLiteTopicInfo", "getLiteClientInfo", "getLiteGroupInfo", "triggerLiteDispatch"], _LITE),
    **dict.fromkeys(["clusterRT", "startMonitoring"], _FOREVER),
}  # fmt: skip
"""Commands that are not called here, and why."""

ELSEWHERE_OPTIONS: dict[str, str] = {
    **dict.fromkeys(["clusterList -i", "haStatus -i"], _FOREVER),
    **dict.fromkeys(["updateTopicList -c", "updateSubGroupList -c"], "mqadmin prints its usage behind the answer"),
    **dict.fromkeys(["updateStaticTopic -mf", "remappingStaticTopic -mf"], "a file that an earlier call has left"),
    **dict.fromkeys(["consumerStatus -s"], "the threads are other ones each time"),
    **dict.fromkeys(["queryMsgById -s", "queryMsgById -u"], "sends the message again"),
    "exportPopRecord -d": "mqadmin passes over it and exports: a dry run of ours is one",
    "queryMsgByKey -l": "pages through an index in RocksDB",
    "printMsg -l": _LITE,
}
"""Options that are not given here, and why."""


def words_of(part: str) -> list[list[str]]:
    return [shlex.split(line) for line in CALLS[part].splitlines() if line.strip()]
