import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The verbs that read: queries, pulls, offsets, groups. Also those that create a topic or a group. */
final class Reads {
    private static final int PULL_BATCH = 32;
    private static final int ADMIN_TIMEOUT_MS = 20_000;
    private static final int ROUTE_ATTEMPTS = 200;
    private static final int ROUTE_INTERVAL_MS = 50;

    private final String namesrv;
    private final DefaultMQAdminExt admin = new DefaultMQAdminExt(ADMIN_TIMEOUT_MS);
    private final Map<String, DefaultMQPullConsumer> pullers = new HashMap<>();

    Reads(String namesrv) throws Exception {
        this.namesrv = namesrv;
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("witness-admin");
        admin.start();
    }

    void register(Map<String, Witness.Verb> verbs) {
        verbs.put("create_topic", this::createTopic);
        verbs.put("create_group", this::createGroup);
        verbs.put("query_key", this::queryKey);
        verbs.put("query_unique_id", this::queryUniqueId);
        verbs.put("view", this::view);
        verbs.put("pull", this::pull);
        verbs.put("read_all", this::readAll);
        verbs.put("offsets", this::offsets);
        verbs.put("search_offset", this::searchOffset);
        verbs.put("commit", this::commit);
        verbs.put("progress", this::progress);
        verbs.put("members", this::members);
        verbs.put("assigned", this::assigned);
    }

    synchronized void stop() {
        pullers.values().forEach(DefaultMQPullConsumer::shutdown);
        admin.shutdown();
    }

    /** topic, queues, perm, order: "done" when the nameserver routes to it. */
    private void createTopic(Call call) throws Exception {
        int queues = call.number("queues", 4);
        TopicConfig config = new TopicConfig(call.text("topic"), queues, queues, call.number("perm", 6));
        config.setOrder(call.flag("order"));
        admin.createAndUpdateTopicConfig(broker(), config);
        for (int attempt = 1; ; attempt++) {
            try {
                admin.examineTopicRouteInfo(config.getTopicName());
                return;
            } catch (MQClientException e) {
                if (attempt == ROUTE_ATTEMPTS) throw e;
                Thread.sleep(ROUTE_INTERVAL_MS);
            }
        }
    }

