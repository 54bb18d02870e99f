// A `tollgate serve` of a test, which ends with it.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import tollgate.Tollgate;

class Service {
    private static final List<Process> RUNNING = new ArrayList<>();
    private static final AtomicInteger NEXT = new AtomicInteger();

    final Process process;
    final String url;

    private Service(Process process, String url) {
        this.process = process;
        this.url = url;
    }

    /** Starts one, at a free port unless {@code listen} has one. */
    static Service start(String listen, String... options) {
        var words = new ArrayList<>(List.of(program(), "serve", "--listen", listen,
            "--admin", "off", "--log-denials", "off"));
        words.addAll(List.of(options));
        try {
            var process = new ProcessBuilder(words)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
            RUNNING.add(process);
            var lines = new BufferedReader(new InputStreamReader(process.getInputStream()));
            for (var line = lines.readLine(); line != null; line = lines.readLine()) {
                if (!line.startsWith("listening")) continue;
                // It prints few lines more, which fit into the pipe.
                return new Service(process, line.substring("listening".length()).strip());
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        throw new AssertionError("the service did not start");
    }

    static Service start() {
        return start("127.0.0.1:0");
    }

    /** One with this policy file. */
    static Service withPolicies(String text) throws IOException {
        var file = Files.createTempFile("policies", ".toml");
        file.toFile().deleteOnExit();
        Files.writeString(file, text);
        return start("127.0.0.1:0", "--config", file.toString());
    }

    /** A client in no hurry: a machine that is busy is slow. */
    Tollgate client() {
        return Tollgate.at(url, Duration.ofSeconds(20));
    }

    /** Ends it as a crash does. */
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    static void endAll() {
        RUNNING.forEach(Process::destroyForcibly);
        RUNNING.clear();
    }

    static String program() {
        var named = System.getenv("TOLLGATE_BIN");
        if (named != null) return named;
        var built = Path.of(root(), "target/debug/tollgate");
        if (Files.exists(built)) return built.toString();
        throw new AssertionError("TOLLGATE_BIN names no program: cargo build -p tollgate-cli");
    }

    /** The folder of the project. */
    static String root() {
        return System.getProperty("tollgate.root", ".");
    }

    static int freePort() {
        try (var socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A subject that no other test has. */
    static String unique() {
        return "user:" + NEXT.incrementAndGet();
    }
}
