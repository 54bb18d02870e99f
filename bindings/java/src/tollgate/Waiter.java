// Waiting for a turn.

package tollgate;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Waits until a question is admitted. Those who wait under the same name in one program have their
 * turns in the order of their arrival, and only the first of them asks the service.
 */
public final class Waiter {
    private static final class Line {
        final ReentrantLock turn = new ReentrantLock(true);
        int count;
    }

    private final Tollgate tollgate;
    private final Map<String, Line> lines = new HashMap<>();

    /** All that should be in one line take the same waiter. */
    public Waiter(Tollgate tollgate) {
        this.tollgate = tollgate;
    }

    /**
     * Returns when the question was admitted and charged: its decision. Nothing where that did not
     * come within the time. {@code line} is what is waited for, such as the subject.
     *
     * @throws StoreException there is no decision
     * @throws IllegalStateException waiting does not help: the cost is above a limit, the client
     *     is banned, or the request lacks a field
     * @throws InterruptedException the thread was interrupted
     */
    public Optional<Decision> untilReady(String line, Question question, Duration time)
            throws InterruptedException {
        long end = System.nanoTime() + time.toNanos();
        var mine = join(line);
        try {
            // With a time of zero or less too, which a fair lock takes in order.
            if (!mine.turn.tryLock(Math.max(0, time.toNanos()), TimeUnit.NANOSECONDS)) {
                return Optional.empty();
            }
            try {
                return turn(question, end);
            } finally {
                mine.turn.unlock();
            }
        } finally {
            leave(line, mine);
        }
    }

    private Optional<Decision> turn(Question question, long end) throws InterruptedException {
        while (true) {
            var decision = tollgate.check(question);
            if (Thread.interrupted()) throw new InterruptedException();
            if (decision.allowed()) return Optional.of(decision);
            if (decision.isByFailureRule()) {
                throw new StoreException(decision.error(), false, null);
            }
            if (decision.retryAfter() == null) {
                throw new IllegalStateException("waiting does not help: " + decision.outcome());
            }
            long wait = decision.retryAfter().toNanos();
            long left = end - System.nanoTime();
            if (wait > left) {
                TimeUnit.NANOSECONDS.sleep(Math.max(0, left));
                return Optional.empty();
            }
            TimeUnit.NANOSECONDS.sleep(wait);
        }
    }

    private Line join(String name) {
        synchronized (lines) {
            var line = lines.computeIfAbsent(name, any -> new Line());
            line.count++;
            return line;
        }
    }

    private void leave(String name, Line line) {
        synchronized (lines) {
            line.count--;
            if (line.count == 0) lines.remove(name);
        }
    }
}
