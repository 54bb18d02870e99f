// The options of the filters, and what they do with a request.

package tollgate;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.ToLongFunction;

/**
 * How requests are limited. With {@link #limits} the limits are in your program; without them the
 * policies of the service decide. {@code R} is the request of the server, such as {@code
 * HttpServletRequest}.
 */
public final class Limits<R> {
    private static final System.Logger LOGGER = System.getLogger("tollgate");

    /** What a filter reads of a request. */
    public interface Adapter<R> {
        /** The method. */
        String method(R request);

        /** The path as it was sent. */
        String path(R request);

        /** The other end of the connection; null at a Unix socket. */
        String peer(R request);

        /** The lines of a header. */
        List<String> headers(R request, String name);
    }

    /** A response to a request that was not admitted; {@code decision} is null without one. */
    public record Refusal(Decision.Response response, Decision decision) {
    }

    /** What becomes of a request: neither part is set where it passes without a decision. */
    public record Verdict(Decision decision, Refusal refusal, Question question) {
    }

    private final Tollgate tollgate;
    private final Adapter<R> adapter;
    private final Rule onFailure;
    private Function<R, String> limits;
    private Function<R, String> key;
    private Function<R, List<Question.Part>> keys;
    private ClientAddress client = ClientAddress.peer();
    private String policy;
    private Function<R, Map<String, String>> fields = request -> Map.of();
    private ToLongFunction<R> cost;
    private Function<R, Map<String, Long>> units;
    private Predicate<R> skip = request -> false;
    private Headers headers = Headers.DRAFT;
    private BiConsumer<R, Decision> onDecision = (request, decision) -> { };
    private boolean refunds;
    private Consumer<String> log = line -> LOGGER.log(System.Logger.Level.WARNING, line);
    private Failures failures;

    /** For a server whose requests the adapter reads. {@code onFailure} has no default. */
    public Limits(Tollgate tollgate, Rule onFailure, Adapter<R> adapter) {
        if (onFailure == null) {
            throw new ArgumentException("onFailure", "say whether requests pass (ALLOW) or get a "
                + "503 (DENY) while there is no decision", 0);
        }
        this.tollgate = tollgate;
        this.adapter = adapter;
        this.onFailure = onFailure;
        this.failures = new Failures(onFailure, log);
    }

    /** The limits of each subject, such as {@code api: 100/m, 1000/h}. */
    public Limits<R> limits(String limits) {
        Question.checkText("limits", limits, false);
        return limits(request -> limits);
    }

    /** The limits of a request, as of a tenant. */
    public Limits<R> limits(Function<R, String> limits) {
        this.limits = limits;
        return this;
    }

    /** The subject of a request; null is not limited, and an empty one gets a 400. */
    public Limits<R> key(Function<R, String> key) {
        this.key = key;
        return this;
    }

    /** Several subjects, decided together; a part with null for limits has those of limits(). */
    public Limits<R> keys(Function<R, List<Question.Part>> keys) {
        this.keys = keys;
        return this;
    }

    /** How the client's address is found. */
    public Limits<R> client(ClientAddress client) {
        this.client = client;
        return this;
    }

    /** Only this policy of the service decides. */
    public Limits<R> policy(String name) {
        this.policy = name;
        return this;
    }

    /** What policies compare beside ip, method, path and host: user, api_key, field.NAME, ... */
    public Limits<R> fields(Function<R, Map<String, String>> fields) {
        this.fields = fields;
        return this;
    }

    /** The cost of a request; 0 is not limited. */
    public Limits<R> cost(ToLongFunction<R> cost) {
        this.cost = cost;
        return this;
    }

    /** The cost as an amount of each unit, in place of cost(); none is not limited. */
    public Limits<R> units(Function<R, Map<String, Long>> units) {
        this.units = units;
        return this;
    }

    /** True of requests that are not limited. */
    public Limits<R> skip(Predicate<R> skip) {
        this.skip = skip;
        return this;
    }

    /** The headers that tell a client about its limits; {@link Headers#DRAFT} without it. */
    public Limits<R> headers(Headers headers) {
        this.headers = headers;
        return this;
    }

    /** Hears of each decision. */
    public Limits<R> onDecision(BiConsumer<R, Decision> onDecision) {
        this.onDecision = onDecision;
        return this;
    }

    /** Gets a line when the service is lost, one when it is back, and each likely mistake once. */
    public Limits<R> log(Consumer<String> log) {
        this.log = log;
        this.failures = new Failures(onFailure, log);
        return this;
    }

    /** Decisions get a receipt, with which {@link #refund} gives the charge back. */
    public Limits<R> refunds() {
        this.refunds = true;
        return this;
    }

