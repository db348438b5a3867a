import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/** The settings that a push consumer needs to pop. Clients of 4.9 cannot pop. */
final class Popping {
    private Popping() {}

    static void byBrokersWord(DefaultMQPushConsumer consumer, int batch) {
        consumer.setClientRebalance(false);
        consumer.setPopBatchNums(batch);
    }
}
