import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** The verbs that join a group. A member consumes until the test stops it, and prints every message before it answers. */
final class Consumers {
    private static final long ORDERLY_PAUSE_MS = 100;
    /** The client's default is 30 s, for the route of a new retry topic and for a heartbeat that was lost in a race. */
    private static final int TIMER_INTERVAL_MS = Integer.getInteger("witness.consumerTimerMs", 1000);
    /** For a listener that has told the test of its message but not yet answered. By default a consumer leaves without waiting. */
    private static final long ANSWER_DEADLINE_MS = 10_000;
    /** By default a consumer commits for the first time ten seconds after its start, and then every five. */
    private static final long COMMIT_INTERVAL_MS = 500;
    private static final ScheduledExecutorService COMMITS = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "commits");
        thread.setDaemon(true);
        return thread;
    });

    private final String namesrv;
    private final Map<Long, CountDownLatch> running = new ConcurrentHashMap<>();
    private final Map<Long, CountDownLatch> left = new ConcurrentHashMap<>();

    Consumers(String namesrv) {
        this.namesrv = namesrv;
    }

    /**
     * group, topic, expression or sql, orderly, broadcasting, instance: "started", then "message" events with "thread" and "failed".
     * With popBatch it follows the broker: if the group's mode is POP it pops, that many messages at once.
     * A message with the tag failTag is answered with failure while its reconsumeTimes is below failBelow;
     * maxReconsumeTimes and retryDelayLevel are the client's settings for what happens then.
     */
    void consume(Call call) throws Exception {
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(call.text("group"), Signing.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(call.text("instance", "witness-" + call.id));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.setMaxReconsumeTimes(call.number("maxReconsumeTimes", -1));
        consumer.setSuspendCurrentQueueTimeMillis(ORDERLY_PAUSE_MS);
        consumer.setAwaitTerminationMillisWhenShutdown(ANSWER_DEADLINE_MS);
        consumer.setPollNameServerInterval(TIMER_INTERVAL_MS);
        consumer.setHeartbeatBrokerInterval(TIMER_INTERVAL_MS);
        if (call.args.containsKey("popBatch")) Popping.byBrokersWord(consumer, call.number("popBatch", 32));
        if (call.flag("broadcasting")) consumer.setMessageModel(MessageModel.BROADCASTING);
        if (call.args.containsKey("sql")) consumer.subscribe(call.text("topic"), MessageSelector.bySql(call.text("sql")));
        else consumer.subscribe(call.text("topic"), call.text("expression", "*"));
        if (call.flag("orderly")) consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            boolean failed = false;
            for (MessageExt m : messages) failed |= consumed(call, m);
            return failed ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
        });
        else consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean failed = false;
            for (MessageExt m : messages) failed |= consumed(call, m);
            context.setDelayLevelWhenNextConsume(call.number("retryDelayLevel", 0));
            return failed ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        CountDownLatch stop = new CountDownLatch(1), gone = new CountDownLatch(1);
        running.put(call.id, stop);
        left.put(call.id, gone);
        ScheduledFuture<?> commits = null;
        try {
            consumer.start();
            commits = COMMITS.scheduleAtFixedRate(
                consumer.getDefaultMQPushConsumerImpl()::persistConsumerOffset,
                COMMIT_INTERVAL_MS, COMMIT_INTERVAL_MS, TimeUnit.MILLISECONDS);
            call.emit("started", "clientId", consumer.buildMQClientId());
            stop.await();
        } finally {
            if (commits != null) commits.cancel(false);
            consumer.shutdown();
            running.remove(call.id);
            gone.countDown();
        }
    }

    private static boolean consumed(Call call, MessageExt m) {
        boolean failed = call.args.containsKey("failTag") && call.text("failTag").equals(m.getTags()) && m.getReconsumeTimes() < call.number("failBelow", Integer.MAX_VALUE);
        call.message(m, "failed", failed, "thread", Thread.currentThread().getName());
        return failed;
    }

    /** call: the id of the consume call to end. */
    void stop(Call call) throws Exception {
        long id = call.number("call", 0L);
        running.get(id).countDown();
        left.get(id).await();
    }

    void stopAll() throws InterruptedException {
        running.values().forEach(CountDownLatch::countDown);
        for (CountDownLatch gone : left.values()) gone.await();
    }
}
