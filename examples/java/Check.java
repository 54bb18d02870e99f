// Asks `tollgate serve` over HTTP, with Java 17 or later and nothing else:
//
//   TOLLGATE_URL=http://127.0.0.1:8700 java Check.java user:42
//
// Exit code 0: admitted, 1: denied, 2: no answer.

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;

class Check {
    static {
        // The service closes idle connections after 60 s, Java 17 after 20 minutes. In seconds.
        System.setProperty("jdk.httpclient.keepalive.timeout", "50");
    }

    // One client for the whole program: it keeps connections. HTTP/2 is for gRPC alone.
    static final HttpClient CLIENT = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(Duration.ofSeconds(5))
        .build();

    /** Charges one unit to the count of the subject when the limit admits it: 200, else 429. */
    static HttpResponse<String> check(String url, String subject, String limit)
            throws IOException, InterruptedException {
        var body = "{\"subject\": " + quote(subject) + ", \"limit\": " + quote(limit) + "}";
        var request = HttpRequest.newBuilder(URI.create(url + "/v1/check?deny_status=429"))
            .timeout(Duration.ofSeconds(5))
            .POST(BodyPublishers.ofString(body))
            .build();
        // Java sends no POST a second time by itself, so nothing is charged twice.
        return CLIENT.send(request, BodyHandlers.ofString());
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

    public static void main(String[] args) throws InterruptedException {
        if (args.length != 1) {
            System.err.println("usage: java Check.java SUBJECT");
            System.exit(2);
        }
        var url = System.getenv().getOrDefault("TOLLGATE_URL", "http://127.0.0.1:8700");
        try {
            var response = check(url, args[0], "3/h");
            switch (response.statusCode()) {
                case 200 -> System.out.println("admitted");
                case 429 -> {
                    // Without this header no wait would help.
                    var wait = response.headers().firstValue("Retry-After");
                    System.out.println("denied: " + wait.map(it -> "retry in " + it + " s")
                        .orElse("no wait would help"));
                    System.exit(1);
                }
                // A mistake in the question, or no answer.
                default -> throw new IOException(response.statusCode() + " " + response.body());
            }
        } catch (IOException error) {
            // Here the caller decides: to go on uncounted, or not to.
            System.err.println("no answer: " + error);
            System.exit(2);
        }
    }
}
