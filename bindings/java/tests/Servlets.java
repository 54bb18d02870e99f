// A server that runs filters as a container does: requests come over HTTP, or are made by hand.

import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import javax.servlet.Filter;
import javax.servlet.FilterChain;
import javax.servlet.FilterConfig;
import javax.servlet.ServletException;
import javax.servlet.ServletOutputStream;
import javax.servlet.WriteListener;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;

/** Requests and responses of servlets, with what a filter needs of them. */
class Servlets {
    /** A request, and what became of it. */
    static class Visit {
        final Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        final Map<String, Object> attributes = new HashMap<>();
        final Map<String, String> answered = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        final ByteArrayOutputStream body = new ByteArrayOutputStream();
        String peer = "192.0.2.7";
        String method = "GET";
        String target = "/";
        int status = 200;

        Visit to(String target) {
            this.target = target;
            return this;
        }

        Visit from(String peer) {
            this.peer = peer;
            return this;
        }

        Visit with(String name, String value) {
            headers.computeIfAbsent(name, any -> new ArrayList<>()).add(value);
            return this;
        }

        /** Sends it through the filters to an application that says hello. */
        Visit through(Filter... filters) {
            try {
                chain(List.of(filters)).doFilter(request(), response());
                return this;
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            } catch (ServletException error) {
                throw new AssertionError(error);
            }
        }

        private FilterChain chain(List<Filter> filters) {
            return (request, response) -> {
                if (filters.isEmpty()) {
                    var query = target.indexOf("?status=");
                    if (query >= 0) status = Integer.parseInt(target.substring(query + 8));
                    body.writeBytes("hello".getBytes(StandardCharsets.UTF_8));
                } else {
                    filters.get(0).doFilter(
                        request, response, chain(filters.subList(1, filters.size())));
                }
            };
        }

        private HttpServletRequest request() {
            return made(HttpServletRequest.class, (proxy, method, words) -> {
                return switch (method.getName()) {
                    case "getMethod" -> this.method;
                    case "getRequestURI" -> target.split("\\?")[0];
                    case "getRemoteAddr" -> peer;
                    case "getHeaders" -> Collections.enumeration(
                        headers.getOrDefault(words[0], List.of()));
                    case "getHeader" -> headers.getOrDefault(words[0], List.of()).stream()
                        .findFirst().orElse(null);
                    case "setAttribute" -> attributes.put((String) words[0], words[1]);
                    case "isAsyncStarted" -> false;
                    default -> throw new UnsupportedOperationException(method.getName());
                };
            });
        }

        private HttpServletResponse response() {
            return made(HttpServletResponse.class, (proxy, method, words) -> {
                switch (method.getName()) {
                    case "getStatus":
                        return status;
                    case "setStatus":
                        status = (int) words[0];
                        return null;
                    case "setHeader":
                        // As a container, which takes no line ends.
                        Tests.holds(!words[1].toString().contains("\n"), words[1]);
                        answered.put((String) words[0], (String) words[1]);
                        return null;
                    case "getHeaders":
                        return answered.containsKey(words[0])
                            ? List.of(answered.get(words[0])) : List.of();
                    case "setContentType":
                        answered.put("content-type", (String) words[0]);
                        return null;
                    case "setContentLength":
                        return null;
                    case "getOutputStream":
                        return output(body);
                    default:
                        throw new UnsupportedOperationException(method.getName());
                }
            });
        }
    }

    private static <T> T made(Class<T> kind, InvocationHandler does) {
        return kind.cast(Proxy.newProxyInstance(
            Servlets.class.getClassLoader(), new Class<?>[] {kind}, does));
    }

    private static ServletOutputStream output(ByteArrayOutputStream to) {
        return new ServletOutputStream() {
            @Override
            public boolean isReady() {
                return true;
            }

            @Override
            public void setWriteListener(WriteListener listener) {
                throw new UnsupportedOperationException();
            }

            @Override
            public void write(int one) {
                to.write(one);
            }
        };
    }

    /** The parameters that a container gives a filter. */
    static FilterConfig parameters(Map<String, String> all) {
        return made(FilterConfig.class, (proxy, method, words) -> all.get(words[0]));
    }

    /** A server with filters; its address. */
    static HttpServer serve(Filter... filters) throws IOException {
        var at = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        var server = HttpServer.create(at, 0);
        server.setExecutor(Executors.newFixedThreadPool(16, work -> {
            var thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        }));
        server.createContext("/", exchange -> {
            var visit = new Visit().to(exchange.getRequestURI().toString())
                .from(exchange.getRemoteAddress().getAddress().getHostAddress());
            visit.method = exchange.getRequestMethod();
            exchange.getRequestHeaders().forEach((name, lines) -> {
                lines.forEach(line -> visit.with(name, line));
            });
            visit.through(filters);
            visit.answered.forEach(exchange.getResponseHeaders()::set);
            exchange.sendResponseHeaders(visit.status, visit.body.size());
            try (var out = exchange.getResponseBody()) {
                visit.body.writeTo(out);
            }
        });
        server.start();
        return server;
    }
}
