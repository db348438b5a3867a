import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** The keys with which clients sign their requests. */
final class Signing {
    private Signing() {}

    /** Signs with the keys in the environment. Null if there are none: then nothing is signed. */
    static RPCHook hook() {
        String accessKey = System.getenv("WITNESS_ACCESS_KEY");
        if (accessKey == null) return null;
        return new AclClientRPCHook(new SessionCredentials(accessKey, System.getenv("WITNESS_SECRET_KEY")));
    }
}
