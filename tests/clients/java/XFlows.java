import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.transcoders.SerializingTranscoder;

/** Flows of xmemcached, in its text protocol, against one address: XFlows HOST PORT. */
final class XFlows extends Flows {
    private final MemcachedClient client;

    private XFlows(MemcachedClient client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        var builder = new XMemcachedClientBuilder(arguments[0] + ":" + arguments[1]);
        // The client refuses values above its own limit; with this one the server does.
        var transcoder = new SerializingTranscoder(8 << 20);
        transcoder.setCompressionThreshold(Integer.MAX_VALUE);
        builder.setTranscoder(transcoder);
        builder.setOpTimeout(20_000);
        builder.setConnectionPoolSize(4);
        var client = builder.build();
        new XFlows(client).runAll();
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
        flows.put("get and touch", () -> {
            throw new Cannot("the client has it in the binary protocol only");
        });
        flows.put("expired at once", this::expiredAtOnce);
        flows.put("delete", this::delete);
        flows.put("noreply", this::noreply);
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
        check(client.set(key, 0, value), "not stored");
    }

    @Override
    Object get(String key) throws Exception {
        return client.get(key);
    }

    private void multiGet() throws Exception {
        var wanted = new HashMap<String, Object>();
        for (int number = 0; number < 300; number++) {
            wanted.put("multi:" + number, "value " + number);
            set("multi:" + number, "value " + number);
        }
        var keys = new ArrayList<>(wanted.keySet());
        keys.add("multi:absent");
        equal(wanted, client.get(keys));
    }

    private void add() throws Exception {
        check(client.add("add:key", 0, "first"), "not stored");
        check(!client.add("add:key", 0, "second"), "stored over a value");
        holds("add:key", "first");
    }

    private void replace() throws Exception {
        check(!client.replace("replace:key", 0, "new"), "replaced nothing");
        set("replace:key", "old");
        check(client.replace("replace:key", 0, "new"), "not stored");
        holds("replace:key", "new");
    }

    private void appendAndPrepend() throws Exception {
        check(!client.append("append:key", "-end"), "appended to nothing");
        check(!client.prepend("append:key", "start-"), "prepended to nothing");
        set("append:key", "middle");
        check(client.append("append:key", "-end"), "not appended");
        check(client.prepend("append:key", "start-"), "not prepended");
        holds("append:key", "start-middle-end");
    }

    private void cas() throws Exception {
        set("cas:key", "first");
        var found = client.gets("cas:key");
        equal("first", found.getValue());
        check(client.cas("cas:key", 0, "second", found.getCas()), "refused with the right token");
        check(!client.cas("cas:key", 0, "third", found.getCas()), "stored with an old token");
        holds("cas:key", "second");
        check(client.delete("cas:key"), "did not find the key");
        check(!client.cas("cas:key", 0, "third", found.getCas()), "stored under an absent key");
    }

    private void incrAndDecr() throws Exception {
        equal(7L, client.incr("number:created", 1, 7));
        set("number:key", "10");
        equal(15L, client.incr("number:key", 5));
        equal(12L, client.decr("number:key", 3));
        equal(0L, client.decr("number:key", 100));
    }

    private void incrOfText() throws Exception {
        set("text:key", "text");
        refused(() -> client.incr("text:key", 1), "non-numeric");
        holds("text:key", "text");
    }

    private void touch() throws Exception {
        check(!client.touch("touch:key", 100), "touched an absent key");
        set("touch:key", "value");
        check(client.touch("touch:key", 100), "did not find the key");
        holds("touch:key", "value");
    }

    private void expiredAtOnce() throws Exception {
        check(client.set("expired:key", 60 * 60 * 24 * 30 + 1, "value"), "not stored"); // a date in January 1970
        absent("expired:key");
    }

    private void delete() throws Exception {
        check(!client.delete("delete:key"), "deleted an absent key");
        set("delete:key", "value");
        check(client.delete("delete:key"), "did not find the key");
        absent("delete:key");
    }

    /** The client has several connections, and nothing tells when a silent command is done but its effect. */
    private void noreply() throws Exception {
        client.setWithNoReply("noreply:key", 0, "1");
        eventually("noreply:key", "1");
        client.addWithNoReply("noreply:other", 0, "first");
        eventually("noreply:other", "first");
        client.replaceWithNoReply("noreply:key", 0, "2");
        eventually("noreply:key", "2");
        client.appendWithNoReply("noreply:key", "0");
        eventually("noreply:key", "20");
        client.prependWithNoReply("noreply:key", "1");
        eventually("noreply:key", "120");
        client.incrWithNoReply("noreply:key", 5);
        eventually("noreply:key", "125");
        client.decrWithNoReply("noreply:key", 1);
        eventually("noreply:key", "124");
        client.deleteWithNoReply("noreply:key");
        eventually("noreply:key", null);
    }

    private void eventually(String key, Object value) throws Exception {
        long deadline = System.nanoTime() + 20_000_000_000L;
        while (!java.util.Objects.equals(value, get(key)) && System.nanoTime() < deadline) {
            Thread.onSpinWait();
        }
        holds(key, value);
    }

    private void largeValue() throws Exception {
        String value = noise(1_000_000);
        set("large:key", value);
        holds("large:key", value);
    }

    private void valueTooLarge() throws Exception {
        refused(() -> client.set("too-large:key", 0, noise(2 << 20)), "too large");
        set("too-large:key", "value");
        holds("too-large:key", "value");
    }

    private void stats() throws Exception {
        var stats = client.getStats().values().iterator().next();
        check(stats.keySet().containsAll(List.of("pid", "uptime", "curr_connections", "cmd_get", "cmd_set")), stats.toString());
    }

    private void flush() throws Exception {
        set("flush:key", "value");
        client.flushAll();
        absent("flush:key");
    }
}
