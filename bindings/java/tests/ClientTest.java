// The client, with a real service.

import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import tollgate.ArgumentException;
import tollgate.HoldException;
import tollgate.Question;
import tollgate.StoreException;
import tollgate.Tollgate;
import tollgate.Waiter;

class ClientTest {
    public static void aCheckIsADecision() {
        var tollgate = Service.start().client();
        // Letters that would end a text of JSON early are part of the subject.
        var question = Question.on("user:a\"b\\c\u00e9", "3/h via gcra").cost(2);
        var first = tollgate.check(question);
        Tests.holds(first.allowed() && first.outcome().equals("allowed")
            && first.authority().equals("store") && first.limit() == 3 && first.remaining() == 1
            && first.granted() == 2 && first.unit().equals("requests")
            && first.resetAfter().equals(Duration.ofMinutes(40)) && first.retryAfter() == null
            && first.receipt() == null && first.response() == null && first.at() != null, first);
        Tests.equal(first.limits().get(0).identity(), "gcra/1h");
        var denied = tollgate.check(question);
        Tests.holds(!denied.allowed() && denied.retryAfter().toMinutes() == 19, denied);
        var never = tollgate.check(question.cost(4));
        Tests.holds(never.outcome().equals("never") && never.retryAfter() == null, never);
        Tests.equal(tollgate.peek(question.cost(1)).remaining(), 1);
    }

    public static void severalSubjectsAreAllOrNothing() {
        var tollgate = Service.start().client();
        var both = Question.on(List.of(
            new Question.Part("user:1", "1/h"), new Question.Part("user:2", "5/h, 9/d")));
        Tests.equal(tollgate.check(both).limits().size(), 3);
        Tests.equal(tollgate.check(both).allowed(), false);
        Tests.equal(tollgate.check(Question.on("user:2", "5/h, 9/d")).remaining(), 3);
        var missing = tollgate.peek(Question.by(Map.of("user", "ann")).policy("demo"));
        Tests.equal(missing.missing(), "ip");
    }

    public static void chargesAndRefunds() {
        var tollgate = Service.start().client();
        var question = Question.on("user:1", "9/h, 100/h of tokens via gcra");
        var charged = tollgate.check(
            question.cost(Map.of("requests", 1L, "tokens", 60L)).receipt());
        var part = tollgate.refund(charged.receipt(), Map.of("tokens", 50L));
        Tests.holds(!part.already() && part.left().get("tokens") == 10, part);
        var rest = tollgate.refund(charged.receipt());
        Tests.holds(rest.given().equals(List.of(1L, 10L)), rest);
        var beyond = tollgate.charge(question.cost(Map.of("tokens", 105L)));
        Tests.holds(beyond.size() == 2 && !beyond.get(1).fits(), beyond);
        Tests.fails(ArgumentException.class, () -> tollgate.refund("no receipt"));
    }

    public static void holdsAreSettledOnce() {
        var tollgate = Service.start().client();
        var hold = tollgate.reserve(
            Question.on("bob", "100/h").cost(80).ttl(Duration.ofMinutes(1)));
        Tests.holds(hold.decision().allowed() && hold.fence() > 0
            && hold.endsAfter().equals(Duration.ofMinutes(1)), hold);
        var renewed = tollgate.renew(hold.token(), Duration.ofMinutes(2));
        var settled = tollgate.commit(renewed.token(), Map.of("requests", 30L));
        Tests.holds(!settled.already() && settled.actual().get("requests") == 30
            && settled.limits().get(0).remaining() == 70, settled);
        Tests.holds(tollgate.commit(renewed.token(), Map.of("requests", 30L)).already(), "twice");
        var slots = Question.on("backend", "1 at once hold 30s");
        var slot = tollgate.acquire(slots);
        var denied = tollgate.acquire(slots);
        Tests.holds(denied.token() == null && denied.decision().untilHold(), denied);
        tollgate.release(slot.token());
        var gone = Tests.fails(
            HoldException.class, () -> tollgate.renew(slot.token(), null));
        Tests.holds(!gone.isFull(), gone);
    }

    public static void countsAreExactForAllAtOnce() throws Exception {
        var tollgate = Service.start().client();
        var threads = Executors.newFixedThreadPool(40);
        try {
            Callable<Boolean> ask = () -> tollgate.check(Question.on("all", "50/h")).allowed();
            int allowed = 0;
            for (var answer : threads.invokeAll(Collections.nCopies(200, ask))) {
                allowed += answer.get() ? 1 : 0;
            }
            Tests.equal(allowed, 50);
        } finally {
            threads.shutdownNow();
        }
    }