    /** group, retryMaxTimes, orderly. */
    private void createGroup(Call call) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(call.text("group"));
        config.setRetryMaxTimes(call.number("retryMaxTimes", 16));
        config.setConsumeMessageOrderly(call.flag("orderly"));
        admin.createAndUpdateSubscriptionGroupConfig(broker(), config);
    }

    private String broker() throws Exception {
        for (BrokerData broker : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) return broker.selectBrokerAddr();
        throw new IllegalStateException("the nameserver knows no broker");
    }

    /** topic, key, max, begin, end: "message" for each. If there is none, the client fails with code 208. */
    private void queryKey(Call call) throws Exception {
        for (MessageExt m : admin.queryMessage(call.text("topic"), call.text("key"), call.number("max", 32), call.number("begin", 0L),
            call.number("end", Long.MAX_VALUE)).getMessageList()) call.message(m);
    }

    /** topic, msgId: the unique id that the producer gave. */
    private void queryUniqueId(Call call) throws Exception {
        for (MessageExt m : admin.queryMessageByUniqKey(null, call.text("topic"), call.text("msgId"), 32, 0, Long.MAX_VALUE).getMessageList()) call.message(m);
    }

    /** topic, msgId: the broker's id (address and log offset). */
    private void view(Call call) throws Exception {
        call.message(admin.viewMessage(call.text("topic"), call.text("msgId")));
    }

    private synchronized DefaultMQPullConsumer puller(String group) throws Exception {
        DefaultMQPullConsumer consumer = pullers.get(group);
        if (consumer == null) {
            consumer = new DefaultMQPullConsumer(group);
            consumer.setNamesrvAddr(namesrv);
            consumer.setInstanceName("witness-pull-" + group);
            consumer.start();
            pullers.put(group, consumer);
        }
        return consumer;
    }

    private DefaultMQPullConsumer puller(Call call) throws Exception {
        return puller(call.text("group", "WitnessReaders"));
    }

    private static MessageQueue queue(DefaultMQPullConsumer consumer, Call call) throws Exception {
        int queueId = call.number("queueId", 0);
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(call.text("topic"))) if (queue.getQueueId() == queueId) return queue;
        throw new IllegalArgumentException("no queue " + queueId + " in the route of " + call.text("topic"));
    }

    /** topic, queueId, queueOffset, max, expression, block (wait on the broker for a message), commit (the next offset): "pulled" and "message" events. */
    private void pull(Call call) throws Exception {
        DefaultMQPullConsumer consumer = puller(call);
        MessageQueue queue = queue(consumer, call);
        String expression = call.text("expression", "*");
        long offset = call.number("queueOffset", 0L);
        int max = call.number("max", PULL_BATCH);
        PullResult result = call.flag("block") ? consumer.pullBlockIfNotFound(queue, expression, offset, max) : consumer.pull(queue, expression, offset, max);
        call.emit("pulled", "status", result.getPullStatus().name(), "nextOffset", result.getNextBeginOffset(),
            "minOffset", result.getMinOffset(), "maxOffset", result.getMaxOffset());
        if (result.getMsgFoundList() != null) for (MessageExt m : result.getMsgFoundList()) call.message(m);
        if (call.flag("commit")) consumer.getOffsetStore().updateConsumeOffsetToBroker(queue, result.getNextBeginOffset(), false); // not oneway: it is read back
    }

    /** topic: every message of every queue, in the order of queues and offsets. */
    private void readAll(Call call) throws Exception {
        DefaultMQPullConsumer consumer = puller(call);
        for (MessageQueue queue : sorted(consumer.fetchSubscribeMessageQueues(call.text("topic")))) {
            long next = consumer.minOffset(queue), end = consumer.maxOffset(queue);
            while (next < end) {
                PullResult result = consumer.pull(queue, "*", next, PULL_BATCH);
                if (result.getPullStatus() != PullStatus.FOUND) throw new IllegalStateException(queue + " at " + next + " of " + end + ": " + result);
                for (MessageExt m : result.getMsgFoundList()) call.message(m);
                next = result.getNextBeginOffset();
            }
        }
    }

    private static List<MessageQueue> sorted(Set<MessageQueue> queues) {
        List<MessageQueue> all = new ArrayList<>(queues);
        all.sort(Comparator.naturalOrder());
        return all;
    }

    /** topic: "queue" with minOffset, maxOffset and the store time of the earliest message, per queue. */
    private void offsets(Call call) throws Exception {
        DefaultMQPullConsumer consumer = puller(call);
        for (MessageQueue queue : sorted(consumer.fetchSubscribeMessageQueues(call.text("topic"))))
            call.emit("queue", "queueId", queue.getQueueId(), "minOffset", consumer.minOffset(queue), "maxOffset", consumer.maxOffset(queue),
                "earliestStoreTimestamp", consumer.earliestMsgStoreTime(queue));
    }

    /** topic, queueId, timestamp: "found" with the queueOffset of the first message not older. */
    private void searchOffset(Call call) throws Exception {
        DefaultMQPullConsumer consumer = puller(call);
        call.emit("found", "queueOffset", consumer.searchOffset(queue(consumer, call), call.number("timestamp", 0L)));
    }

    /** group, topic, queueId, queueOffset: commits it as an operator does, without joining the group. */
    private void commit(Call call) throws Exception {
        MessageQueue queue = queue(puller("WitnessReaders"), call);
        admin.updateConsumeOffset(broker(), call.text("group"), queue, call.number("queueOffset", 0L));
    }

    /** group, topic: "progress" with brokerOffset and committedOffset, per queue. */
    private void progress(Call call) throws Exception {
        Map<Integer, Map<String, Object>> queues = new TreeMap<>();
        admin.examineConsumeStats(call.text("group"), call.text("topic")).getOffsetTable().forEach((queue, offsets) -> {
            if (!queue.getTopic().equals(call.text("topic"))) return;
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("queueId", queue.getQueueId());
            fields.put("brokerOffset", offsets.getBrokerOffset());
            fields.put("committedOffset", offsets.getConsumerOffset());
            queues.put(queue.getQueueId(), fields);
        });
        queues.values().forEach(fields -> call.emit("progress", fields));
    }

    /** group: "member" with clientId for each connected consumer; if there is none, it fails with code 206. */
    private void members(Call call) throws Exception {
        for (Connection member : admin.examineConsumerConnectionInfo(call.text("group")).getConnectionSet()) call.emit("member", "clientId", member.getClientId());
    }

    /** group, topic, clientId: "assigned" for each queue that this member reports, asked through the broker. */
    private void assigned(Call call) throws Exception {
        for (MessageQueue queue : admin.getConsumerRunningInfo(call.text("group"), call.text("clientId"), false).getMqTable().keySet())
            if (queue.getTopic().equals(call.text("topic"))) call.emit("assigned", "queueId", queue.getQueueId());
    }
}
