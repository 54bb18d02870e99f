// Questions.

package tollgate;

import java.nio.charset.CharacterCodingException;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What is asked: about subjects under limits ({@link #on}), or by the policies of the service
 * ({@link #by}). Each method returns another question.
 */
public final class Question {
    /** The longest subject, limit or field, in bytes. */
    public static final int MAX_TEXT_BYTES = 1024;

    /** The largest cost: 2^40. */
    public static final long MAX_COST = 1L << 40;

    /** A subject with its limits. */
    public record Part(String subject, String limits) {
    }

    private final List<Part> parts;
    private final Map<String, String> fields;
    private final Map<String, Object> rest;

    private Question(List<Part> parts, Map<String, String> fields, Map<String, Object> rest) {
        this.parts = parts;
        this.fields = fields;
        this.rest = rest;
    }

    /** About one subject, which is literal after its first colon: {@code user:42}. */
    public static Question on(String subject, String limits) {
        return on(List.of(new Part(subject, limits)));
    }

    /** About several, which are decided together: all, or nothing. */
    public static Question on(List<Part> parts) {
        return new Question(List.copyOf(parts), null, Map.of());
    }

    /** By policies, about a request: {@code ip}, {@code method}, {@code path}, {@code user}, ... */
    public static Question by(Map<String, String> fields) {
        return new Question(List.of(), Map.copyOf(fields), Map.of());
    }

    /** Only this policy decides. */
    public Question policy(String name) {
        return with("policy", name);
    }

    /** The cost in requests; 1 without it. */
    public Question cost(long requests) {
        return with("cost", requests);
    }

    /** The cost as an amount of each unit: {@code Map.of("requests", 1L, "tokens", 800L)}. */
    public Question cost(Map<String, Long> units) {
        return with("cost", Map.copyOf(units));
    }

    /** Asks for a receipt, with which {@link Tollgate#refund} gives the charge back. */
    public Question receipt() {
        return with("receipt", true);
    }

    /** For limits in the call: the answer while the store of the service is away. */
    public Question onFailure(Rule rule) {
        return with("on_failure", rule.word());
    }

    /** For limits in the call: how long the store may take, 1 ms to 1 min. */
    public Question deadline(Duration deadline) {
        return with("deadline", deadline.toMillis() + "ms");
    }

    /** Makes a second try safe, if counts are on Redis. */
    public Question idempotencyKey(String key) {
        return with("idempotency_key", key);
    }

    /** Asks for the response that the decision stands for, with these headers. */
    public Question response(Headers headers) {
        return with("response", headers.word());
    }

    /** What a peek looks ahead to: {@code check}, {@code reserve} or {@code acquire}. */
    public Question kind(String kind) {
        return with("kind", kind);
    }

    /** How long a reserve holds. */
    public Question ttl(Duration ttl) {
        return with("ttl", ttl.toMillis() + "ms");
    }

    /** The estimate of a reserve is charged when its time ends. */
    public Question chargeAtEnd() {
        return with("at_end", "charge");
    }

    /** An id of yours for a hold, a new one for each. */
    public Question id(String id) {
        return with("id", id);
    }

    private Question with(String name, Object value) {
        var more = new LinkedHashMap<>(rest);
        more.put(name, value);
        return new Question(parts, fields, more);
    }

    /** The same, as a charge: without what a charge does not have. */
    Question asCharge() {
        var less = new LinkedHashMap<>(rest);
        List.of("receipt", "on_failure", "deadline", "response").forEach(less::remove);
        return new Question(parts, fields, less);
    }

    /** The question in JSON. */
    Map<String, Object> body() {
        check();
        var body = new LinkedHashMap<String, Object>(rest);
        if (fields != null) {
            body.put("fields", fields);
        } else if (parts.size() == 1) {
            body.putAll(bodyOf(parts.get(0)));
        } else {
            body.put("on", new ArrayList<Object>(parts.stream().map(Question::bodyOf).toList()));
        }
        return body;
    }

    private static Map<String, Object> bodyOf(Part part) {
        return Map.of("subject", part.subject(), "limit", part.limits());
    }

    /** Refuses what the service would refuse, or what would be changed on the way. */
    void check() {
        if (fields == null && parts.isEmpty()) {
            throw new ArgumentException("", "a question has a subject, or fields", 0);
        }
        for (var part : parts) {
            checkText("subject", part.subject(), false);
            checkText("limit", part.limits(), false);
        }
        if (fields != null) {
            fields.forEach((name, value) -> checkText("fields." + name, value, true));
        }
        if (rest.get("cost") instanceof Long cost && (cost < 1 || cost > MAX_COST)) {
            throw new ArgumentException("cost", cost + " is not a cost: 1 to 2^40", 0);
        }
    }

    static void checkText(String field, String text, boolean mayBeEmpty) {
        if (text == null || text.isEmpty() && !mayBeEmpty) {
            throw new ArgumentException(field, "it is empty", 0);
        }
        int bytes;
        try {
            bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text)).limit();
        } catch (CharacterCodingException error) {
            throw new ArgumentException(field, "it is not Unicode: half of a pair", 0);
        }
        if (bytes > MAX_TEXT_BYTES) {
            var message = "it has " + bytes + " bytes: at most " + MAX_TEXT_BYTES;
            throw new ArgumentException(field, message, 0);
        }
    }
}
