import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Writes vectors.jsonl: what the allocation strategies of Apache's Java client 5.5.0 give each client.
 * One case a line: brokers as [name, queues], clients, and by the strategy's getName() the queues of each client, as
 * positions in the sorted list of queues. A room is the part of a broker's name or client id before "@".
 *
 *     java -cp 'JARS/*' Allocations.java | grep "^{" > vectors.jsonl
 */
public class Allocations {
    static final String[] ROOMS = {"east", "west", "north"};

    static class Resolver implements AllocateMachineRoomNearby.MachineRoomResolver {
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("@")[0];
        }

        public String consumerDeployIn(String clientId) {
            return clientId.split("@")[0];
        }
    }

    static AllocateMessageQueueByMachineRoom machineRoom(String... rooms) {
        AllocateMessageQueueByMachineRoom strategy = new AllocateMessageQueueByMachineRoom();
        strategy.setConsumeridcs(new TreeSet<>(Arrays.asList(rooms)));
        return strategy;
    }

    static AllocateMessageQueueByConfig config(List<MessageQueue> queues) {
        AllocateMessageQueueByConfig strategy = new AllocateMessageQueueByConfig();
        strategy.setMessageQueueList(queues);
        return strategy;
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char unit : text.toCharArray())
            out.append(unit < 127 ? String.valueOf(unit) : String.format("\\u%04x", (int) unit));
        return out.append('"').toString();
    }

    public static void main(String[] args) {
        Random random = new Random(20261122);
        for (int number = 0; number < 60; number++) {
            List<MessageQueue> queues = new ArrayList<>();
            StringBuilder brokers = new StringBuilder();
            int brokerCount = 1 + random.nextInt(4);
            for (int broker = 0; broker < brokerCount; broker++) {
                String name = ROOMS[random.nextInt(ROOMS.length)] + "@broker-" + (char) ('a' + broker);
                if (number % 10 == 9 && broker == 0)
                    name = "broker-without-room";
                int count = 1 + random.nextInt(9);
                for (int id = 0; id < count; id++)
                    queues.add(new MessageQueue("Topic", name, id));
                brokers.append(broker == 0 ? "" : ",").append("[").append(quoted(name)).append(",").append(count).append("]");
            }
            Collections.sort(queues);
            LinkedHashSet<String> ids = new LinkedHashSet<>();
            int clientCount = 1 + random.nextInt(7);
            for (int client = 0; client < clientCount; client++)
                ids.add(ROOMS[random.nextInt(ROOMS.length)] + "@" + random.nextInt(100000) + "#" + random.nextLong());
            if (number % 7 == 0) // Java orders these two by UTF-16 units, not by code points
                ids.addAll(Arrays.asList("east@\uff21", "east@\ud83d\ude00"));
            List<String> clients = new ArrayList<>(ids);
            Collections.sort(clients);
            List<AllocateMessageQueueStrategy> strategies = new ArrayList<>(Arrays.asList(
                new AllocateMessageQueueAveragely(), new AllocateMessageQueueAveragelyByCircle(),
                config(queues.subList(0, (queues.size() + 1) / 2)), machineRoom("east", "west"),
                new AllocateMessageQueueConsistentHash(),
                new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), new Resolver()),
                new AllocateMachineRoomNearby(new AllocateMessageQueueAveragelyByCircle(), new Resolver())));
            StringBuilder results = new StringBuilder();
            for (AllocateMessageQueueStrategy strategy : strategies) {
                results.append(results.length() == 0 ? "" : ",").append(quoted(strategy.getName())).append(":[");
                for (int client = 0; client < clients.size(); client++) {
                    List<MessageQueue> own = strategy.allocate("group", clients.get(client), queues, clients);
                    results.append(client == 0 ? "[" : ",[");
                    for (int at = 0; at < own.size(); at++)
                        results.append(at == 0 ? "" : ",").append(queues.indexOf(own.get(at)));
                    results.append("]");
                }
                results.append("]");
            }
            StringBuilder names = new StringBuilder();
            for (String client : clients)
                names.append(names.length() == 0 ? "" : ",").append(quoted(client));
            System.out.println("{\"brokers\":[" + brokers + "],\"clients\":[" + names + "],\"results\":{" + results + "}}");
        }
    }
}
