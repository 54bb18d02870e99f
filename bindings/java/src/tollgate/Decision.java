// Decisions.

package tollgate;

import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * The answer to a question. A denial is one, and not an exception.
 *
 * @param allowed whether it may go on
 * @param outcome {@code allowed}, {@code denied}, {@code never}, {@code banned}, {@code missing},
 *     {@code no_policy}, {@code unlimited}, {@code failed_open} or {@code failed_closed}
 * @param authority who decided: {@code store}, {@code policy}, {@code failure_rule} and so on
 * @param policy the policy that decided; null without one
 * @param limit the capacity of the limit that binds; 0 where none took part
 * @param remaining the largest cost that would be admitted now
 * @param unit the unit of both: {@code requests}, {@code slots} or one of yours
 * @param granted how many units were admitted
 * @param retryAfter the wait after a denial; null where no wait helps, or nothing was denied
 * @param untilHold whether {@code retryAfter} is the longest wait
 * @param resetAfter the time until the limit that binds is fresh
 * @param limits the part of each limit
 * @param missing the field that the request lacks
 * @param error why the store could not answer, where a failure rule decided
 * @param at the time of the decision, by the clock of the store
 * @param receipt refunds the charge, where the question asked for it
 * @param response what to answer a client of HTTP, where the question asked for it
 */
public record Decision(
        boolean allowed, String outcome, String authority, String policy, long limit,
        long remaining, String unit, long granted, Duration retryAfter, boolean untilHold,
        Duration resetAfter, List<LimitReport> limits, String missing, String error, Instant at,
        String receipt, Response response) {

    /**
     * The part of one limit.
     *
     * @param retryAfter the wait until this limit alone admits: zero for now, null for never
     */
    public record LimitReport(
            String subject, String policy, String identity, String limit, long capacity,
            long remaining, String unit, Duration retryAfter, Duration resetAfter,
            boolean admits) {
    }

    /** A response of HTTP; its body is empty where the request is admitted. */
    public record Response(int status, List<Header> headers, String body) {
    }

    /** One header of a response. */
    public record Header(String name, String value) {
    }

    /** Whether no limit decided, since the store of the service could not answer. */
    public boolean isByFailureRule() {
        return "failure_rule".equals(authority);
    }

    static Decision of(Fields it) {
        var limits = it.objects("limits").stream().map(each -> new LimitReport(
            each.text("subject"), each.text("policy"), each.text("identity"),
            each.text("limit"), each.number("capacity"), each.number("remaining"),
            each.text("unit"), each.time("retry_after"), each.time("reset_after"),
            each.flag("admits"))).toList();
        return new Decision(
            it.flag("allowed"), it.text("outcome"), it.text("authority"), it.text("policy"),
            it.number("limit"), it.number("remaining"), it.text("unit"), it.number("granted"),
            it.time("retry_after"), it.flag("until_hold"), it.time("reset_after"), limits,
            it.text("missing"), it.text("error"), it.instant("at_us"), it.text("receipt"),
            it.has("response") ? response(Fields.of(it.all().get("response"))) : null);
    }

    private static Response response(Fields it) {
        var headers = it.objects("headers").stream()
            .map(each -> new Header(each.text("name"), each.text("value"))).toList();
        return new Response((int) it.number("status"), headers, it.text("body"));
    }
}
