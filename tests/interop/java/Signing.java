import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** As whom the clients that send and consume sign their requests. */
final class Signing {
    private Signing() {}

    /** Of the keys in the environment; null without them: then nothing is signed. */
    static RPCHook hook() {
        String accessKey = System.getenv("WITNESS_ACCESS_KEY");
        if (accessKey == null) return null;
        return new AclClientRPCHook(new SessionCredentials(accessKey, System.getenv("WITNESS_SECRET_KEY")));
    }
}
