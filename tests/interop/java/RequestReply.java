import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Both sides of request and reply, as in Apache's example programs RequestProducer and ResponseConsumer. */
final class RequestReply {
    private static final long REPLY_TIMEOUT_MS = 10_000;

    private final String namesrv;
    private final DefaultMQProducer producer = new DefaultMQProducer("WitnessRequestGroup");

    RequestReply(String namesrv) throws Exception {
        this.namesrv = namesrv;
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("witness-requests");
        producer.start();
    }

    void stop() {
        producer.shutdown();
    }

    /** topic, body, timeoutMs: "replied" with the reply's body and properties. */
    void request(Call call) throws Exception {
        Message request = new Message(call.text("topic"), Base64.getDecoder().decode(call.text("body")));
        Message reply = producer.request(request, call.number("timeoutMs", REPLY_TIMEOUT_MS));
        call.emit("replied", "body", Base64.getEncoder().encodeToString(reply.getBody()), "properties", reply.getProperties());
    }

    /** group, topic, count: "started", and then replies "re: " and the body to so many messages. */
    void reply(Call call) throws Exception {
        CountDownLatch left = new CountDownLatch(call.number("count", 1));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(call.text("group"));
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("witness-replies-" + call.id);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(call.text("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                String body = "re: " + new String(m.getBody(), StandardCharsets.UTF_8);
                try {
                    producer.send(MessageUtil.createReplyMessage(m, body.getBytes(StandardCharsets.UTF_8)), REPLY_TIMEOUT_MS);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            consumer.start();
            call.emit("started", "clientId", consumer.buildMQClientId());
            left.await();
        } finally {
            consumer.shutdown();
        }
    }
}
