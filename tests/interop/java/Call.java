import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/** One request of a test: its arguments, and the events that answer it, each one JSON object a line with the request's id. */
final class Call {
    private final PrintStream events;
    final long id;
    final JSONObject args;

    Call(PrintStream events, JSONObject args) {
        this.events = events;
        this.args = args;
        this.id = args.getLongValue("id");
    }

    String text(String name) {
        String value = args.getString(name);
        if (value == null) throw new IllegalArgumentException("the call lacks " + name);
        return value;
    }

    String text(String name, String otherwise) {
        return args.containsKey(name) ? args.getString(name) : otherwise;
    }

    int number(String name, int otherwise) {
        return args.containsKey(name) ? args.getIntValue(name) : otherwise;
    }

    long number(String name, long otherwise) {
        return args.containsKey(name) ? args.getLongValue(name) : otherwise;
    }

    boolean flag(String name) {
        return args.getBooleanValue(name);
    }

    void emit(String event, Map<String, Object> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", id);
        line.put("event", event);
        line.putAll(fields);
        String json = JSON.toJSONString(line, JSONWriter.Feature.WriteNulls);
        synchronized (events) {
            events.println(json);
            events.flush();
        }
    }

    void emit(String event, Object... namesAndValues) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) fields.put((String) namesAndValues[i], namesAndValues[i + 1]);
        emit(event, fields);
    }

    void sent(int index, SendResult result) {
        emit("sent", "index", index, "status", result.getSendStatus().name(), "msgId", result.getMsgId(), "offsetMsgId", result.getOffsetMsgId(),
            "queueId", result.getMessageQueue().getQueueId(), "brokerName", result.getMessageQueue().getBrokerName(), "queueOffset", result.getQueueOffset());
    }

    void message(MessageExt m, Object... more) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", m.getTopic());
        fields.put("msgId", m.getMsgId());
        fields.put("offsetMsgId", m instanceof MessageClientExt ? ((MessageClientExt) m).getOffsetMsgId() : m.getMsgId());
        fields.put("tags", m.getTags());
        fields.put("keys", m.getKeys());
        fields.put("queueId", m.getQueueId());
        fields.put("queueOffset", m.getQueueOffset());
        fields.put("logOffset", m.getCommitLogOffset());
        fields.put("storeSize", m.getStoreSize());
        fields.put("body", m.getBody() == null ? null : Base64.getEncoder().encodeToString(m.getBody()));
        fields.put("bodyCrc", m.getBodyCRC());
        fields.put("reconsumeTimes", m.getReconsumeTimes());
        fields.put("properties", m.getProperties());
        fields.put("flag", m.getFlag());
        fields.put("sysFlag", m.getSysFlag());
        fields.put("bornTimestamp", m.getBornTimestamp());
        fields.put("storeTimestamp", m.getStoreTimestamp());
        fields.put("bornHost", address(m.getBornHost()));
        fields.put("storeHost", address(m.getStoreHost()));
        fields.put("preparedTransactionOffset", m.getPreparedTransactionOffset());
        for (int i = 0; i < more.length; i += 2) fields.put((String) more[i], more[i + 1]);
        emit("message", fields);
    }

    private static String address(SocketAddress host) {
        InetSocketAddress inet = (InetSocketAddress) host;
        return inet.getAddress().getHostAddress() + ":" + inet.getPort();
    }
}
