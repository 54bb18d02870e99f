// What happens without a decision, and the two lines about it.

package tollgate;

import java.util.function.Consumer;

/** Says once that the service is lost, and once that it is back. */
final class Failures {
    /** How long there is an answer to every question before the service is back. */
    private static final long SETTLE_NANOS = 1_000_000_000;

    private static final int MAX_CHARACTERS = 300;

    private final Rule rule;
    private final Consumer<String> log;
    private volatile long lost;
    private long last;

    Failures(Rule rule, Consumer<String> log) {
        this.rule = rule;
        this.log = log;
    }

    /** A request without a decision. */
    synchronized void happened(String why) {
        last = System.nanoTime();
        lost++;
        if (lost != 1) return;
        // An error about limits shows their place, over several lines.
        var line = String.valueOf(why).replaceAll("\\s+", " ");
        line = line.substring(0, Math.min(line.length(), MAX_CHARACTERS));
        var does = rule == Rule.ALLOW ? "pass" : "are refused";
        log.accept("no decision: " + line + ". Requests " + does + " until the service answers");
    }

    /** A decision. */
    void answered() {
        if (lost == 0) return;
        synchronized (this) {
            if (lost == 0 || System.nanoTime() - last < SETTLE_NANOS) return;
            log.accept("the service answers again: " + lost + " requests had no decision");
            lost = 0;
        }
    }
}
