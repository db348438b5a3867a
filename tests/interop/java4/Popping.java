import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/** Clients of 4.9 cannot pop. */
final class Popping {
    private Popping() {}

    static void byBrokersWord(DefaultMQPushConsumer consumer, int batch) {
        throw new UnsupportedOperationException("a client of 4.9 cannot pop");
    }
}
