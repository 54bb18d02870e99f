// The service killed and started again under load.

import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.function.BooleanSupplier;
import tollgate.Question;
import tollgate.Rule;
import tollgate.Tollgate;
import tollgate.servlet.LimitFilter;

class OutageTest {
    /** Gives nothing back while a test runs. */
    private static final String PER_YEAR = "1000000/300d via fixed_window";

    /** A filter under load. */
    private static class Door {
        final List<String> lines = Collections.synchronizedList(new ArrayList<>());
        final AtomicIntegerArray statuses = new AtomicIntegerArray(600);
        final String subject = Service.unique();
        final LimitFilter filter;
        final Rule rule;

        Door(Tollgate tollgate, Rule rule) {
            this.rule = rule;
            filter = new LimitFilter(tollgate, rule,
                it -> it.limits(PER_YEAR).key(request -> subject).log(lines::add));
        }

        void visit() {
            statuses.incrementAndGet(new Servlets.Visit().through(filter).status);
        }

        boolean said(String words) {
            return String.join("\n", List.copyOf(lines)).contains(words);
        }
    }

    private static void until(String what, BooleanSupplier is) throws InterruptedException {
        long end = System.nanoTime() + 20_000_000_000L;
        while (!is.getAsBoolean()) {
            Tests.holds(System.nanoTime() < end, what + " did not come");
            Thread.sleep(5); // tidy: sleep-ok the load is real
        }
    }

    public static void theServiceIsKilledAndStartedUnderLoad() throws Exception {
        var listen = "127.0.0.1:" + Service.freePort();
        var folder = Files.createTempDirectory("tollgate");
        var store = "sqlite://" + folder + "/counts.db";
        var service = Service.start(listen, "--store", store);
        var tollgate = service.client();
        var doors = List.of(new Door(tollgate, Rule.ALLOW), new Door(tollgate, Rule.DENY));
        var stop = new AtomicBoolean();
        var threads = new ArrayList<Thread>();
        for (int number = 0; number < 8; number++) {
            var door = doors.get(number % 2);
            var thread = new Thread(() -> {
                while (!stop.get()) {
                    door.visit();
                    pause();
                }
            });
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        for (var door : doors) until("load", () -> door.statuses.get(200) > 20);
        service.kill();
        for (var door : doors) until("the loss", () -> door.said("no decision"));
        Thread.sleep(300); // tidy: sleep-ok requests go on without the service
        Service.start(listen, "--store", store);
        for (var door : doors) until("the return", () -> door.said("answers again"));
        stop.set(true);
        for (var thread : threads) thread.join();
        for (var door : doors) {
            Tests.holds(door.lines.size() == 2, door.lines);
            var seen = new TreeMap<Integer, Integer>();
            for (int status = 0; status < 600; status++) {
                if (door.statuses.get(status) > 0) seen.put(status, door.statuses.get(status));
            }
            var expected = door.rule == Rule.ALLOW ? List.of(200) : List.of(200, 503);
            Tests.equal(List.copyOf(seen.keySet()), expected);
            // Counts are right after it: each further request is one.
            var peek = Question.on(door.subject, PER_YEAR);
            long before = tollgate.peek(peek).remaining();
            for (int time = 0; time < 10; time++) door.visit();
            Tests.equal(before - tollgate.peek(peek).remaining(), 10);
        }
        try (var files = Files.list(folder)) {
            files.forEach(file -> file.toFile().delete());
        }
        Files.delete(folder);
    }

    private static void pause() {
        try {
            Thread.sleep(5); // tidy: sleep-ok the load is real
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static void aStoreThatIsAwayIsAnsweredByTheRule() {
        var service = Service.start(
            "127.0.0.1:0", "--store", "redis://127.0.0.1:" + Service.freePort());
        for (var door : List.of(
                new Door(service.client(), Rule.ALLOW), new Door(service.client(), Rule.DENY))) {
            for (int time = 0; time < 3; time++) door.visit();
            Tests.equal(door.statuses.get(door.rule == Rule.ALLOW ? 200 : 503), 3);
            Tests.equal(door.lines.size(), 1);
        }
    }
}
