import com.alibaba.fastjson2.JSON;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Apache's mqadmin without a new JVM for every call: a JSON array of arguments a line in, an object with "out" and "err" a line out.
 * A call with wrong options ends the program, as it ends mqadmin.
 */
public final class Mqadmin {
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out, errors = System.err;
        Field commands = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
        commands.setAccessible(true);
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = calls.readLine()) != null; ) {
            ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(err, true, "UTF-8"));
            ((List<?>) commands.get(null)).clear(); // main adds them again; some keep a client from the call before
            try {
                MQAdminStartup.main(JSON.parseArray(line).toArray(new String[0]));
            } catch (Throwable e) { // some commands throw past mqadmin's own handler; its launcher prints this
                System.err.print("Exception in thread \"main\" ");
                e.printStackTrace();
            }
            System.setOut(answers);
            System.setErr(errors);
            Map<String, String> answer = new LinkedHashMap<>();
            answer.put("out", out.toString("UTF-8"));
            answer.put("err", err.toString("UTF-8"));
            answers.println(JSON.toJSONString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // threads that a command left running must not keep the tests waiting
    }
}
