import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;

/** What the flows of both Java clients share: their names, the line that each prints, and small checks. */
abstract class Flows {
    /** A flow, which fails by throwing. */
    interface Flow {
        void run() throws Exception;
    }

    /** The client has no such call, or it does not work against any server. */
    static final class Cannot extends Exception {
        private static final long serialVersionUID = 1;

        Cannot(String reason) {
            super(reason);
        }
    }

    /** The name of each flow, in the order in which they run; the last empties the server. */
    abstract Map<String, Flow> flows();

    abstract void set(String key, Object value) throws Exception;

    abstract Object get(String key) throws Exception;

    final void runAll() {
        new LinkedHashMap<>(flows()).forEach((name, flow) -> {
            try {
                flow.run();
                System.out.println("passed " + name);
            } catch (Cannot reason) {
                System.out.println("skipped " + name + ": " + reason.getMessage());
            } catch (Exception | AssertionError error) {
                System.out.println("failed " + name + ": " + String.valueOf(error).replaceAll("\\s+", " "));
            }
        });
    }

    final void holds(String key, Object value) throws Exception {
        equal(value, get(key));
    }

    final void absent(String key) throws Exception {
        equal(null, get(key));
    }

    final void setAndGet() throws Exception {
        for (String value : new String[] {"value", "other"}) {
            set("set:key", value);
            holds("set:key", value);
        }
    }

    final void emptyValue() throws Exception {
        set("empty:key", "");
        holds("empty:key", "");
    }

    /** The clients keep the type of a value in its flags. */
    final void flags() throws Exception {
        for (Object value : new Object[] {17, 17L, "text", true}) {
            set("flags:key", value);
            holds("flags:key", value);
        }
    }

    final void valuesLikeTheProtocol() throws Exception {
        byte[] every = new byte[256];
        IntStream.range(0, 256).forEach(index -> every[index] = (byte) index);
        for (String value : new String[] {"END\r\n", "\r\n", "STORED\r\nEND\r\n", "VALUE key 0 3\r\nabc\r\n"}) {
            set("binary:key", value);
            holds("binary:key", value);
        }
        set("binary:key", every);
        check(java.util.Arrays.equals(every, (byte[]) get("binary:key")), "other bytes came back");
    }

    final void longestKey() throws Exception {
        String key = "longest:" + "k".repeat(242);
        set(key, "value");
        holds(key, "value");
    }

    final void keyTooLong() throws Exception {
        refused(() -> {
            set("k".repeat(251), "value");
            return null;
        }, "");
        set("too-long:key", "value");
        holds("too-long:key", "value");
    }

    final void concurrency() throws Exception {
        var pool = Executors.newFixedThreadPool(8);
        try {
            CompletableFuture.allOf(IntStream.range(0, 8)
                .mapToObj(worker -> CompletableFuture.runAsync(() -> work(worker), pool))
                .toArray(CompletableFuture[]::new)).join();
        } finally {
            pool.shutdown();
        }
    }

    private void work(int worker) {
        try {
            for (int turn = 0; turn < 250; turn++) {
                String key = "concurrency:" + worker + ":" + turn % 10;
                set(key, worker + " of " + turn);
                holds(key, worker + " of " + turn);
            }
        } catch (Exception error) {
            throw new CompletionException(error);
        }
    }

    /** A value that no client compresses well. */
    static String noise(int length) {
        byte[] bytes = new byte[length];
        var random = new java.util.Random(7);
        IntStream.range(0, length).forEach(index -> bytes[index] = (byte) (' ' + random.nextInt(95)));
        return new String(bytes, StandardCharsets.US_ASCII);
    }

    static void refused(Callable<?> call, String word) throws Exception {
        Object answer;
        try {
            answer = call.call();
        } catch (ExecutionException error) {
            check(String.valueOf(error.getCause()).contains(word), String.valueOf(error));
            return;
        } catch (Exception error) {
            check(String.valueOf(error).contains(word), String.valueOf(error));
            return;
        }
        throw new AssertionError("answered " + answer);
    }

    static void equal(Object wanted, Object found) {
        check(Objects.equals(wanted, found), shown(found) + " instead of " + shown(wanted));
    }

    static void check(boolean holds, String why) {
        if (!holds) {
            throw new AssertionError(why);
        }
    }

    private static String shown(Object value) {
        String text = String.valueOf(value);
        return text.length() > 60 ? text.substring(0, 60) + "…" : text;
    }
}
