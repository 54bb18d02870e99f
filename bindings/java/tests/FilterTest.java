// The filter before a real service.

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.function.UnaryOperator;
import javax.servlet.ServletException;
import javax.servlet.http.HttpServletRequest;
import tollgate.ArgumentException;
import tollgate.ClientAddress;
import tollgate.Decision;
import tollgate.Headers;
import tollgate.Limits;
import tollgate.Question;
import tollgate.Rule;
import tollgate.Tollgate;
import tollgate.servlet.LimitFilter;

class FilterTest {
    private static LimitFilter filter(
            Tollgate tollgate, UnaryOperator<Limits<HttpServletRequest>> options) {
        return new LimitFilter(tollgate, Rule.DENY, options);
    }

    private static Servlets.Visit visit() {
        return new Servlets.Visit();
    }

    public static void theFilterAnswersByTheService() throws Exception {
        var limited = filter(Service.start().client(),
            it -> it.limits("api: 2/h").headers(Headers.BOTH));
        var server = Servlets.serve(limited);
        var client = HttpClient.newHttpClient();
        var request = HttpRequest.newBuilder(
            URI.create("http://127.0.0.1:" + server.getAddress().getPort())).build();
        var first = client.send(request, BodyHandlers.ofString());
        Tests.equal(first.body(), "hello");
        var headers = first.headers();
        Tests.equal(headers.firstValue("RateLimit").orElse(""), "\"api\";r=1;t=3600");
        Tests.equal(headers.firstValue("RateLimit-Policy").orElse(""), "\"api\";q=2;w=3600");
        Tests.equal(headers.firstValue("X-RateLimit-Remaining").orElse(""), "1");
        client.send(request, BodyHandlers.ofString());
        var denied = client.send(request, BodyHandlers.ofString());
        server.stop(0);
        Tests.equal(denied.statusCode(), 429);
        var wait = Integer.parseInt(denied.headers().firstValue("Retry-After").orElse("0"));
        Tests.holds(wait > 3500 && wait <= 3600, wait);
        Tests.equal(denied.headers().firstValue("Content-Type").orElse(""),
            "application/problem+json");
        Tests.holds(denied.body().contains("\"violated-policies\":[\"api\"]"), denied.body());
    }

    public static void policiesBansAndCosts() throws IOException {
        var service = Service.withPolicies("""
            version = 1
            match = "first"
            [[policies]]
            name = "login"
            on_failure = "deny"
            when = { path = "/login" }
            [[policies.limits]]
            subject = "ip"
            limit = "2/h"
            overrides = [{ when = { ip = "203.0.113.0/24" }, limit = "banned" }]
            [[policies]]
            name = "api"
            on_failure = "deny"
            when = { path = "/api/*" }
            cost = { from = "field.cost", max = 100, otherwise = 1 }
            limits = [{ subject = "user", absent = "deny", limit = "10/h" }]
            """);
        var limited = new LimitFilter(service.client(), Rule.ALLOW, it -> it.fields(request -> {
            var fields = new java.util.HashMap<String, String>();
            fields.put("user", request.getHeader("X-User"));
            fields.put("field.cost", request.getHeader("X-Cost"));
            return fields;
        }));
        var visits = new ArrayList<Servlets.Visit>();
        visits.add(visit().to("/"));
        for (int time = 0; time < 3; time++) visits.add(visit().to("/login"));
        visits.add(visit().to("/login").from("203.0.113.7"));
        visits.add(visit().to("/%2flogin"));
        visits.add(visit().to("/api/x"));
        visits.add(visit().to("/api/x").with("X-User", "ann").with("X-Cost", "9"));
        visits.add(visit().to("/api/x").with("X-User", "ann").with("X-Cost", "2"));
        visits.add(visit().to("/api/x").with("X-User", "ann").with("X-Cost", "11"));
        visits.add(visit().to("/login").from(null));
        var statuses = visits.stream().map(it -> it.through(limited).status).toList();
        Tests.equal(statuses, "[200, 200, 200, 429, 403, 400, 400, 200, 429, 422, 503]");
        Tests.holds(!visits.get(4).answered.containsKey("retry-after"), "a ban has no wait");
    }

    public static void nothingThatAClientSendsIsA500() throws IOException {
        var tollgate = Service.start().client();
        var behind = ClientAddress.behind("127.0.0.1");
        var byAddress = filter(tollgate,
            it -> it.limits("1000/h").client(behind).log(line -> { }));
        var byPolicy = filter(tollgate, it -> it.client(behind).log(line -> { }).fields(
            request -> Map.of("user", String.valueOf(request.getHeader("X-Key")))));
        var byKey = filter(tollgate,
            it -> it.limits("1000/h").key(request -> "key:" + request.getHeader("X-Key")));
        var byBareKey = filter(tollgate,
            it -> it.limits("1000/h").key(request -> request.getHeader("X-Key")));
        for (var value : AddressTest.hostile().keySet()) {
            var shown = value.substring(0, Math.min(value.length(), 40));
            var statuses = new ArrayList<Integer>();
            for (var limited : List.of(byAddress, byPolicy, byKey, byBareKey)) {
                statuses.add(visit().from("127.0.0.1").with("X-Forwarded-For", value)
                    .with("X-Key", value).through(limited).status);
            }
            Tests.equal(shown + " " + statuses.get(0), shown + " 200");
            for (var status : statuses) {
                Tests.holds(List.of(200, 429, 400).contains(status), shown + statuses);
            }
            if (!value.isEmpty() && value.length() < 900) {
                Tests.equal(shown + " as a key " + statuses.get(2), shown + " as a key 200");
            }
        }
    }

