// Responses without the service, as every front of Tollgate writes them, and headers together.

package tollgate;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** Responses, and how their headers are written. */
public final class Responses {
    private static final String TYPES = "https://iana.org/assignments/http-problem-types#";

    private Responses() {
    }

    static Decision.Response unavailable() {
        return problem(503, TYPES + "temporary-reduced-capacity", "Temporary reduced capacity",
            "Requests cannot be counted at the moment, and are denied until they can.", 1);
    }

    static Decision.Response unreadable(String detail) {
        return problem(400, "about:blank", "Bad Request", detail, 0);
    }

    /** The response of the service. A {@link Tollgate} of yours, as in a test, may have none. */
    static Decision.Response of(Decision decision) {
        if (decision.response() != null) return decision.response();
        long wait = decision.retryAfter() == null ? 0
            : decision.retryAfter().plusNanos(999_999_999).toSeconds();
        return switch (String.valueOf(decision.outcome())) {
            case "denied" -> problem(429, TYPES + "quota-exceeded", "Quota exceeded",
                "Ask again later.", wait);
            case "never" -> problem(422, "about:blank", "Unprocessable Content",
                "This request costs more than its limit: asking for less helps.", 0);
            case "banned" -> problem(403, "about:blank", "Forbidden",
                "This client is banned.", 0);
            default -> unavailable();
        };
    }

    private static Decision.Response problem(
            int status, String type, String title, String detail, long wait) {
        var body = new LinkedHashMap<String, Object>();
        body.put("type", type);
        body.put("title", title);
        body.put("status", status);
        body.put("detail", detail);
        var headers = new ArrayList<Decision.Header>();
        headers.add(new Decision.Header("content-type", "application/problem+json"));
        headers.add(new Decision.Header("cache-control", "no-store"));
        if (wait > 0) headers.add(new Decision.Header("retry-after", Long.toString(wait)));
        return new Decision.Response(status, headers, Json.write(body));
    }

    /**
     * Adds the headers of a decision to those that are there. Where several filters limit a
     * request, the lists are one line each, in the order of the filters, and X-RateLimit-* are
     * those with the least left.
     */
    public static void add(
            List<Decision.Header> headers, Function<String, List<String>> there,
            BiConsumer<String, String> set) {
        boolean isLess = true;
        for (var each : headers) {
            var before = there.apply(each.name());
            if (nameOf(each).equals("x-ratelimit-remaining") && !before.isEmpty()) {
                isLess = Long.parseLong(each.value()) < Long.parseLong(before.get(0));
            }
        }
        for (var each : headers) {
            var name = nameOf(each);
            if (name.equals("ratelimit") || name.equals("ratelimit-policy")) {
                var lines = new ArrayList<>(there.apply(name));
                lines.add(each.value());
                set.accept(name, String.join(", ", lines));
            } else if (isLess || !name.startsWith("x-ratelimit-")) {
                set.accept(name, each.value());
            }
        }
    }

    private static String nameOf(Decision.Header header) {
        return header.name().toLowerCase(Locale.ROOT);
    }
}
