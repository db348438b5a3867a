package org.apache.rocketmq.test.base;

import java.util.UUID;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.test.client.rmq.RMQNormalConsumer;
import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.factory.ConsumerFactory;
import org.apache.rocketmq.test.listener.AbstractListener;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Replaces Apache's class of this name, from which its integration tests inherit. Apache's starts servers in this process;
 * this one directs the tests to the servers of the properties ``namesrv`` and ``broker``. It has the methods that the TLS
 * tests call.
 */
public class BaseConf {
    public static final String NAMESRV_ADDR = System.getProperty("namesrv");
    private static final int QUEUES = 8;

    private interface Change {
        void make(DefaultMQAdminExt admin) throws Exception;
    }

    private static void change(Change change) {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(NAMESRV_ADDR);
        admin.setInstanceName("admin" + UUID.randomUUID());
        try {
            admin.start();
            change.make(admin);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        } finally {
            admin.shutdown();
        }
    }

    public static String initTopic() {
        String topic = "Topic" + UUID.randomUUID();
        TopicConfig config = new TopicConfig(topic, QUEUES, QUEUES);
        change(admin -> admin.createAndUpdateTopicConfig(System.getProperty("broker"), config));
        return topic;
    }

    public static RMQNormalProducer getProducer(String namesrvAddr, String topic) {
        return getProducer(namesrvAddr, topic, false);
    }

    public static RMQNormalProducer getProducer(String namesrvAddr, String topic, boolean useTLS) {
        return new RMQNormalProducer(namesrvAddr, topic, useTLS);
    }

    public static RMQNormalConsumer getConsumer(
            String namesrvAddr, String topic, String expression, AbstractListener listener) {
        return getConsumer(namesrvAddr, topic, expression, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String namesrvAddr, String topic, String expression, AbstractListener listener, boolean useTLS) {
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName("Group" + UUID.randomUUID());
        change(admin -> admin.createAndUpdateSubscriptionGroupConfig(System.getProperty("broker"), group));
        return ConsumerFactory.getRMQNormalConsumer(
            namesrvAddr, group.getGroupName(), topic, expression, listener, useTLS);
    }

    /** The process ends with its tests. */
    public static void shutdown() {
    }
}
