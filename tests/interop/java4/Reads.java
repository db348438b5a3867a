import java.util.Map;

/** Replaces java/Reads.java for the 4.9 client, which only sends and consumes; the 5.5.0 client reads. */
final class Reads {
    Reads(String namesrv) {}

    void register(Map<String, Witness.Verb> verbs) {}

    void stop() {}
}
