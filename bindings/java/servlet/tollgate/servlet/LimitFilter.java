// The filter for servlets.

package tollgate.servlet;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.function.BiPredicate;
import java.util.function.Function;
import java.util.function.ToLongBiFunction;
import javax.servlet.AsyncEvent;
import javax.servlet.AsyncListener;
import javax.servlet.Filter;
import javax.servlet.FilterChain;
import javax.servlet.FilterConfig;
import javax.servlet.ServletException;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import tollgate.ArgumentException;
import tollgate.ClientAddress;
import tollgate.Decision;
import tollgate.Limits;
import tollgate.Responses;
import tollgate.Rule;
import tollgate.Tollgate;

/**
 * Checks each request, and answers those that are not admitted.
 *
 * <pre>{@code
 * var filter = new LimitFilter(Tollgate.at("http://127.0.0.1:8700"), Rule.DENY,
 *     limits -> limits.limits("100/m"));
 * }</pre>
 *
 * <p>A container that makes it by its name reads the parameters {@code url}, {@code onFailure}
 * ({@code allow} or {@code deny}), {@code limits}, {@code policy}, {@code proxies}, {@code header}
 * and {@code timeoutMs}.
 */
public class LimitFilter implements Filter {
    /** The attribute of a request that has its {@link Decision}. */
    public static final String DECISION = "tollgate.decision";

    /** An answer of your own. The headers of the refusal are set. */
    public interface OnDenied {
        /** Answers. */
        void answer(
            HttpServletRequest request, HttpServletResponse response, Limits.Refusal refusal)
            throws IOException;
    }

    private static final class Requests implements Limits.Adapter<HttpServletRequest> {
        @Override
        public String method(HttpServletRequest request) {
            return request.getMethod();
        }

        @Override
        public String path(HttpServletRequest request) {
            return request.getRequestURI();
        }

        @Override
        public String peer(HttpServletRequest request) {
            return request.getRemoteAddr();
        }

        @Override
        public List<String> headers(HttpServletRequest request, String name) {
            var lines = request.getHeaders(name);
            return lines == null ? List.of() : Collections.list(lines);
        }
    }

    private Limits<HttpServletRequest> limits;
    private OnDenied onDenied = LimitFilter::write;
    private BiPredicate<HttpServletRequest, Integer> refundWhen;
    private ToLongBiFunction<HttpServletRequest, Integer> extraCost = (request, status) -> 0;

    /** For a container, which gives it parameters. */
    public LimitFilter() {
    }

    /** With options: {@code options} gets the limits and sets them. */
    public LimitFilter(
            Tollgate tollgate, Rule onFailure,
            Function<Limits<HttpServletRequest>, Limits<HttpServletRequest>> options) {
        limits = options.apply(new Limits<>(tollgate, onFailure, new Requests()));
    }

    /** An answer of your own to requests that are not admitted. */
    public LimitFilter onDenied(OnDenied onDenied) {
        this.onDenied = onDenied;
        return this;
    }

    /** True of the statuses of responses whose charge is given back. */
    public LimitFilter refundWhen(BiPredicate<HttpServletRequest, Integer> refundWhen) {
        this.refundWhen = refundWhen;
        limits.refunds();
        return this;
    }

    /** Units that are charged in addition after the response, also beyond the limits. */
    public LimitFilter extraCost(ToLongBiFunction<HttpServletRequest, Integer> extraCost) {
        this.extraCost = extraCost;
        return this;
    }

    @Override
    public void init(FilterConfig config) throws ServletException {
        if (limits != null) return;
        try {
            limits = fromParameters(config);
        } catch (ArgumentException error) {
            throw new ServletException("tollgate: " + error.getMessage(), error);
        }
    }

    private static Limits<HttpServletRequest> fromParameters(FilterConfig config) {
        Function<String, String> given = config::getInitParameter;
        var url = given.apply("url");
        var timeout = given.apply("timeoutMs");
        var tollgate = Tollgate.at(url == null ? "http://127.0.0.1:8700" : url,
            timeout == null ? Tollgate.DEFAULT_TIMEOUT : Duration.ofMillis(number(timeout)));
        var limits = new Limits<>(tollgate, rule(given.apply("onFailure")), new Requests());
        if (given.apply("limits") != null) limits.limits(given.apply("limits"));
        if (given.apply("policy") != null) limits.policy(given.apply("policy"));
        if (given.apply("proxies") != null) {
            var client = ClientAddress.behind(given.apply("proxies"));
            var header = given.apply("header");
            limits.client(header == null ? client : client.header(header));
        }
        return limits;
    }

    private static long number(String text) {
        return text.matches("[0-9]{1,9}") ? Long.parseLong(text) : 0;
    }

    private static Rule rule(String name) {
        if (name == null) return null;
        return switch (name.toLowerCase(Locale.ROOT)) {
            case "allow" -> Rule.ALLOW;
            case "deny" -> Rule.DENY;
            default -> null;
        };
    }

    @Override
    public void doFilter(ServletRequest any, ServletResponse answer, FilterChain chain)
            throws IOException, ServletException {
        if (!(any instanceof HttpServletRequest request)
                || !(answer instanceof HttpServletResponse response)) {
            chain.doFilter(any, answer);
            return;
        }
        var verdict = limits.judge(request);
        if (verdict.refusal() != null) {
            refuse(request, response, verdict.refusal());
            return;
        }
        var decision = verdict.decision();
        if (decision == null) {
            chain.doFilter(request, response);
            return;
        }
        if (decision.response() != null) add(response, decision.response().headers());
        request.setAttribute(DECISION, decision);
        chain.doFilter(request, response);
        if (request.isAsyncStarted()) {
            request.getAsyncContext().addListener(new AtEnd(() -> {
                settle(request, response, verdict);
            }));
        } else {
            settle(request, response, verdict);
        }
    }

    @Override
    public void destroy() {
        // A client of HTTP needs no end.
    }

    private void settle(
            HttpServletRequest request, HttpServletResponse response, Limits.Verdict verdict) {
        int status = response.getStatus();
        if (refundWhen != null && refundWhen.test(request, status)) limits.refund(verdict);
        limits.charge(verdict, extraCost.applyAsLong(request, status));
    }

    private void refuse(
            HttpServletRequest request, HttpServletResponse response, Limits.Refusal refusal)
            throws IOException {
        add(response, refusal.response().headers());
        response.setStatus(refusal.response().status());
        onDenied.answer(request, response, refusal);
    }

    private static void write(
            HttpServletRequest request, HttpServletResponse response, Limits.Refusal refusal)
            throws IOException {
        var body = refusal.response().body().getBytes(StandardCharsets.UTF_8);
        response.setContentLength(body.length);
        if (!"HEAD".equals(request.getMethod())) response.getOutputStream().write(body);
    }

    private static void add(HttpServletResponse response, List<Decision.Header> headers) {
        Responses.add(headers, name -> List.copyOf(response.getHeaders(name)),
            (name, value) -> {
                if (name.equalsIgnoreCase("content-type")) {
                    response.setContentType(value);
                } else {
                    response.setHeader(name, value);
                }
            });
    }

    /** Does something when an asynchronous response has ended. */
    private record AtEnd(Runnable what) implements AsyncListener {
        @Override
        public void onComplete(AsyncEvent event) {
            what.run();
        }

        @Override
        public void onTimeout(AsyncEvent event) {
            // It is completed afterwards.
        }

        @Override
        public void onError(AsyncEvent event) {
            // It is completed afterwards.
        }

        @Override
        public void onStartAsync(AsyncEvent event) {
            // The listener stays for the first one.
        }
    }
}