    public static void aMistakeIsNoOutage() {
        var tollgate = Service.start().client();
        for (var question : List.of(
                Question.on(List.of()), Question.on("", "1/h"), Question.on("user:1", ""),
                Question.on("user:1", "1/h via gcr"), Question.on("user:\ud800", "1/h"),
                Question.on("x".repeat(2000), "1/h"), Question.on("user:1", "1/h").cost(0),
                Question.by(Map.of()).policy("none of these"))) {
            Tests.fails(ArgumentException.class, () -> tollgate.check(question));
        }
        for (var url : List.of("", "127.0.0.1:8700", "ftp://127.0.0.1", "http://")) {
            Tests.fails(ArgumentException.class, () -> Tollgate.at(url));
        }
    }

    public static void aLostAnswerSaysWhetherItMayHaveCharged() throws Exception {
        var question = Question.on("user:1", "1/h");
        try (var silent = new ServerSocket(0, 9, InetAddress.getLoopbackAddress())) {
            var waiting = Tollgate.at(
                "http://127.0.0.1:" + silent.getLocalPort(), Duration.ofMillis(100));
            var lost = Tests.fails(StoreException.class, () -> waiting.check(question));
            Tests.holds(lost.isAmbiguous(), "the service may have read it");
            lost = Tests.fails(StoreException.class, () -> waiting.peek(question));
            Tests.holds(!lost.isAmbiguous(), "a peek charges nothing");
        }
        var nobody = Tollgate.at("http://127.0.0.1:" + Service.freePort());
        var lost = Tests.fails(StoreException.class, () -> nobody.check(question));
        Tests.holds(!lost.isAmbiguous(), "nobody was asked");
    }

    public static void turnsComeInTheOrderOfArrival() throws Exception {
        var tollgate = Service.start().client();
        var waiter = new Waiter(tollgate);
        var question = Question.on("queue", "20/s burst 1 via gcra");
        var order = Collections.synchronizedList(new ArrayList<Integer>());
        var threads = new ArrayList<Thread>();
        tollgate.check(question);
        for (int number = 0; number < 12; number++) {
            int mine = number;
            var thread = new Thread(() -> {
                try {
                    var turn = waiter.untilReady("queue", question, Duration.ofSeconds(20));
                    if (turn.isPresent()) order.add(mine);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            });
            threads.add(thread);
            thread.start();
            // It has its place once it waits.
            while (thread.getState() != Thread.State.WAITING
                    && thread.getState() != Thread.State.TIMED_WAITING) {
                Thread.onSpinWait();
            }
        }
        for (var thread : threads) thread.join();
        Tests.holds(order.size() == 12, order);
        Tests.equal(order, order.stream().sorted().toList());
        nobodyOvertakes(waiter);
        var empty = waiter.untilReady(
            "other", Question.on("all", "1/h").cost(1), Duration.ofMillis(1));
        Tests.holds(empty.isPresent(), "the first one has room");
        empty = waiter.untilReady("other", Question.on("all", "1/h"), Duration.ofMillis(20));
        Tests.holds(empty.isEmpty(), empty);
        Tests.fails(IllegalStateException.class, () -> waiter.untilReady(
            "other", Question.on("all", "1/h").cost(2), Duration.ofMillis(20)));
    }

    /** Who had a turn and asks for the next one comes after those who waited meanwhile. */
    private static void nobodyOvertakes(Waiter waiter) throws InterruptedException {
        var question = Question.on("in turns", "20/s burst 1 via gcra");
        var order = Collections.synchronizedList(new ArrayList<Integer>());
        var threads = new ArrayList<Thread>();
        for (int number = 0; number < 3; number++) {
            int mine = number;
            threads.add(new Thread(() -> {
                try {
                    for (int turn = 0; turn < 5; turn++) {
                        waiter.untilReady("in turns", question, Duration.ofSeconds(20));
                        order.add(mine);
                    }
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            }));
        }
        threads.forEach(Thread::start);
        for (var thread : threads) thread.join();
        // After the first ones, which arrive at any time, each has its turn once in three.
        for (int place = 3; place + 3 <= 12; place++) {
            var three = List.copyOf(order.subList(place, place + 3));
            Tests.holds(three.stream().distinct().count() == 3, order);
        }
    }
}
