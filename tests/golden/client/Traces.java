import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceTransferBean;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.message.MessageType;

/**
 * Writes traces.jsonl: records as TraceDataEncoder of Apache's Java client 5.5.0 makes them, with their keys.
 *
 *     java -cp 'JARS/*' Traces.java | grep "^{" > traces.jsonl
 */
public class Traces {
    static void print(String name, TraceContext context) {
        TraceTransferBean bean = TraceDataEncoder.encoderFromContextBean(context);
        StringBuilder out = new StringBuilder();
        for (char unit : bean.getTransData().toCharArray())
            out.append(unit >= 32 && unit < 127 ? String.valueOf(unit) : String.format("\\u%04x", (int) unit));
        StringBuilder keys = new StringBuilder();
        for (String key : new TreeSet<>(bean.getTransKey()))
            keys.append(keys.length() == 0 ? "\"" : ",\"").append(key).append("\"");
        System.out.println("{\"name\":\"" + name + "\",\"data\":\"" + out + "\",\"keys\":[" + keys + "]}");
    }

    static TraceContext context(TraceType type, TraceBean... beans) {
        TraceContext context = new TraceContext();
        context.setTraceType(type);
        context.setAccessChannel(AccessChannel.LOCAL);
        context.setTimeStamp(1700000000123L);
        context.setRegionId("DefaultRegion");
        context.setGroupName("group");
        context.setCostTime(7);
        context.setSuccess(true);
        context.setRequestId("0A0000010001");
        context.setContextCode(4);
        List<TraceBean> list = new ArrayList<>();
        for (TraceBean bean : beans)
            list.add(bean);
        context.setTraceBeans(list);
        return context;
    }

    static TraceBean bean(String id) {
        TraceBean bean = new TraceBean();
        bean.setTopic("Topic");
        bean.setMsgId(id);
        bean.setOffsetMsgId("offset" + id);
        bean.setTags("TagA");
        bean.setKeys("key1 key2");
        bean.setStoreHost("127.0.0.1:10911");
        bean.setBodyLength(42);
        bean.setMsgType(MessageType.Delay_Msg);
        bean.setRetryTimes(3);
        return bean;
    }

    public static void main(String[] args) {
        print("published", context(TraceType.Pub, bean("ID1")));
        print("delivered", context(TraceType.SubBefore, bean("ID1"), bean("ID2")));
        TraceContext after = context(TraceType.SubAfter, bean("ID1"));
        after.setSuccess(false);
        print("consumed", after);
    }
}
