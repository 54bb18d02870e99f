// Holds, and what settles them.

package tollgate;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * The answer to a reserve or an acquire.
 *
 * @param decision the decision, with its numbers
 * @param token settles the hold; null where nothing is held
 * @param fence larger than that of every earlier hold of the count
 * @param endsAfter how long it lasts, unless it is renewed or settled; null where nothing is held
 * @param ahead how many wait in line before this question
 */
public record Hold(Decision decision, String token, long fence, Duration endsAfter, long ahead) {
    static Hold of(Fields it) {
        return new Hold(Decision.of(it), it.text("hold"), it.number("fence"),
            it.time("ends_after"), it.number("ahead"));
    }

    /**
     * What a charge, or a commit, did to one limit.
     *
     * @param fits whether a check would have admitted the units
     * @param cut the units that were not charged, since the limit cannot owe them
     */
    public record Charged(
            String subject, String policy, String identity, String limit, boolean fits, long cut,
            long remaining, Duration retryAfter, Duration resetAfter) {

        static List<Charged> of(Fields it) {
            return it.objects("limits").stream().map(each -> new Charged(
                each.text("subject"), each.text("policy"), each.text("identity"),
                each.text("limit"), each.flag("fits"), each.number("cut"),
                each.number("remaining"), each.time("retry_after"),
                each.time("reset_after"))).toList();
        }
    }

    /**
     * What a commit did.
     *
     * @param already whether it was settled before: nothing was charged now
     * @param actual what was charged for it
     */
    public record Settled(boolean already, Map<String, Long> actual, List<Charged> limits) {
        static Settled of(Fields it) {
            return new Settled(it.flag("already"), it.units("actual"), Charged.of(it));
        }
    }

    /** A hold whose time begins anew. */
    public record Renewed(String token, long fence, Instant end) {
        static Renewed of(Fields it) {
            return new Renewed(it.text("hold"), it.number("fence"), it.instant("end_us"));
        }
    }

    /**
     * What a refund gave back.
     *
     * @param already whether all of it had been refunded before
     * @param given by how much each limit's {@code remaining} rose
     * @param left what can still be refunded
     */
    public record Refund(boolean already, List<Long> given, Map<String, Long> left) {
        static Refund of(Fields it) {
            return new Refund(it.flag("already"), it.numbers("given"), it.units("left"));
        }
    }
}