    /** Decides about a request. */
    public Verdict judge(R request) {
        if (skip.test(request)) return new Verdict(null, null, null);
        Question question;
        try {
            var asked = question(request);
            if (asked.refusal() != null || asked.question() == null) return asked;
            question = asked.question();
            question.check();
        } catch (ArgumentException error) {
            // Subjects and fields are the client's own words, and limits are not.
            if (error.field().startsWith("limit")) return without(error.getMessage());
            return new Verdict(null, refusal(Responses.unreadable(error.getMessage())), null);
        }
        Decision decision;
        try {
            decision = tollgate.check(question);
        } catch (ArgumentException error) {
            if (isOfCaller(error)) {
                return new Verdict(null, refusal(Responses.unreadable(error.getMessage())), null);
            }
            return without(error.getMessage());
        } catch (TollgateException error) {
            return without(error.getMessage());
        }
        if (decision.isByFailureRule()) {
            failures.happened(decision.error());
        } else {
            failures.answered();
        }
        onDecision.accept(request, decision);
        if (decision.allowed()) return new Verdict(decision, null, question);
        return new Verdict(decision, new Refusal(Responses.of(decision), decision), question);
    }

    /** Gives back what the decision of a verdict charged. */
    public void refund(Verdict verdict) {
        if (verdict.decision() == null || verdict.decision().receipt() == null) return;
        try {
            tollgate.refund(verdict.decision().receipt());
        } catch (TollgateException error) {
            failures.happened(error.getMessage());
        }
    }

    /** Charges a cost in addition, also beyond the limits. */
    public void charge(Verdict verdict, long more) {
        if (verdict.decision() == null || verdict.decision().isByFailureRule() || more <= 0) return;
        try {
            var cost = Math.min(more, Question.MAX_COST);
            tollgate.charge(verdict.question().asCharge().cost(cost));
        } catch (TollgateException error) {
            failures.happened(error.getMessage());
        }
    }

    private Verdict without(String why) {
        failures.happened(why);
        var refused = onFailure == Rule.DENY ? refusal(Responses.unavailable()) : null;
        return new Verdict(null, refused, null);
    }

    private static Refusal refusal(Decision.Response response) {
        return new Refusal(response, null);
    }

    /** What to ask, or the refusal; neither where the request is not limited. */
    private Verdict question(R request) {
        long plain = cost == null ? 1 : Math.min(cost.applyAsLong(request), Question.MAX_COST);
        var amounts = units == null ? null : units.apply(request);
        if (plain <= 0 || amounts != null && amounts.isEmpty()) {
            return new Verdict(null, null, null);
        }
        Question question;
        if (limits == null && keys == null) {
            question = Question.by(described(request));
            if (policy != null) question = question.policy(policy);
            if (cost != null) question = question.cost(plain);
        } else {
            var parts = parts(request);
            if (parts == null) return new Verdict(null, refusal(Responses.unavailable()), null);
            if (parts.isEmpty()) return new Verdict(null, null, null);
            question = Question.on(parts).cost(plain).onFailure(onFailure);
        }
        if (amounts != null) question = question.cost(amounts);
        question = question.response(headers);
        return new Verdict(null, null, refunds ? question.receipt() : question);
    }

    /** The subjects with their limits; null where a client has no address. */
    private List<Question.Part> parts(R request) {
        if (keys != null) {
            var parts = new ArrayList<Question.Part>();
            for (var part : keys.apply(request)) {
                var own = part.limits();
                if (own == null && limits != null) own = limits.apply(request);
                parts.add(new Question.Part(part.subject(), own));
            }
            return parts;
        }
        var subject = key == null
            ? client.subject(adapter.peer(request), name -> adapter.headers(request, name), log)
            : key.apply(request);
        if (subject == null) return key == null ? null : List.of();
        return List.of(new Question.Part(subject, limits.apply(request)));
    }

    /** Describes a request. One without an address has no {@code ip}: the policy says what then. */
    private Map<String, String> described(R request) {
        var described = new LinkedHashMap<String, String>();
        described.put("method", adapter.method(request));
        described.put("path", adapter.path(request));
        var host = adapter.headers(request, "host");
        if (host.size() == 1) described.put("host", host.get(0));
        var ip = client.whole(
            adapter.peer(request), name -> adapter.headers(request, name), log);
        if (ip != null) described.put("ip", ip);
        fields.apply(request).forEach((name, value) -> {
            if (value != null) described.put(name, value);
        });
        return described;
    }

    /** Whether a client's mistake, such as a path that servers read differently. */
    private boolean isOfCaller(ArgumentException error) {
        if (error.status() != 400) return false;
        boolean byPolicies = limits == null && keys == null;
        return byPolicies ? error.field().startsWith("fields")
            : error.field().endsWith("subject");
    }
}
