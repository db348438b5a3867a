import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * Apache's SQL92 filter. Each line in is an object with "expression" and "properties", a list of maps. Each line out has "error", the
 * message of the exception, or "results": for each map T, F, N for null or X for an exception.
 */
public final class Sql92 {
    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, "UTF-8");
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = calls.readLine()) != null; ) {
            JSONObject call = JSON.parseObject(line);
            Map<String, Object> answer = new HashMap<>();
            try {
                Expression compiled = FilterFactory.INSTANCE.get("SQL92").compile(call.getString("expression"));
                StringBuilder results = new StringBuilder();
                for (Object properties : call.getJSONArray("properties")) {
                    results.append(result(compiled, (JSONObject) properties));
                }
                answer.put("results", results.toString());
            } catch (Exception e) {
                answer.put("error", e.getMessage());
            }
            answers.println(JSON.toJSONString(answer));
        }
        answers.flush();
    }

    private static char result(Expression compiled, Map<String, Object> properties) {
        try {
            Object value = compiled.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return properties;
                }
            });
            return value == null ? 'N' : (Boolean) value ? 'T' : 'F';
        } catch (Exception e) {
            return 'X';
        }
    }
}
