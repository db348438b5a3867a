import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/**
 * The real Java client, driven by a test: one JSON object a line in (id, verb, arguments), JSON objects a line out (id, event, ...).
 * Every call ends with one event "done" or "failed"; a consumer's call ends when it is stopped. At the end of standard input
 * all consumers leave their groups and the program ends. Argument: the nameserver.
 */
public final class Witness {
    interface Verb { void run(Call call) throws Exception; }

    static final PrintStream EVENTS = System.out;

    private final Map<String, Verb> verbs = new ConcurrentHashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // the client's output must not get between the events
        new Witness().serve(args[0]);
        System.exit(0);
    }

    private void serve(String namesrv) throws Exception {
        Producers producers = new Producers(namesrv);
        Consumers consumers = new Consumers(namesrv);
        Reads reads = new Reads(namesrv);
        verbs.put("send", producers::send);
        verbs.put("batch", producers::batch);
        verbs.put("consume", consumers::consume);
        verbs.put("stop", consumers::stop);
        reads.register(verbs);
        RequestReply requestReply = new RequestReply(namesrv);
        verbs.put("request", requestReply::request);
        verbs.put("reply", requestReply::reply);
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = calls.readLine()) != null; ) {
            JSONObject args = JSON.parseObject(line);
            threads.execute(() -> run(new Call(EVENTS, args)));
        }
        consumers.stopAll();
        producers.stop();
        reads.stop();
        requestReply.stop();
    }

    private void run(Call call) {
        try {
            Verb verb = verbs.get(call.text("verb"));
            if (verb == null) throw new IllegalArgumentException("no such verb: " + call.text("verb"));
            verb.run(call);
            call.emit("done");
        } catch (Throwable e) {
            e.printStackTrace();
            call.emit("failed", "code", code(e), "error", e.toString());
        }
    }

    /** The broker's response code, or -1 where the exception has none. */
    static int code(Throwable e) {
        for (; e != null; e = e.getCause()) {
            if (e instanceof MQBrokerException) return ((MQBrokerException) e).getResponseCode();
            if (e instanceof MQClientException) return ((MQClientException) e).getResponseCode();
        }
        return -1;
    }
}
