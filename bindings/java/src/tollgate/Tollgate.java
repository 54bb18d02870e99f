// The client.

package tollgate;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Asks the service of Tollgate, {@code tollgate serve}. Make one for the whole program: it keeps
 * connections, and any number of threads may use it.
 *
 * <pre>{@code
 * var tollgate = Tollgate.at("http://127.0.0.1:8700");
 * var decision = tollgate.check(Question.on("user:42", "10/s, 240/h"));
 * }</pre>
 *
 * <p>No call is sent twice, since the service may have charged the first one. Each throws a {@link
 * StoreException} without a decision, and an {@link ArgumentException} for a question that makes
 * no sense.
 */
public class Tollgate {
    /** More than the 500 ms that the service gives its store. */
    public static final Duration DEFAULT_TIMEOUT = Duration.ofMillis(750);

    static {
        // The service closes idle connections after 60 s, Java 17 after 20 minutes. In seconds.
        if (System.getProperty("jdk.httpclient.keepalive.timeout") == null) {
            System.setProperty("jdk.httpclient.keepalive.timeout", "50");
        }
    }

    private final String url;
    private final Duration timeout;
    private final HttpClient client;

    /** A client with a {@link HttpClient} of yours, as for certificates; it speaks HTTP/1.1. */
    public Tollgate(String url, Duration timeout, HttpClient client) {
        var scheme = schemeOf(url);
        if (!"http".equals(scheme) && !"https".equals(scheme)) {
            var message = "`" + url + "` is not a URL such as http://127.0.0.1:8700";
            throw new ArgumentException("url", message, 0);
        }
        if (timeout.isNegative() || timeout.isZero()) {
            throw new ArgumentException("timeout", timeout + " is not more than 0", 0);
        }
        this.url = url.endsWith("/") ? url.substring(0, url.length() - 1) : url;
        this.timeout = timeout;
        this.client = Objects.requireNonNull(client);
    }

    private static String schemeOf(String url) {
        try {
            var uri = URI.create(url);
            return uri.getHost() == null ? null : uri.getScheme();
        } catch (IllegalArgumentException error) {
            return null;
        }
    }

    /** A client of the service at this URL, such as {@code http://127.0.0.1:8700}. */
    public static Tollgate at(String url) {
        return at(url, DEFAULT_TIMEOUT);
    }

    /** The same, whose answers take at most this long. */
    public static Tollgate at(String url, Duration timeout) {
        // HTTP/2 of the service is for gRPC alone.
        return new Tollgate(url, timeout, HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout).build());
    }

    /** Charges the cost if every limit admits it. */
    public Decision check(Question question) {
        return Decision.of(send("/v1/check", question.body(), true));
    }

    /** Answers as a check would, and charges nothing. */
    public Decision peek(Question question) {
        return Decision.of(send("/v1/peek", question.body(), false));
    }

    /** Charges without a check, also beyond the limits. */
    public List<Hold.Charged> charge(Question question) {
        return Hold.Charged.of(send("/v1/charge", question.body(), true));
    }

    /** Gives back what the decision with this receipt charged, once. */
    public Hold.Refund refund(String receipt) {
        return Hold.Refund.of(send("/v1/refund", Map.of("receipt", receipt), true));
    }

    /** Gives these units of it back. */
    public Hold.Refund refund(String receipt, Map<String, Long> units) {
        var body = Map.of("receipt", receipt, "units", units);
        return Hold.Refund.of(send("/v1/refund", body, true));
    }

    /** Sets the cost aside for {@link Question#ttl}, until a commit says what was used. */
    public Hold reserve(Question question) {
        return Hold.of(send("/v1/reserve", question.body(), true));
    }

    /** Takes slots of limits such as {@code 20 at once}, until a release. */
    public Hold acquire(Question question) {
        return Hold.of(send("/v1/acquire", question.body(), true));
    }

    /** Charges what was used of a hold, and gives the rest back. A second one charges nothing. */
    public Hold.Settled commit(String token, Map<String, Long> used) {
        var body = Map.of("hold", token, "actual", used);
        return Hold.Settled.of(send("/v1/commit", body, true));
    }

    /** Begins the time of a hold anew: for units, with a time; for slots, with null. */
    public Hold.Renewed renew(String token, Duration ttl) {
        var body = new LinkedHashMap<String, Object>(Map.of("hold", token));
        if (ttl != null) body.put("ttl", ttl.toMillis() + "ms");
        return Hold.Renewed.of(send("/v1/renew", body, true));
    }

    /** Gives back what a hold keeps, without a charge. */
    public void release(String token) {
        send("/v1/release", Map.of("hold", token), true);
    }

    /** The fields of the answer. With {@code charges} a lost answer may have been a charge. */
    private Fields send(String path, Map<String, ?> body, boolean charges) {
        var request = HttpRequest.newBuilder(URI.create(url + path)).timeout(timeout)
            .header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString(Json.write(body))).build();
        HttpResponse<String> response;
        try {
            // Java sends no POST a second time by itself, so nothing is charged twice.
            response = client.send(request, BodyHandlers.ofString());
        } catch (IOException error) {
            throw lost(error, charges);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw lost(error, charges);
        }
        var answer = Fields.of(Json.read(response.body()));
        if (response.statusCode() != 200) throw refused(response.statusCode(), answer, charges);
        if (answer.all().isEmpty()) {
            throw new StoreException("this is not an answer of Tollgate", charges, null);
        }
        return answer;
    }

    private static StoreException lost(Exception error, boolean charges) {
        // Where nothing could be reached, nothing was asked.
        var unsent = error instanceof ConnectException
            || error instanceof HttpConnectTimeoutException;
        var why = error.getMessage() == null ? error.getClass().getSimpleName()
            : error.getMessage();
        return new StoreException(why, charges && !unsent, error);
    }

    private static TollgateException refused(int status, Fields problem, boolean charges) {
        var field = problem.has("field") ? problem.text("field") : "";
        var detail = problem.has("detail") ? problem.text("detail") : "status " + status;
        if (status == 409) return new HoldException(detail, field.isEmpty());
        if (status >= 500) return new StoreException(status + ": " + detail, charges, null);
        return new ArgumentException(field, detail, status);
    }
}
