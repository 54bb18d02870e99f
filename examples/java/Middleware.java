// A web server in Java 17 or later that asks `tollgate serve` before each request:
//
//   TOLLGATE_URL=http://127.0.0.1:8700 PORT=8080 java Middleware.java
//
// The policies of the service decide. FAIL=open lets requests through while it does not answer.

import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;

class Middleware {
    static final String TOLLGATE = env("TOLLGATE_URL", "http://127.0.0.1:8700");

    // While there is no answer: open lets requests through uncounted, closed refuses them with 503.
    static final boolean FAIL_OPEN = env("FAIL", "closed").equals("open");

    // More than the 500 ms that the service gives its store.
    static final Duration DEADLINE = Duration.ofMillis(Long.parseLong(env("DEADLINE_MS", "750")));

    static {
        // The service closes idle connections after 60 s, Java 17 after 20 minutes. In seconds.
        System.setProperty("jdk.httpclient.keepalive.timeout", "50");
    }

    // One client for the whole server: it keeps connections. HTTP/2 is for gRPC alone.
    static final HttpClient CLIENT = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(DEADLINE)
        .build();

    /** Passes on the requests that the policies admit. */
    static class Limit extends Filter {
        @Override
        public void doFilter(HttpExchange exchange, Chain chain) throws IOException {
            HttpResponse<String> answer = null;
            try {
                answer = ask(exchange);
                tell(answer, exchange);
            } catch (IOException error) {
                System.err.println("no answer: " + error);
            }
            if (answer == null ? FAIL_OPEN : answer.statusCode() == 200) {
                chain.doFilter(exchange);
            } else if (answer == null) {
                respond(exchange, 503, "try again later\n");
            } else if (answer.statusCode() == 429) {
                respond(exchange, 429, "too many requests\n");
            } else {
                // The service does not judge this request, such as a path that can be read in two
                // ways. That is not an outage: nobody gets past a limit by sending one.
                respond(exchange, 400, "bad request\n");
            }
        }

        @Override
        public String description() {
            return "asks Tollgate before each request";
        }
    }

    // The numbers of the limit that binds, in the order of the answer. Where you have a library for
    // JSON, use that.
    static final Pattern COUNT = Pattern.compile("\"limit\":(\\d+),\"remaining\":(\\d+),");
    static final Pattern RESET = Pattern.compile("\"reset_after\":\\{\"seconds\":([\\d.]+)");

    /** Tells a client of its limit. A banned client has none, and nobody while the store is away. */
    static void tell(HttpResponse<String> answer, HttpExchange exchange) {
        var headers = exchange.getResponseHeaders();
        var wait = answer.headers().firstValue("Retry-After");
        wait.ifPresent(seconds -> headers.set("Retry-After", seconds));
        var count = COUNT.matcher(answer.body());
        var reset = RESET.matcher(answer.body());
        if (count.find() && reset.find()) {
            var seconds = (long) Math.ceil(Double.parseDouble(reset.group(1)));
            headers.set("X-RateLimit-Limit", count.group(1));
            headers.set("X-RateLimit-Remaining", count.group(2));
            headers.set("X-RateLimit-Reset", wait.orElse(Long.toString(seconds)));
        }
    }

    static HttpResponse<String> ask(HttpExchange exchange) throws IOException {
        // Behind a proxy that you trust, take the address from the header that it writes.
        var ip = exchange.getRemoteAddress().getAddress().getHostAddress();
        var host = exchange.getRequestHeaders().getFirst("Host");
        var body = "{\"fields\": {\"ip\": " + quote(ip)
            + ", \"method\": " + quote(exchange.getRequestMethod())
            + ", \"path\": " + quote(exchange.getRequestURI().getRawPath())
            + (host == null ? "" : ", \"host\": " + quote(host)) + "}}";
        var request = HttpRequest.newBuilder(URI.create(TOLLGATE + "/v1/check?deny_status=429"))
            .timeout(DEADLINE)
            .POST(BodyPublishers.ofString(body))
            .build();
        try {
            var answer = CLIENT.send(request, BodyHandlers.ofString());
            if (answer.statusCode() >= 500) {
                throw new IOException("status " + answer.statusCode());
            }
            return answer;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IOException(error);
        }
    }

    /** A text in JSON. Where you have a library for JSON, use that. */
    static String quote(String text) {
        var json = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                json.append('\\').append(each);
            } else if (each < ' ') {
                json.append(String.format("\\u%04x", (int) each));
            } else {
                json.append(each);
            }
        }
        return json.append('"').toString();
    }

    static void respond(HttpExchange exchange, int status, String text) throws IOException {
        try (exchange) {
            var body = text.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    static String env(String name, String otherwise) {
        return System.getenv().getOrDefault(name, otherwise);
    }

    public static void main(String[] args) throws IOException {
        int port = Integer.parseInt(env("PORT", "8080"));
        var local = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        var server = HttpServer.create(local, 0);
        var pages = server.createContext("/", exchange -> respond(exchange, 200, "hello\n"));
        pages.getFilters().add(new Limit());
        // Without a pool one thread serves everybody, and all wait for one question.
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.out.println("listening on " + server.getAddress().getHostString() + ":"
            + server.getAddress().getPort());
    }
}
