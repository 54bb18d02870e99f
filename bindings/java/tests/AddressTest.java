// The client of a request, by the vectors that every language of Tollgate reads.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import tollgate.ArgumentException;
import tollgate.ClientAddress;

class AddressTest {
    private static List<String> lines(String name) throws IOException {
        return Files.readAllLines(Path.of(Service.root(), "vectors", name)).stream()
            .filter(line -> !line.isEmpty() && !line.startsWith("#")).toList();
    }

    private static ClientAddress made(String options) {
        var read = new HashMap<String, String>();
        for (var option : options.split(";")) {
            var pair = option.strip().split("=", 2);
            if (pair.length == 2) read.put(pair[0], pair[1]);
        }
        var client = ClientAddress.peer();
        if (read.containsKey("proxies")) client = ClientAddress.behind(read.remove("proxies"));
        if (read.containsKey("hops")) {
            client = ClientAddress.behindHops(Integer.parseInt(read.remove("hops")));
        }
        if (read.containsKey("header")) client = client.header(read.remove("header"));
        if (read.containsKey("ipv6_prefix")) {
            client = client.ipv6Prefix(Integer.parseInt(read.remove("ipv6_prefix")));
        }
        Tests.holds(read.isEmpty(), read);
        return client;
    }

    public static void clientsAreFoundAsTheVectorsState() throws IOException {
        ClientAddress client = null;
        int count = 0;
        for (var line : lines("clients.txt")) {
            if (line.startsWith("clients:")) {
                client = made(line.substring("clients:".length()));
                continue;
            }
            var parts = line.split(" -> ");
            var request = parts[0].split(" \\| ");
            var headers = new HashMap<String, List<String>>();
            for (int place = 1; place < request.length; place++) {
                var pair = request[place].split(": ", 2);
                headers.computeIfAbsent(pair[0].toLowerCase(Locale.ROOT), any -> new ArrayList<>())
                    .add(pair[1]);
            }
            var peer = request[0].equals("none") ? null : request[0];
            var found = client.subject(
                peer, name -> headers.getOrDefault(name, List.of()), warning -> { });
            var expected = parts[1].equals("none") ? null : parts[1];
            Tests.equal(line + ": " + found, line + ": " + expected);
            count++;
        }
        Tests.holds(count >= 53, count);
    }

    /** The hostile values of the shared file, each with its subject. */
    static Map<String, String> hostile() throws IOException {
        var all = new LinkedHashMap<String, String>();
        for (var line : lines("hostile.txt")) {
            var parts = line.split(" -> ");
            var written = parts[0].split(" ", 2);
            all.put(unquoted(written[1]).repeat(Integer.parseInt(written[0])), parts[1]);
        }
        Tests.holds(all.size() >= 40, all.size());
        return all;
    }

    private static String unquoted(String json) {
        var out = new StringBuilder();
        for (int at = 1; at < json.length() - 1; at++) {
            char each = json.charAt(at);
            if (each != '\\') {
                out.append(each);
                continue;
            }
            switch (json.charAt(++at)) {
                case 'n' -> out.append('\n');
                case 'r' -> out.append('\r');
                case 'u' -> {
                    out.append((char) Integer.parseInt(json.substring(at + 1, at + 5), 16));
                    at += 4;
                }
                default -> out.append(json.charAt(at));
            }
        }
        return out.toString();
    }

    public static void hostileValuesAreTheSameClientAsInEveryLanguage() throws IOException {
        var client = ClientAddress.behind("127.0.0.1");
        hostile().forEach((value, expected) -> {
            var found = client.subject("127.0.0.1", name -> List.of(value), warning -> { });
            var shown = value.substring(0, Math.min(value.length(), 40)) + " is ";
            Tests.equal(shown + found, shown + expected);
        });
    }

    public static void eachMistakeIsSaidOnce() {
        var said = new ArrayList<String>();
        var client = ClientAddress.behind("10.0.0.0/8");
        for (int time = 0; time < 3; time++) {
            client.subject("192.0.2.7", name -> List.of("garbage"), said::add);
            client.subject("10.0.0.1", name -> List.of(), said::add);
            client.subject("10.0.0.1", name -> List.of("garbage"), said::add);
            client.subject(null, name -> List.of(), said::add);
        }
        Tests.equal(said.size(), 4);
    }

    public static void anOptionThatIsWrongIsNamed() {
        Map<String, Tests.Call> wrong = Map.of(
            "proxies", () -> ClientAddress.behind("10.0.0.1/8"),
            "hops", () -> ClientAddress.behindHops(33),
            "header", () -> ClientAddress.peer().header("X-Real-IP"),
            "ipv6Prefix", () -> ClientAddress.peer().ipv6Prefix(16));
        wrong.forEach((field, call) -> {
            Tests.equal(Tests.fails(ArgumentException.class, call).field(), field);
        });
        for (var text : List.of("", "10.0.0.1:80", "10.0.0.0/33", "::1/129", "x", "fe80::1%a")) {
            Tests.fails(ArgumentException.class, () -> ClientAddress.behind(text));
        }
    }
}
