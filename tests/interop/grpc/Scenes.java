import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Plays one scene: ENDPOINTS SCENE TOPIC GROUP. Prints a line "got BODY ATTEMPT" for each message that it consumed. */
public class Scenes {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static ClientConfiguration configuration;
    static String topic, group;

    public static void main(String[] args) throws Exception {
        configuration = ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(!"plain".equals(System.getProperty("tls"))).build();
        topic = args[2];
        group = args[3];
        switch (args[1]) {
            case "simple": send("A", "one", "two", "three"); receive("*", FilterExpressionType.TAG, 3); break;
            case "tags": send("A", "a"); send("B", "b"); receive("B", FilterExpressionType.TAG, 1); break;
            case "sql": send("A", "a"); send("B", "b"); receive("TAGS = 'B'", FilterExpressionType.SQL92, 1); break;
            case "push": send("A", "one", "two", "three"); push(3, false); break;
            case "retry": send("A", "again"); push(2, true); break;
            case "fifo": fifo(); push(6, false); break;
            case "delay": delay(); receive("*", FilterExpressionType.TAG, 1); break;
            case "transaction": transaction(); receive("*", FilterExpressionType.TAG, 1); break;
            case "check": check(); receive("*", FilterExpressionType.TAG, 1); break;
            case "send-on": sendOn(); break;
            case "receive-on": receiveOn(); break;
            default: throw new IllegalArgumentException(args[1]);
        }
        System.exit(0);
    }

    static String text(MessageView message) {
        ByteBuffer body = message.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static void told(MessageView message) {
        System.out.println("got " + text(message) + " " + message.getDeliveryAttempt());
    }

    static MessageBuilder message(String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    static ProducerBuilder producer() {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic);
    }

    static void send(String tag, String... bodies) throws Exception {
        try (Producer producer = producer().build()) {
            for (String body : bodies) producer.send(message(body).setTag(tag).setKeys("k-" + body).addProperty("p", body).build());
        }
    }

    static void fifo() throws Exception {
        try (Producer producer = producer().build()) {
            for (int number = 0; number < 6; number++) producer.send(message("" + number).setMessageGroup("g").build());
        }
    }

    static void delay() throws Exception {
        try (Producer producer = producer().build()) {
            producer.send(message("late").setDeliveryTimestamp(System.currentTimeMillis() + 2000).build());
        }
    }

    static void transaction() throws Exception {
        try (Producer producer = producer().setTransactionChecker(message -> TransactionResolution.UNKNOWN).build()) {
            Transaction lost = producer.beginTransaction();
            producer.send(message("rolled back").build(), lost);
            lost.rollback();
            Transaction kept = producer.beginTransaction();
            producer.send(message("committed").build(), kept);
            kept.commit();
        }
    }

    static void check() throws Exception {
        List<String> asked = new CopyOnWriteArrayList<>();
        Producer producer = producer().setTransactionChecker(message -> {
            asked.add(text(message));
            return TransactionResolution.COMMIT;
        }).build();
        producer.send(message("asked").build(), producer.beginTransaction());
        while (asked.isEmpty()) Thread.sleep(50);
    }

    static void receive(String expression, FilterExpressionType type, int count) throws Exception {
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(10))
                .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression(expression, type))).build()) {
            List<MessageView> all = new ArrayList<>();
            while (all.size() < count) {
                for (MessageView message : consumer.receive(16, Duration.ofSeconds(15))) {
                    told(message);
                    consumer.ack(message);
                    all.add(message);
                }
            }
        }
    }

    /** Sends numbers until it is killed; says which of them were taken. */
    interface Start<T> {
        T start() throws Exception;
    }

    /** A start asks for routes and settings, and fails for good if one of them comes after its three seconds. */
    static <T> T started(Start<T> client) throws Exception {
        while (true) {
            try {
                T started = client.start();
                System.out.println("started");
                return started;
            } catch (Exception error) {
                System.out.println("failed to start " + error);
                Thread.sleep(100);
            }
        }
    }

    static void sendOn() throws Exception {
        Producer producer = started(() -> producer().build());
        for (int number = 0; ; number++) {
            try {
                producer.send(message("" + number).build());
                System.out.println("sent " + number);
            } catch (Exception error) {
                System.out.println("failed " + number + " " + error);
            }
            Thread.sleep(20);
        }
    }

    static void receiveOn() throws Exception {
        SimpleConsumer consumer = started(() -> PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(10))
                .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build());
        while (true) {
            try {
                for (MessageView message : consumer.receive(16, Duration.ofSeconds(15))) {
                    told(message);
                    consumer.ack(message);
                }
            } catch (Exception error) {
                System.out.println("failed " + error);
                Thread.sleep(100);
            }
        }
    }

    static void push(int count, boolean failsFirst) throws Exception {
        List<String> got = new CopyOnWriteArrayList<>();
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
                .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression("*", FilterExpressionType.TAG)))
                .setMessageListener(message -> {
                    told(message);
                    got.add(text(message));
                    return failsFirst && got.size() == 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                }).build();
        while (got.size() < count) Thread.sleep(50);
        Thread.sleep(1000); // the last acknowledgement is on its way
        consumer.close();
    }
}
