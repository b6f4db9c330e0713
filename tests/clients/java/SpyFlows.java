import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.internal.OperationFuture;
import net.spy.memcached.transcoders.SerializingTranscoder;

/** Flows of spymemcached, in its text protocol, against one address: SpyFlows HOST PORT. Compiled against its descendants, too. */
final class SpyFlows extends Flows {
    private final MemcachedClient client;

    private SpyFlows(MemcachedClient client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        runAll(builder(), arguments);
    }

    static ConnectionFactoryBuilder builder() {
        // The client refuses values above its own limit; with this one the server does.
        var transcoder = new SerializingTranscoder(8 << 20);
        transcoder.setCompressionThreshold(Integer.MAX_VALUE);
        return new ConnectionFactoryBuilder()
            .setProtocol(ConnectionFactoryBuilder.Protocol.TEXT)
            .setTranscoder(transcoder)
            .setOpTimeout(20_000);
    }

    static void runAll(ConnectionFactoryBuilder builder, String[] arguments) throws Exception {
        var address = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        var client = new MemcachedClient(builder.build(), List.of(address));
        new SpyFlows(client).runAll();
        client.shutdown();
    }

    @Override
    Map<String, Flow> flows() {
        var flows = new LinkedHashMap<String, Flow>();
        flows.put("set and get", this::setAndGet);
        flows.put("absent key", () -> absent("absent:key"));
        flows.put("flags", this::flags);
        flows.put("multi-get", this::multiGet);
        flows.put("add", this::add);
        flows.put("replace", this::replace);
        flows.put("append and prepend", this::appendAndPrepend);
        flows.put("cas", this::cas);
        flows.put("incr and decr", this::incrAndDecr);
        flows.put("incr of text", this::incrOfText);
        flows.put("touch", this::touch);
        flows.put("get and touch", this::getAndTouch);
        flows.put("expired at once", this::expiredAtOnce);
        flows.put("delete", this::delete);
        flows.put("noreply", () -> {
            throw new Cannot("the client always waits for a reply");
        });
        flows.put("empty value", this::emptyValue);
        flows.put("values like the protocol", this::valuesLikeTheProtocol);
        flows.put("large value", this::largeValue);
        flows.put("value too large", this::valueTooLarge);
        flows.put("longest key", this::longestKey);
        flows.put("key too long", this::keyTooLong);
        flows.put("version", () -> check(client.getVersions().values().iterator().next().contains("1."), "no version"));
        flows.put("stats", this::stats);
        flows.put("concurrency", this::concurrency);
        flows.put("flush", this::flush);
        return flows;
    }

    @Override
    void set(String key, Object value) throws Exception {
        yes(client.set(key, 0, value));
    }

    @Override
    Object get(String key) {
        return client.get(key);
    }

    private static boolean done(OperationFuture<Boolean> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    private static void yes(OperationFuture<Boolean> future) throws Exception {
        check(done(future), future.getStatus().getMessage());
    }

    private static void no(OperationFuture<Boolean> future) throws Exception {
        check(!done(future), future.getStatus().getMessage());
    }

    private void multiGet() throws Exception {
        var wanted = new HashMap<String, Object>();
        for (int number = 0; number < 300; number++) {
            wanted.put("multi:" + number, "value " + number);
            set("multi:" + number, "value " + number);
        }
        var keys = new java.util.ArrayList<>(wanted.keySet());
        keys.add("multi:absent");
        equal(wanted, client.getBulk(keys));
    }

    private void add() throws Exception {
        yes(client.add("add:key", 0, "first"));
        no(client.add("add:key", 0, "second"));
        holds("add:key", "first");
    }

    private void replace() throws Exception {
        no(client.replace("replace:key", 0, "new"));
        set("replace:key", "old");
        yes(client.replace("replace:key", 0, "new"));
        holds("replace:key", "new");
    }

    private void appendAndPrepend() throws Exception {
        no(client.append("append:key", "-end"));
        no(client.prepend("append:key", "start-"));
        set("append:key", "middle");
        yes(client.append("append:key", "-end"));
        yes(client.prepend("append:key", "start-"));
        holds("append:key", "start-middle-end");
    }

    private void cas() throws Exception {
        set("cas:key", "first");
        CASValue<Object> found = client.gets("cas:key");
        equal("first", found.getValue());
        equal(CASResponse.OK, client.cas("cas:key", found.getCas(), "second"));
        equal(CASResponse.EXISTS, client.cas("cas:key", found.getCas(), "third"));
        holds("cas:key", "second");
        yes(client.delete("cas:key"));
        equal(CASResponse.NOT_FOUND, client.cas("cas:key", found.getCas(), "third"));
    }

    private void incrAndDecr() throws Exception {
        equal(-1L, client.incr("number:absent", 1));
        set("number:key", "10");
        equal(15L, client.incr("number:key", 5));
        equal(12L, client.decr("number:key", 3));
        equal(0L, client.decr("number:key", 100));
        equal(7L, client.incr("number:created", 1, 7));
        equal(8L, client.incr("number:created", 1, 7));
    }

    private void incrOfText() throws Exception {
        set("text:key", "text");
        equal(-1L, client.incr("text:key", 1)); // the client keeps the server's error to itself
        holds("text:key", "text");
    }

    private void touch() throws Exception {
        no(client.touch("touch:key", 100));
        set("touch:key", "value");
        yes(client.touch("touch:key", 100));
        holds("touch:key", "value");
        yes(client.touch("touch:key", -1));
        absent("touch:key");
    }

    private void getAndTouch() throws Exception {
        throw new Cannot("the client has it in the binary protocol only");
    }

    private void expiredAtOnce() throws Exception {
        yes(client.set("expired:key", -1, "value"));
        absent("expired:key");
    }

    private void delete() throws Exception {
        no(client.delete("delete:key"));
        set("delete:key", "value");
        yes(client.delete("delete:key"));
        absent("delete:key");
    }

    private void largeValue() throws Exception {
        String value = noise(1_000_000);
        set("large:key", value);
        holds("large:key", value);
    }

    private void valueTooLarge() throws Exception {
        refused(() -> done(client.set("too-large:key", 0, noise(2 << 20))), "too large");
        set("too-large:key", "value");
        holds("too-large:key", "value");
    }

    private void stats() {
        var stats = client.getStats().values().iterator().next();
        check(stats.keySet().containsAll(List.of("pid", "uptime", "curr_connections", "cmd_get", "cmd_set")), stats.toString());
    }

    private void flush() throws Exception {
        set("flush:key", "value");
        yes(client.flush());
        absent("flush:key");
    }
}
