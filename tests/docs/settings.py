"""Settings of Apache's brokers and nameservers that have no effect on ours, grouped by the reason. The compatibility
page is made from this. It cannot be made while a setting has neither an effect nor a reason."""

import dataclasses
import re
from typing import NamedTuple

from rmqserver.auth.auth_settings import AUTH_KEYS, OWN_KEYS
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.config.keyed_settings import Settings
from rmqserver.config.namesrv_config import NamesrvConfig


class Family(NamedTuple):
    """Settings without effect: their subject, the reason, and regular expressions for their names."""

    about: str
    reason: str
    patterns: str

    def has(self, key: str) -> bool:
        return any(re.fullmatch(pattern, key) for pattern in self.patterns.split())


FAMILIES = (
    Family(
        "where users and policies are kept, and how they are cached",
        "all of them are in memory and in config/auth.json, and a change counts from the next request on",
        r"""
        aclCache.* userCache.* statefulAuthorization.* authConfigPath clusterName configName
        """,
    ),
    Family(
        "containers of brokers, DLedger's log, slaves that act for their master",
        "not served; masters, slaves and sets under controllers are ([replication.md](replication.md))",
        r"""
        ha[A-Z].* .*[cC]ontroller.* .*[sS]lave.* .*InSync.* totalReplicas replicasPer.*
        .*DLeger.* .*DLedger.* duplicationEnable preferredLeaderId
        cleanOfflineBroker.* sendHeartbeatTimeoutMillis
        lockInStrictMode enableRemoteEscape isBrokerContainer isInBrokerContainer
        skipPreOnline brokerNotActiveTimeoutMillis syncBrokerMemberGroupPeriod compatibleWithOldNameSrv
        enableBatchPush
        """,
    ),
    Family(
        "groups of controllers",
        "there is one controller, with its own log",
        r"""
        electMasterMaxRetryCount isProcessReadEvent jraftConfig mappedFileSize controllerType
        """,
    ),
    Family(
        "threads, their queues and how long requests wait there",
        "one loop answers every request in the round in which it came; nothing waits for a thread",
        r"""
        .*ThreadPoolNums .*ThreadPoolQueueCapacity .*PoolQueueCapacity .*QueueCapacity waitTimeMillsIn.*
        brokerFastFailureEnable .*ThreadNums? .*Threads .*SemaphoreValue enableFastChannelEventProcess
        asyncSendEnable .*(Core|Max)PoolSize osPageCacheBusyTimeOutMills maxAsyncPutMessageRequests
        putMessageTimeout clientRequestThread.* enableAsyncReput dispatch(CqCacheNum|FromSenderThread)
        recoverConcurrently enableBuildConsumeQueueConcurrently .*CallbackExecutor.* .*WorkerGroup.*
        highSpeedMode enableNetWorkFlowControl
        """,
    ),
    Family(
        "RocksDB",
        "this server has no such files",
        r"""
        .*[rR]ocks[dD][bB].* .*RocksDB.* combine.* memTable.* bottomMost.* storeType
        useSingleRocksDBForAllConfigs configManagerVersion persistConsumerOffsetIncrementally popConsumerKV.*
        popConsumerFS.* timerRecallToTime.* transWriteOrigin.* maxOffsetMapSize
        """,
    ),
    Family(
        "memory that is mapped",
        "files are read and written, not mapped",
        r"""
        .*[mM]ap(p)?e[dr].* .*Swap.* transientStore.* fastFailIfNoBuffer.* writeWithoutMmap warm.* .*Warm.*
        commit(CommitLog|Interval).* wakeCommit.* useABSLock useReentrant.* spinLock.* topicQueueLockNum
        putConsumeQueueDataByFileChannel transferMsgByHeap sharedByteBufferNum debugLockEnable
        redeleteHangedFileInterval destroyMaped.*
        """,
    ),
    Family(
        "how often files are flushed and checked",
        "flushes follow writes, and recovery and retention depend only on the files",
        r"""
        flush(CommitLog|ConsumeQueue)LeastPages flushCommitLogT.* flushInterval.* flushDelay.*
        flushConsumerOffsetHistory.* flushLeastPages.* wakeFlush.* checkCommitLogOffsetOnRecover
        commitLogRecoverMaxNum maxRecoveryCommitlogFiles enableAcceleratedRecovery recheckReput.*
        enableLogConsumeQueueRepeatedly.* enableRunningFlagsInFlush correctLogicMinOffset.*
        delete(CommitLog|ConsumeQueue)FilesInterval maxBatchDelete.* logicalDiskSpace.* maxChecksumRange
        diskFallRecorded readUnCommitted putMsgIndexHightWater disappearTimeAfterStart enableCleanExpiredOffset
        """,
    ),
    Family(
        "the form of the store",
        "there is only one: that of Apache's defaults, in one directory",
        r"""
        readOnlyCommitLogStorePaths storePathCommitLog autoMessageVersionOnTopicLen maxTopicLength
        (enabledAppend|forceVerify)PropCRC messageIndexSafe indexFile.*Enable
        """,
    ),
    Family(
        "what a read looks at",
        "a read goes on until it has what the client asked for, within the limits of messages and bytes",
        r"""
        accessMessageInMemoryHotRatio dataReadAheadEnable maxConsumeQueueScan travelCqFileNum.* sample.*
        pullBatchMaxMessageCount bitMapLength.* enableCalcFilterBitMap enableConsumeQueueExt
        searchBcqByCacheEnable maxMessageFilterNumForNotification iterator.*
        expectConsumerNumUseFilter maxErrorRateOfBloomFilter filterDataCleanTimeSpan
        """,
    ),
    Family(
        "compacted topics and batch queues",
        "not served: see 17, 18 above",
        r"""
        compaction.* enableCompaction
        """,
    ),
    Family(
        "cold data",
        "see 2001, 2004 above",
        r"""
        .*[cC]old.* usePIDColdCtrStrategy
        """,
    ),
    Family(
        "POP's buffers and threads",
        "see the settings of POP above",
        r"""
        popCk.* popRevive.* popLongPolling.* popPollingMapExpire.* enablePop(Batch|Buffer|Log|Metrics).*
        append(Ack|Ck)Async revive(AckWait|Interval|Max|Scan).* skipWhenCK.* enableSkipLongAwaitingAck
        enableNotify.* initPopOffsetByCheckMsgInMem enableLitePopLog
        """,
    ),
    Family(
        "lite topics' events and checks",
        "a message wakes the request that waits for it, and subscriptions end with a connection",
        r"""
        enableLiteEventMode lite(Event|Subscription).* maxClientEventCount enableLmqStats liteLag.*
        """,
    ),
    Family(
        "delays and timers",
        "each delay level and the wheel have a task, which runs until everything due is delivered",
        r"""
        scheduleAsync.* enableSchedule.* delayOffsetUpdateVersionStep consumerOffsetUpdateVersionStep timer.*
        """,
    ),
    Family(
        "statistics, metrics and logs",
        "counters can be read (315, `/metrics`); nothing is pushed, and no other log is written",
        r"""
        account.* autoDeleteUnusedStats commercial.* enable(Connection|Detail|Lag|Message|Remoting).*
        enable(Request|Stats|Transaction)(Metrics|Stat)? metric.* maxStatsIdle.* printChannel.* isolateLogEnable
        estimateAccumulation
        """,
    ),
    Family(
        "registration",
        "a broker reports every change to every nameserver, and everything every 30 s",
        r"""
        compressedRegister forceRegister enableS(ingleTopicRegister|plitReg.*)
        splitRegistrationSize unRegisterBroker.* fetchNam.* updateNameServerAddrPeriod loadBalancePoll.*
        productEnvName clusterTest
        """,
    ),
    Family(
        "sockets",
        "the loop reads and writes as much as fits, and closes connections that do not read",
        r"""
        server(Pooled|Selector|Socket|Worker).* writeBuffer.* useEpoll.* shutdownWaitTimeSeconds
        enableShutdownGracefully client(Pooled|Channel|Close|Socket|Worker).* channelNotActiveInterval
        connectTimeoutMillis enableReconnectForGoAway isScanAvailable.* maxReconnect.* socks.* useTLS
        """,
    ),
    Family(
        "requests of Apache's proxy",
        "there is no proxy",
        r"""
        broadcastOffset.* enableBroadcastOffsetStore subscriptionExpiredTimeout
        """,
    ),
    Family(
        "consumers that fall behind, or are notified late",
        "consumers that are behind read by threads, beside the others, and members are notified at once",
        r"""
        disableConsumeIfConsumerReadSlowly consumerFallbehindThreshold realTimeNotifyConsumerChange
        enableRegisterProducer useStaticSubscription enableCreateSysGroup
        """,
    ),
    Family(
        "static topics",
        "not served: see 513 above",
        r"""
        forwardTimeout
        """,
    ),
    Family(
        "where files are",
        "the command line sets it, or it does not exist here",
        r"""
        rocketmqHome brokerConfigPath configStorePath messageStorePlugIn
        """,
    ),
)


