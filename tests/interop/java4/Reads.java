import java.util.Map;

/** In place of java/Reads.java where the client is 4.9: it sends and consumes, the 5.5.0 client asks. */
final class Reads {
    Reads(String namesrv) {}

    void register(Map<String, Witness.Verb> verbs) {}

    void stop() {}
}
