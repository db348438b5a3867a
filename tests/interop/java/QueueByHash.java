import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** The queues that Java's producer chooses. Each line in is an array of a key and the number of queues, each line out the queue. */
public final class QueueByHash {
    public static void main(String[] args) throws Exception {
        SelectMessageQueueByHash selector = new SelectMessageQueueByHash();
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = calls.readLine()) != null; ) {
            JSONArray call = JSON.parseArray(line);
            List<MessageQueue> queues = new ArrayList<>();
            for (int queueId = 0; queueId < call.getIntValue(1); queueId++) queues.add(new MessageQueue("T", "b", queueId));
            System.out.println(selector.select(queues, null, call.getString(0)).getQueueId());
        }
    }
}