def idle_keys() -> dict[str, list[str]]:
    """Settings without effect, by subject. LookupError for a setting that is in no family."""
    found: dict[str, list[str]] = {family.about: [] for family in FAMILIES}
    for key in sorted({key for kind in (BrokerConfig, NamesrvConfig, ControllerConfig) for key in _idle(kind)}):
        family = next((one for one in FAMILIES if one.has(key)), None)
        if family is None:
            raise LookupError(f"the setting {key} has no effect: give it one, or say why in tests/docs/settings.py")
        found[family.about].append(key)
    return found


def _idle(kind: type[Settings]) -> set[str]:
    return {key for key in kind().kinds if not kind().is_own(key)} - acted_on(kind)


def acted_on(kind: type[Settings]) -> set[str]:
    """Apache's settings that have an effect here, including those that act before the broker is made."""
    known = kind()
    keys = {field.metadata["key"] for field in dataclasses.fields(kind)} | (AUTH_KEYS & known.kinds.keys())
    return {key for key in keys if not known.is_own(key)}


def own_keys() -> list[str]:
    """Settings that only our servers have. This leaves out Apache's auth settings, which our controllers have too."""
    kinds = (BrokerConfig, NamesrvConfig, ControllerConfig)
    return sorted({key for kind in kinds for key in kind().kinds if kind().is_own(key)} - (AUTH_KEYS - OWN_KEYS))


def unused_patterns() -> list[str]:
    """Patterns that no longer match a setting."""
    keys = {key for of_family in idle_keys().values() for key in of_family}
    patterns = [each for family in FAMILIES for each in family.patterns.split()]
    return [each for each in patterns if not any(re.fullmatch(each, key) for key in keys)]
