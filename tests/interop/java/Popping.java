import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/** What a push consumer needs to pop; clients of 4.9 cannot. */
final class Popping {
    private Popping() {}

    static void byBrokersWord(DefaultMQPushConsumer consumer, int batch) {
        consumer.setClientRebalance(false);
        consumer.setPopBatchNums(batch);
    }
}
