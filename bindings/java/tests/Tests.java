// Runs the tests: every method of the classes below that is public and static. No framework, since
// the package has no dependency.

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

class Tests {
    static final List<Class<?>> ALL = List.of(
        AddressTest.class, ClientTest.class, FilterTest.class, OutageTest.class,
        PageTest.class);

    public static void main(String[] args) throws Exception {
        int failed = 0;
        int passed = 0;
        for (var each : ALL) {
            var methods = Arrays.stream(each.getDeclaredMethods())
                .filter(it -> Modifier.isPublic(it.getModifiers()))
                .sorted(Comparator.comparing(it -> it.getName())).toList();
            for (var test : methods) {
                var name = each.getSimpleName() + "." + test.getName();
                if (args.length > 0 && !name.contains(args[0])) continue;
                long began = System.nanoTime();
                try {
                    test.invoke(null);
                    passed++;
                    long ms = (System.nanoTime() - began) / 1_000_000;
                    System.out.println("ok " + name + " " + ms + " ms");
                } catch (InvocationTargetException error) {
                    failed++;
                    System.out.println("FAILED " + name);
                    error.getCause().printStackTrace(System.out);
                } finally {
                    Service.endAll();
                }
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        // Also where a thread of a failed test still runs.
        System.exit(failed > 0 || passed == 0 ? 1 : 0);
    }

    static void equal(Object found, Object expected) {
        if (!String.valueOf(found).equals(String.valueOf(expected))) {
            throw new AssertionError("`" + found + "` and not `" + expected + "`");
        }
    }

    static void holds(boolean is, Object shown) {
        if (!is) throw new AssertionError(String.valueOf(shown));
    }

    /** The exception that a call ends with. */
    static <E extends Exception> E fails(Class<E> kind, Call call) {
        try {
            call.run();
        } catch (Exception error) {
            if (kind.isInstance(error)) return kind.cast(error);
            throw new AssertionError(error);
        }
        throw new AssertionError("it did not fail with " + kind.getSimpleName());
    }

    interface Call {
        void run() throws Exception;
    }
}
