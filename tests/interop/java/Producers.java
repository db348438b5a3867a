import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** The verbs that send. They share one producer, without the client's own retries (unless witness.retries is set), so that a refused send is seen. */
final class Producers {
    private static final int SEND_TIMEOUT_MS = 15_000;
    private static final int ASYNC_DEADLINE_S = 60;

    private final DefaultMQProducer producer = new DefaultMQProducer("WitnessProducerGroup", Signing.hook());

    Producers(String namesrv) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("witness-producer");
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.setMqClientApiTimeout(SEND_TIMEOUT_MS); // for the route: on a busy machine a new JVM takes more than 3 s to connect
        producer.setPollNameServerInterval(Integer.getInteger("witness.pollNameServerMs", producer.getPollNameServerInterval()));
        producer.setRetryTimesWhenSendFailed(Integer.getInteger("witness.retries", 0));
        producer.setSendLatencyFaultEnable(Boolean.getBoolean("witness.latencyFault"));
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
    }

    void stop() {
        producer.shutdown();
    }

    /** topic, messages, mode (sync, async, oneway): "sent" or "refused" with the message's index; nothing for oneway. */
    void send(Call call) throws Exception {
        List<Message> messages = messages(call);
        String mode = call.text("mode", "sync");
        CountDownLatch pending = new CountDownLatch(messages.size());
        for (int i = 0; i < messages.size(); i++) {
            int index = i;
            Message message = messages.get(i);
            MessageQueueSelector chosen = selector(call.args.getJSONArray("messages").getJSONObject(i));
            if (mode.equals("sync")) {
                try {
                    call.sent(index, chosen == null ? producer.send(message) : producer.send(message, chosen, null));
                } catch (Exception e) {
                    refused(call, index, e);
                }
            } else if (mode.equals("oneway")) {
                if (chosen == null) producer.sendOneway(message);
                else producer.sendOneway(message, chosen, null);
            } else {
                SendCallback callback = new SendCallback() {
                    @Override public void onSuccess(SendResult result) {
                        call.sent(index, result);
                        pending.countDown();
                    }
                    @Override public void onException(Throwable e) {
                        refused(call, index, e);
                        pending.countDown();
                    }
                };
                if (chosen == null) producer.send(message, callback);
                else producer.send(message, chosen, null, callback);
            }
        }
        if (mode.equals("async") && !pending.await(ASYNC_DEADLINE_S, TimeUnit.SECONDS)) throw new TimeoutException(pending.getCount() + " sends unanswered");
    }

    /** topic, messages: all in one batch, one "sent" with the ids joined by commas. */
    void batch(Call call) throws Exception {
        call.sent(0, producer.send(messages(call)));
    }

    private static void refused(Call call, int index, Throwable e) {
        StringBuilder error = new StringBuilder(e.toString());
        for (Throwable cause = e.getCause(); cause != null; cause = cause.getCause()) error.append("; ").append(cause);
        call.emit("refused", "index", index, "code", Witness.code(e), "error", error.toString());
    }

    private static List<Message> messages(Call call) {
        List<Message> messages = new ArrayList<>();
        JSONArray all = call.args.getJSONArray("messages");
        for (int i = 0; i < all.size(); i++) {
            JSONObject o = all.getJSONObject(i);
            Message m = new Message(call.text("topic"), Base64.getDecoder().decode(o.getString("body")));
            if (o.getString("tags") != null) m.setTags(o.getString("tags"));
            if (o.getString("keys") != null) m.setKeys(o.getString("keys"));
            if (o.getIntValue("flag") != 0) m.setFlag(o.getIntValue("flag"));
            if (o.getIntValue("delayLevel") != 0) m.setDelayTimeLevel(o.getIntValue("delayLevel"));
            if (o.getJSONObject("properties") != null) o.getJSONObject("properties").forEach((name, value) -> m.putUserProperty(name, (String) value));
            messages.add(m);
        }
        return messages;
    }

    /** By queueId, or by shardingKey as ordered messages are sent; null: the client's own round robin. */
    private static MessageQueueSelector selector(JSONObject o) {
        if (o.get("queueId") != null) return (queues, message, arg) -> queues.stream().filter(q -> q.getQueueId() == o.getIntValue("queueId")).findFirst().get();
        if (o.get("shardingKey") != null) return (queues, message, arg) -> queues.get(Math.floorMod(o.getString("shardingKey").hashCode(), queues.size()));
        return null;
    }
}
