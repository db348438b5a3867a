"""Deliberate differences between our broker's answers and Apache's, with the reasons. The manual's compatibility page
is made from these tables. The plays of recorded exchanges hold the broker to the first."""

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

NOT_RECORDED = {
    "a master and its slaves: a slave with messages that its master lacks": Difference(
        "refused by either side, with a line in its log that says what to do; by our slave also after the master has "
        "written as much again, because it compares its last record (33). Clients can no longer read there: pulls are "
        "told to ask the master (20), or refused (2) while it is away",
        "Apache's master notices nothing. Once its log is the longer one, it sends bytes from the middle of a record",
    ),
    "a master and its slaves: a slave whose next bytes have expired at the master": Difference(
        "its connection is ended, with a line in the log", "Apache's master sends it heartbeats forever"
    ),
    "haStatus: a slave that has not reported yet": Difference(
        "not in sync",
        "Apache's master counts it as a slave with an empty log, which counts as in sync while its own log is small",
    ),
    "a master and its slaves: an empty slave": Difference(
        "gets the whole log; with syncFromLastFile=true the last file",
        "Apache's master sends only the last file, so a slave that takes its place lacks the rest",
    ),
    "a master and its slaves: inSyncReplicas above 1 without SYNC_MASTER": Difference(
        "refused, at the start and by 25", "Apache's broker accepts it, and acknowledges alone"
    ),
    "a master and its slaves: a slave that is started as the master": Difference(
        "no offset of a group is ahead of its queue",
        "at Apache's they stay where the master had them, so new messages in the places of those that the slave "
        "lacked may be skipped",
    ),
    "a master and its slaves: tables and offsets": Difference(
        "asked for as soon as the master is known, every syncBrokerMetadataPeriod (5 s), and, between brokers of ours, "
        "after a change of a topic or group and before a planned handover (906 with slaveBrokerId and tablesStamp, "
        "which Apache's brokers ignore)",
        "Apache's slave asks a minute after its start, and then once a minute: consumers that go on there read that "
        "time's messages again",
    ),
    "43 GET_ALL_CONSUMER_OFFSET": Difference(
        "the keys of pullOffsetTable are quoted",
        "Apache's slaves cannot read the unquoted ones of an Apache master: they stop copying offsets once a client "
        "has pulled from it",
    ),
    "haFlowControlEnable": Difference(
        "all bytes count towards maxHaTransferByteInSecond, and in `haStatus`",
        "Apache's master counts only the headers of transfers, so the limit is never reached",
    ),
    "haTransferBatchSize": Difference(
        "a slave that is 1 MiB behind or more gets transfers of 1 MiB",
        "every transfer has this size at most",
    ),
    "haMasterAddress": Difference(
        "without effect: slaves get their master from the nameserver", "in 5.5.0 a slave with it never connects"
    ),
    "a master and its slaves: the port for slaves of a broker with users or TLS": Difference(
        "open only if brokerRole or haListenPort is set",
        "that protocol has neither, so anyone who reaches the port reads the whole log. Apache's is always open",
    ),
    "a set under controllers: a new slave that cannot get the slaves' port of its master from a nameserver": Difference(
        "asks the master itself (906)",
        "Apache's waits for its next registration, up to 30 s, and meanwhile there is only one copy of acknowledged "
        "messages",
    ),
    "1002: the ids of brokers in the answer": Difference(
        "quoted", "Apache's are not, and its own mqadmin electMaster ends with an exception after a successful election"
    ),
    "a slave: offsets, and the progress of delays and timers": Difference(
        "count once its log has reached the end that its master's had when they were asked for (907)",
        "Apache's slave takes them at once. If its log is behind, and it becomes the master, delayed messages, timers "
        "and half messages whose copies have not come are skipped for good",
    ),
    "a set under controllers: a slave that leaves it": Difference(
        "the master waits for it until the controller has answered 1001 with 0; until then sends are answered with 12",
        "Apache's drops it at once when its connection ends. A frozen master that woke up after another was elected "
        "acknowledged 16 messages alone, and all were lost",
    ),
    "a set under controllers: a master that acknowledges on its own, without a controller for 9 s": Difference(
        "refuses messages (14), until a controller says that it is the master; masterLeaseEnable=false turns this off",
        "Apache's, frozen or cut off while another was elected, acknowledges until it is told, and those messages are "
        "cut off ([replication-handover.md](replication-handover.md#the-lease-of-a-master))",
    ),
    "a set under controllers: a master whose disk is full or has failed": Difference(
        "says so in its heartbeats (904 with takesMessages, which Apache's controllers ignore), and under our "
        "controller hands over to a broker in sync that takes messages",
        "Apache's stays the master: its set takes no messages until somebody comes "
        "([replication-clients.md](replication-clients.md#a-master-whose-disk-is-full))",
    ),
    "a set under controllers: requests that only a master takes, sent to a slave": Difference(
        "passed on to the master, whose answer is returned; forwardToMasterEnable=false turns this off",
        "Apache's refuses them with 2; Java and Go clients, which ask for routes every 30 s, stay with a former "
        "master for that long "
        "([replication-clients.md](replication-clients.md#clients-that-stay-with-the-former-master))",
    ),
    "10, 310, 320: PRODUCER_SEQ (our extension)": Difference(
        "a message with a number that is already stored is answered with its place and `repeated`; one that is not the "
        "next is refused with 604 ([client.md](client-sending.md#stored-once))",
        "Apache's broker has no such feature: it stores the property, and the message twice. Only this property turns "
        "the feature on at ours",
    ),
    "10, 310: a UNIQ_KEY that comes again, with uniqueKeyCheckMillis": Difference(
        "answered with the place of the first one; off by default",
        "Apache's broker stores it twice; Java clients keep the key when they send again",
    ),
    "a set under controllers: 1001 is refused with 2000 or 2002": Difference(
        "the master takes no more messages (14), and promises nothing for those that wait",
        "Apache's logs it, and goes on until it hears of the next master",
    ),
    "enableSlaveActingMaster, enableRemoteEscape, enableDLegerCommitLog": Difference(
        "a broker does not start with one of them, and says what to do instead: a set under controllers has a master "
        "that takes messages and delivers what is due "
        "([replication-sets.md](replication-sets.md#instead-of-a-slave-that-acts-for-its-master))",
        "a slave that acts takes no messages, and offsets that are committed to it are lost, or come back to a master "
        "whose log is shorter; with the second it puts due messages into a queue of another broker, where those come "
        "twice that its master has already delivered. The third is another format of the whole log",
    ),
    "rmqadmin -o mqadmin": Difference(
        "mqadmin's widths and words, with rows and the members of maps sorted by name; compare with `sort` where a "
        "script compares with mqadmin. `allocateMQ` shows what a group of clients does",
        "mqadmin prints them in the order of Java's hash maps, and allocates queues in it, which no client does",
    ),
    "rmqadmin store verify": Difference(
        "names the first place where a queue, an index file or the timer wheel differs from the log; `rmqadmin store "
        "dump` shows every unit and entry that does",
        "a queue or an index with a wrong place is removed and made anew from the log, whatever else is wrong in it",
    ),
    "1008 NOTIFY_BROKER_ROLE_CHANGED": Difference(
        "it makes the broker ask the controller (1004), and only that answer counts",
        "anyone who reaches the port of an Apache broker can make it a master or a slave",
    ),
    "a set under controllers: pulls at a broker without a role, or whose log may still be cut": Difference(
        "2, also with slaveReadEnable, until its master has said what is confirmed",
        "Apache's shows messages that may be cut off afterwards",
    ),
    "a set under controllers: an epoch in which nothing was written": Difference(
        "replaced by the next one with the same begin",
        "Apache keeps the old one, and two logs that part there look the same",
    ),
    "a set under controllers: a slave whose log is cut": Difference(
        "its epochs are cut with it; a list that becomes empty is removed from the disk",
        "Apache keeps epochs whose bytes are gone, and an old file",
    ),
    "a set under controllers: the handshake of a slave": Difference(
        "answered once, and followed by a report at once",
        "Apache's slave sends it twice, gives up when it is answered twice, and reports five seconds later",
    ),
    "10, 310, 320: batch": Difference(
        '`"batch":"1"` (`m` in the short header) is a batch; every other boolean ext field is read as Apache reads it',
        "C++ clients of 1.x write it so; Apache reads false, and stores their batch as the body of one message",
    ),
    "105, 106: the broker of a standalone that listens on every address (0.0.0.0, ::)": Difference(
        "its address is the one to which the asking client has connected, unless --advertise sets one",
        "Apache's broker registers one address of its own choice, which other clients may not reach",
    ),
    "17, 18: queue counts; 200, 225: retryQueueNums": Difference(
        "29 for less than 0 or more than 16,384 queues",
        "every look at a topic asks for every queue; Apache takes any number",
    ),
    "17, 18: queue.type=BatchCQ, cleanup.policy=COMPACTION": Difference(
        "1 `value … is not supported by this broker: …`, with what to do instead. A topic of an Apache store that has "
        "one is named in the log; its batches stay unread and its messages uncompacted",
        "both need a second store beside the log: batch queues save units of 20 bytes a message, and a compacted "
        "topic is read in another order of offsets. A topic must not claim to be one of these if it is not",
    ),
    "enableLmq, enableMultiDispatch: only one of the two is true": Difference(
        "as if neither were: messages keep INNER_MULTI_DISPATCH, and get no INNER_MULTI_QUEUE_OFFSET",
        "Apache counts offsets of queues that it does not write, and begins at 0 again after a restart",
    ),
    "10, 310: INNER_MULTI_DISPATCH of half messages": Difference(
        "a message of a transaction enters its light queues when it is committed",
        "Apache puts the half message there, too, before it is known whether it will be committed",
    ),
    "all codes: a required field that is missing or empty, text or too large a number in place of a number": Difference(
        "1, with the name of the field; nothing is done",
        "Apache's remark is that of a NullPointerException or a NumberFormatException; in some it goes on with "
        "0 or the text `null`",
    ),
    "200071: refusals": Difference(
        "604 and 2018 with only Apache's text", "Apache's remark begins with the name of a Java class"
    ),
    "200071: offsetOption TAIL_N, TIMESTAMP": Difference(
        "the last N messages; the first message that was stored at the time or later",
        "Apache's broker counts back from the group's offset, and ignores a time",
    ),
    "200070, 200071: when a subscription ends": Difference(
        "with the client's connection; its popped messages come again after their time or a restart",
        "Apache waits until it has not heard from the client for a while; clients subscribe again when they reconnect",
    ),
    "11: liteTopic": Difference(
        "the pull's commit, and a reset of the group, apply to the light queue that is read",
        "Apache's broker keeps both for the queue of that number of the parent topic, which holds other messages",
    ),
    "513, config/topicQueueMapping.json: static topics": Difference(
        "3, with what to do: a plain topic takes more queues, on more brokers, at any time (`updateTopic`). Static "
        "topics of a store are named in the log at the start and served as plain ones, by this broker's own queues "
        "and offsets; the file stays as it is",
        "Apache's brokers translate every send, pull and offset. Where queue numbers must outlive a move, keep "
        "Apache's brokers: `updateStaticTopic` and `remappingStaticTopic` of rmqadmin work with them",
    ),
    "3001 to 3010: without authenticationMetadataProvider, authorizationMetadataProvider": Difference(
        "served: users and policies can be made before authentication is turned on",
        "Apache's broker answers 1 `An system error occurred, please try again later.`",
    ),
    "18: a topic in the list that would not change": Difference(
        "skipped; the others are created", "Apache reports success and creates none of the others"
    ),
    "17, 18, 200, 225: a list with a bad entry": Difference(
        "the whole list is refused", "Apache takes the entries before it in 225, and none in 18"
    ),
    "303: delayTime": Difference(
        "0 if no message waits; for a group without offsets the age of the first message",
        "Apache shows the time since 1970",
    ),
    "308: filterGroups": Difference(
        "left out of the comparison", "Apache removes the stored offsets of these groups for good"
    ),
    "314: no topic": Difference("all topics of the group are cloned", "Apache walks through them and copies none"),
    "307, 309: no answer from the client": Difference(
        "207 and 1 with Apache's text up to the colon", "the rest of Apache's text names a Java exception"
    ),
    "315: names": Difference(
        "TOPIC_PUT, GROUP_GET, BROKER_PUT, BROKER_GET, and the counts of send-back, dead letters and acknowledgements",
        "counts by queue and latencies by group add to the cost of every message, and mqadmin asks for neither",
    ),
    "3001 to 3010: where users and policies are kept": Difference(
        "`config/auth.json`, readable only by its owner; `copyUser` and `copyAcl` copy them from broker to broker",
        "Apache keeps them in RocksDB (`config/users`, `config/acls`), whose files cannot be shared",
    ),
    "3001 to 3010: text and numbers": Difference(
        "16 for a name or password of more than 255 characters, more than 10,000 users, or more than 10,000 entries "
        "of one subject",
        "Apache takes what its memory holds",
    ),
    "authorizationEnabled=true without authenticationEnabled=true": Difference(
        "the server does not start", "Apache's broker believes any name that a request gives"
    ),
    "authenticationWhitelist, with authorization": Difference(
        "a request that need not be signed is a user's if its signature is right, otherwise anonymous",
        "Apache believes the name that it gives, even that of a super user",
    ),
    "361, 200070, 200071, 200151, with authorization": Difference(
        "what 11, 200050 and 200051 need: Sub of the topic and the group",
        "Apache needs nothing for them: any user can read any topic by 361. Clients that send them need both for "
        "their heartbeats anyway",
    ),
    "two entries of one resource that decide differently": Difference(
        "Deny wins", "Apache intends that, too, but its sort puts Allow first"
    ),
    "StatefulAuthenticationStrategy, StatefulAuthorizationStrategy": Difference(
        "a change of a user or a policy counts at once; only a connection's signatures are not checked again",
        "Apache keeps its former results for up to a minute",
    ),
    "signatures: SecurityToken, __ZONE_NAME, __ZONE_MODE": Difference(
        "accepted with them or without", "clients add them after the signature, and Apache's broker refuses"
    ),
    "25: settings of authentication and authorization": Difference(
        "29, and nothing changes", "Apache reports success, and goes on as before"
    ),
    "26: initAuthenticationUser, innerClientAuthenticationCredentials": Difference(
        "not listed", "Apache lists them with their passwords"
    ),
    "25: enableConsumeQueueExt=true": Difference(
        "29 `enableConsumeQueueExt=true: this server does not do that`. There is no start with it, nor on a store "
        "that has `consumequeue_ext/`, and no read by Spark; without it and `consumequeue/` the queues are rebuilt "
        "from the log",
        "the bit maps would save reading unwanted messages; without them the answers are the same",
    ),
    "25: timerWheelSnapshotFlush=true": Difference(
        "29; no start with it, nor on a store that has such snapshots",
        "the wheel is written in its own file; a snapshot that no broker reads would lose timers",
    ),
    "2001, 2004: limits for cold data, mode of reading": Difference(
        "answered, kept and shown as by Apache; nothing is throttled, and no mode is set",
        "threads read cold messages, beside the others; the log is not mapped",
    ),
    "34, 46, 11: SQL92 expressions": Difference(
        "23 for more than 65,536 characters, 8,192 words and signs, or 48 levels",
        "Apache compiles any length, and ends in a StackOverflowError at some thousand levels",
    ),
    "config/consumerFilter.json": Difference(
        "left as it is: heartbeats bring the filters again after a start, and a filter goes with its group's last "
        "member",
        "Apache's broker keeps filters in this file, for a day beyond their group. Nobody can pull by such a filter "
        "before the heartbeat comes; if Apache's broker gets the store back, it reads the file as it left it",
    ),
    "34: SQL92 filters": Difference(
        "10,000, with 4 Mi characters; the next one's pulls are answered 27", "Apache's limit is its heap"
    ),
    "10, 310, 320: code 14": Difference("the reason follows Apache's text", "Apache's broker gives it only in its log"),
    "320: a message or the whole batch is too large": Difference(
        "13, and nothing of it is stored", "Apache fails with an exception, code 1, which clients try again"
    ),
    "37: a transaction that is ended by several copies of its half message": Difference(
        "the message is delivered once", "Apache delivers it once for each commit"
    ),
    "39: with CHECK_IMMUNITY_TIME_IN_SECONDS": Difference(
        "the time in which the producer is not asked counts as no check",
        "Apache counts its own looks, and gives the message up before it has asked once",
    ),
    "39: flag": Difference("kept", "Apache loses the message's flag when it asks the producer"),
    "10, 310: half of a transaction with a delay": Difference(
        "delayed when it is committed", "Apache delays the half message, and drops it when its time has come"
    ),
    "36: with SYNC_FLUSH": Difference(
        "answered when the retry is flushed", "the consumer commits past the message, which a power cut could then lose"
    ),
    "36: a message that lies in a retry topic of POP": Difference(
        "RETRY_TOPIC is the topic it was first sent to",
        "Apache's broker gives the retry topic, where a redriven dead letter finds no consumer",
    ),
    "10, 36, 310: a dead letter that was in light queues": Difference(
        "it is only in the dead letters",
        "Apache's broker also puts it into the light queues, where its group gets it again, and it becomes a dead "
        "letter again",
    ),
    "11: the commit of the pull that is told of a reset": Difference(
        "does not count",
        "Apache's broker takes it: the group's offset is the former one again, until a client commits past the reset",
    ),
    "11: a held pull whose time is up": Difference("answered within a second", "Apache looks every five seconds"),
    "34: heartbeats without subscriptions of an unknown group": Difference(
        "IS_SUB_CHANGE true", "Apache says false, and the client never sends them again to a restarted broker"
    ),
    "200050: the revive log": Difference(
        "check points and acknowledgements are appended to it at once, without the timer wheel",
        "POP then needs no timers; each broker continues the other's log, which has the same form",
    ),
    "200051, 200053: a handle with a revive queue that does not exist": Difference(
        "refused with 13", "Apache's broker answers success, and puts the acknowledgement where nobody reads it"
    ),
    "200050: a message that was popped too often": Difference(
        "after the group's retryMaxTimes it goes to the dead letters",
        "Apache's broker leaves that to its proxy, and without one hands it out forever",
    ),
    "200050, 200054, 200070: one more of (topic, group, queue) than popPollingMapSize": Difference(
        "209, or pollingFull, as for maxPopPollingSize and popPollingSize",
        "Apache drops the one that waited longest: its clients are never answered",
    ),
    "200050, 200054, 200070: more than 100,000 waiting requests, including pulls": Difference(
        "209, or pollingFull, whatever maxPopPollingSize says", "one table holds them all, and is bounded"
    ),
    "settings of POP: popLongPollingForceNotifyInterval": Difference(
        "kept and shown", "a matching message wakes the waiting pop, so none has to be woken by force"
    ),
    "settings of POP: enablePopBufferMerge, enablePopBatchAck, popCk..., popConsumerKVServiceEnable": Difference(
        "kept and shown",
        "check points and acknowledgements go into the revive log before the answer; Apache's buffer saves it writes",
    ),
    "settings of POP: popReviveConcurrency, popReviveMaxAttemptTimes, popReviveMaxReturnSizePerRead": Difference(
        "kept and shown",
        "the loop that owns the log appends messages that come again; failed appends are tried again each minute",
    ),
    "settings of POP: enablePopLog, enableLitePopLog, popConsumerKVServiceLog": Difference(
        "kept and shown", "the log reports faults; `--log-level debug` reports more"
    ),
    "200050: after a crash": Difference(
        "messages popped before it stay invisible until their time is over",
        "Apache's broker pops them again, from the offset in consumerOffset.json",
    ),
    "15: numbers past Java's long": Difference("1, with the name of the field", "as 309 03"),
    "10, 310, 320: a zero byte in the properties": Difference(
        "13, and nothing is stored",
        "no checksum covers properties, so zeros in them reveal a record that a power cut tore",
    ),
    "25, 318: values that would stop the server for others": Difference(
        "29 `KEY=VALUE: …` with the requirement; nothing of the request is taken",
        "Apache takes maxMessageSize=-5 and then refuses every message; values that it clamps, we clamp",
    ),
    "a set under controllers: two brokers with one identity": Difference(
        "the one that registered last is the broker of that id. Heartbeats of the other are refused (904: 2014), it "
        "loses its role, and its log says what to do (event=identity-taken). Under Apache's controllers it keeps "
        "following, and does not lead",
        "Apache's compare only ids: when theirs is elected, both lead in one epoch",
    ),
    "1001: a member that stays in the set while the controller does not hear it": Difference(
        "allowed; a new member must be alive (2006)",
        "Apache's controller refuses every set that names one (2006): while a slave is cut off only from the "
        "controllers, its master cannot drop another lost slave, and sends are answered with 12",
    ),
    "1003: from the master itself": Difference(
        "its term is over: another one of the in-sync set is elected, or none until it asks",
        "a master that restarts may have lost the end of its log. If Apache's controller has not noticed the restart, "
        "the master continues in its epoch, and two logs differ in one epoch",
    ),
    "106: two brokers of one name and id": Difference(
        "displacedBrokers, a field only in this case, lists the broker whose place the other has taken; the log warns",
        "Apache's nameserver lists only the one that registered last, but `doctor` needs both",
    ),
    "1006: an empty list of names": Difference(
        "all sets",
        "a set without a master is registered at no nameserver, so `doctor` finds it only here. Apache's controller "
        "answers 1 `not set any response code`",
    ),
    "1011: isCleanLivingBroker=true": Difference(
        "the named ids, or all; 2009 if one of them is alive",
        "Apache's controller wipes the whole set whatever ids are named, and running brokers cannot register again",
    ),
    "1013: an id that is free and not the next one": Difference(
        "2014", "Apache's controller gives it away and counts on, which leaves members that never existed"
    ),
    "1002: the first epoch of a set": Difference(
        "1; if its first master has a log, the one after the log's last",
        "Apache's controller begins at 1. Our broker leads in no epoch that is older than its log; it has such a log "
        "if the controller's directory was lost",
    ),
    "1002: the first master of a set": Difference(
        "2012 for an id that no broker has",
        "Apache's controller elects it, and the set has a master without an address",
    ),
    "the connection of a broker's heartbeats ends": Difference(
        "it is dead if its address refuses a connection, otherwise alive until its heartbeat time-out",
        "a proxy may have ended the connection, and a live master has its lease. Apache's controller elects another "
        "at once",
    ),
    "elections in the first ten seconds of a controller, and in the ten seconds after it stood still": Difference(
        "none, except of a set that never had a master: 1002 is answered 2012 with the reason, 1011 with 2009",
        "the controller has heard no broker before, so the best replica may be one of those that seem dead",
    ),
    "elections: masterEpoch": Difference(
        "rises by one if no broker can be elected", "Apache's controller tries three times, and counts each"
    ),
    "elections: the longest log": Difference(
        "by the whole difference of the offsets", "Apache computes it in 32 bits: past 2 GiB the shorter log may win"
    ),
    "1009: enableElectUncleanMaster": Difference(
        "holds until the controller ends; to keep it, set it at the start",
        "Apache writes it into its file: a switch that gives up messages is easily left on",
    ),
    "1008: which brokers are notified": Difference(
        "live ones, and the former master",
        "a master that froze learns of the election as soon as it wakes; under Apache's controller it acts as master "
        "until it asks, up to five seconds later",
    ),
    "several controllers": Difference(
        "their state is in etcd (`--etcd`), and one of them leads; without it one controller, which always leads. "
        "controllerType=jRaft is refused",
        "etcd has the quorum: ours and Apache's controllers cannot be mixed in one group. Our brokers and Apache's "
        "work with three of either kind",
    ),
    "28: core": Difference(
        "an additional key: native, or python where the native core was not compiled", "`doctor` says it"
    ),
    "28: unwriteableReason": Difference(
        "an additional key, while the broker refuses messages", "Apache's broker gives the reason only in its log"
    ),
    "28: brokerActive of a slave": Difference(
        "true",
        "Apache means the duties of a master, which its slaves have only while they act for theirs; until then they "
        "report false, as if they served nobody",
    ),
    "28: putMessageTimesTotal, putMessageSizeTotal of a slave": Difference(
        "what clients have put there: nothing",
        "Apache's slaves count what they copy, so a sum over brokers counts messages twice",
    ),
    "28: followingProblem": Difference(
        "an additional key, while a slave does not follow its master",
        "an Apache slave gives the reason only in its log, and writes until its disk is full; ours stops when 256 MiB "
        "are left, and goes on when there is room",
    ),
    "1002: electMaster": Difference(
        "a living master of ours first hands over: it waits until the other broker has everything, and gives its lease "
        "back; otherwise it is refused (2012) after two seconds",
        "Apache's controller elects at once, and what only the former master has is lost",
    ),
    "PROXY headers (HAProxy's protocol, versions 1 and 2)": Difference(
        "the client's address in the header is shown and logged. White addresses, policies and "
        "maxConnectionsPerAddress look at the other end of the connection",
        "Apache believes the header everywhere: whoever reaches the port may pass for a white address",
    ),
    "standalone without --config: enablePropertyFilter, recallMessageEnable": Difference(
        "true; --set wins",
        "it serves people who develop. `broker`, and whoever gives a file of settings, has Apache's defaults",
    ),
    "--config FILE: names and paths that are not ASCII": Difference(
        "read as UTF-8, after a byte order mark as well; a line that is not UTF-8 is read as Apache reads it",
        "Apache reads all of the file in ISO-8859-1: other characters, unless they are written as \\uXXXX",
    ),
    "settings without a value: brokerName=, storePathRootDir=, authenticationEnabled=": Difference(
        "the server does not start, and names the setting",
        "Apache starts with the default, or with an empty name: a guard or a store that was meant is not there",
    ),
    "--set KEY=VALUE (our command line): a name that no server has": Difference(
        "the server does not start, and says the nearest name; --allow-unknown starts it. In a file, and for 25, it is "
        "a warning",
        "it was meant to do something. Apache's servers take settings from files alone, and ignore unknown ones",
    ),
    "tls.test.mode.enable=true beside tls.server.certPath": Difference(
        "the given certificate is used",
        "Apache's servers use one of their own making: tls.test.mode.enable is true there unless it is set",
    ),
    "config/*.json: a table, and its .bak, of 0 bytes": Difference(
        "the server does not start",
        "a full disk leaves such files. Apache's broker starts without the table, so all topics or offsets are gone",
    ),
    "any request: a JSON header that is not UTF-8": Difference(
        "each wrong byte is read as U+FFFD, as Apache and this server do in binary headers",
        "Apache's JSON reader makes other characters of such bytes, or closes the connection",
    ),
    "10, 310, 324, 325: an empty body": Difference(
        "taken, as in a batch", "Apache takes an empty body only in a batch, and otherwise fails with an exception"
    ),
    "12: answers past 12 MiB": Difference("cut after a whole message", "a longer frame closes the connection"),
    "`rmqadmin tui`: a command after `:`, as it was before the first release": Difference(
        "refused: `:` opens places, and takes save, lock and unlock. The palette (ctrl+p) runs every command for the "
        "selected row, and `rmqadmin shell` any",
        "one line for two languages completed neither well",
    ),
    "`rmqadmin tui`: keys typed before a screen stands": Difference(
        "go to the part with the focus, except behind `:` and the keys of places: type the next key when the screen is "
        "there",
        "holding keys back needed a queue beside Textual's",
    ),
    "`rmqadmin tui`: the text or hex of a large body": Difference(
        "its first 20,000 lines are shown: `v` opens all of it in a pager, `f` saves it",
        "Textual's own widgets look at each line once",
    ),
}
"""Differences that no recorded exchange shows."""