    public static void requestsAreCountedExactly() throws Exception {
        var limited = filter(Service.start().client(), it -> it.limits("50/h"));
        var threads = Executors.newFixedThreadPool(40);
        try {
            Callable<Integer> one = () -> visit().through(limited).status;
            int passed = 0;
            for (var status : threads.invokeAll(Collections.nCopies(200, one))) {
                passed += status.get() == 200 ? 1 : 0;
            }
            Tests.equal(passed, 50);
        } finally {
            threads.shutdownNow();
        }
    }

    public static void optionsOfTheFilter() {
        var tollgate = Service.start().client();
        var outcomes = new ArrayList<String>();
        var inner = filter(tollgate, it -> it
            .keys(request -> List.of(
                new Question.Part("user:1", "user: 3/h"),
                new Question.Part("tenant:1", "tenant: 100/h")))
            .cost(request -> request.getHeader("X-Cost") == null ? 0 : 2)
            .skip(request -> request.getRequestURI().equals("/health"))
            .headers(Headers.BOTH)
            .onDecision((request, decision) -> outcomes.add(decision.outcome())));
        inner.onDenied((request, response, refusal) -> {
            response.setStatus(418);
            response.getOutputStream().print(refusal.decision().outcome());
        });
        var outer = filter(tollgate, it -> it.headers(Headers.BOTH).limits(request -> {
            var own = request.getHeader("X-Limits");
            return own == null ? "outer: 50/h" : own;
        }));
        var both = visit().with("X-Cost", "1").through(outer, inner);
        Tests.equal(both.status, 200);
        Tests.equal(both.answered.get("RateLimit"),
            "\"outer\";r=49;t=3600, \"user\";r=1;t=3600");
        Tests.equal(both.answered.get("X-RateLimit-Remaining"), 1);
        Tests.holds(both.attributes.get(LimitFilter.DECISION) instanceof Decision, "no decision");
        var denied = visit().with("X-Cost", "1").through(outer, inner);
        Tests.equal(denied.status + " " + denied.body, "418 denied");
        Tests.holds(denied.answered.get("RateLimit").startsWith("\"outer\";r=48;t=3600, \"user\"")
            && denied.answered.containsKey("Retry-After"), denied.answered);
        Tests.equal(visit().to("/health").with("X-Cost", "1").through(inner).status, 200);
        Tests.equal(visit().through(inner).status, 200);
        Tests.equal(outcomes, "[allowed, denied]");
        var tokens = filter(tollgate, it -> it.limits("9/h, 100/h of tokens via gcra")
            .units(request -> Map.of("requests", 1L, "tokens", 60L)));
        Tests.equal(visit().through(tokens).status + " " + visit().through(tokens).status,
            "200 429");
        var own = visit().from("192.0.2.9").with("X-Limits", "1/h");
        Tests.equal(own.through(outer).status + " " + own.through(outer).status, "200 429");
        var unlimited = filter(tollgate, it -> it.limits("1/h").key(request -> null));
        visit().through(unlimited);
        Tests.equal(visit().through(unlimited).status, 200);
    }

    public static void costsByTheResponse() {
        var tollgate = Service.start().client();
        var failedLogins = filter(tollgate, it -> it.limits("logins: 2/h"))
            .refundWhen((request, status) -> status < 400);
        for (var target : List.of("/", "/", "/", "/?status=401", "/", "/?status=401")) {
            Tests.holds(visit().to(target).through(failedLogins).status != 429, target);
        }
        Tests.equal(visit().through(failedLogins).status, 429);
        var extra = filter(tollgate, it -> it.limits("bytes: 10/h via gcra"))
            .extraCost((request, status) -> 9);
        Tests.equal(visit().through(extra).status, 200);
        Tests.equal(visit().through(extra).status, 429);
    }

    public static void aMistakeOfTheSetUpIsNotTheClients() {
        var lines = new ArrayList<String>();
        var wrong = filter(Service.start().client(),
            it -> it.log(lines::add).limits("10/h via gcr"));
        for (int time = 0; time < 3; time++) Tests.equal(visit().through(wrong).status, 503);
        Tests.holds(lines.size() == 1 && lines.get(0).contains("unknown strategy `gcr`"), lines);
        var unknown = new LimitFilter(
            Service.start().client(), Rule.ALLOW, it -> it.policy("nobody's").log(line -> { }));
        Tests.equal(visit().through(unknown).status, 200);
        Tests.fails(ArgumentException.class, () -> new LimitFilter(
            Tollgate.at("http://127.0.0.1:1"), null, it -> it.limits("1/h")));
    }

    public static void aContainerMakesItByParameters() throws ServletException {
        var service = Service.start();
        var limited = new LimitFilter();
        limited.init(Servlets.parameters(Map.of("url", service.url, "onFailure", "deny",
            "limits", "1/h", "proxies", "10.0.0.0/8", "timeoutMs", "20000")));
        var behind = visit().from("10.0.0.1").with("X-Forwarded-For", "192.0.2.1");
        Tests.equal(behind.through(limited).status + " " + behind.through(limited).status,
            "200 429");
        for (var wrong : List.of(Map.of("url", service.url), Map.of("onFailure", "maybe"),
                Map.of("onFailure", "deny", "proxies", "10.0.0.1/8"))) {
            Tests.fails(ServletException.class,
                () -> new LimitFilter().init(Servlets.parameters(wrong)));
        }
    }
}
