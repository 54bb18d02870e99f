// The client of a request, by the rules of docs/identity.md.

package tollgate;

import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Finds the client of a request. Without anything it is the other end of the connection, which
 * nothing that a client writes can change. Each method returns another one.
 */
public final class ClientAddress {
    private static final List<String> SINGLE = List.of("x-real-ip", "cf-connecting-ip");

    private final String proxies;
    private final List<Addresses.Network> networks;
    private final int hops;
    private final String header;
    private final int prefix;
    private final Set<Remark> given = EnumSet.noneOf(Remark.class);

    private enum Remark {
        UNTRUSTED("a request names its client in a header, but its peer is not a trusted proxy: "
            + "the peer's address counts. Is a proxy missing from the trusted networks?"),
        NO_HEADER("a trusted proxy sent no header with its client's address: all clients behind "
            + "it share one count. Does it write another header?"),
        UNREADABLE("an entry of the header is not an address: the last proxy before it counts"),
        ONLY_PROXIES("all entries of the header are trusted proxies: the leftmost counts. Are "
            + "clients within the trusted networks?"),
        TOO_FEW_HOPS("the header has fewer entries than there should be proxies: the leftmost "
            + "counts. Is the number of proxies right?"),
        TOO_MANY_HOPS("the header has more than 32 trusted entries: the last that was read "
            + "counts. Is there a loop of proxies?"),
        NO_ADDRESS("a request has no address of a client, as over a Unix socket, and gets a 503: "
            + "name the proxies that you trust, or give a key");

        private final String text;

        Remark(String text) {
            this.text = text;
        }
    }

    /** An address, and what is odd about how it was found. */
    private record Found(byte[] address, Remark remark) {
    }

    private ClientAddress(String proxies, int hops, String header, int prefix) {
        this.proxies = proxies;
        this.networks = proxies == null ? null : Addresses.networks(proxies);
        this.hops = hops;
        this.header = header;
        this.prefix = prefix;
    }

    /** The other end of the connection. */
    public static ClientAddress peer() {
        return new ClientAddress(null, 0, null, 64);
    }

    /** Behind proxies in these networks, such as {@code 10.0.0.0/8, 192.0.2.1}. */
    public static ClientAddress behind(String proxies) {
        return new ClientAddress(proxies, 0, "x-forwarded-for", 64);
    }

    /** Behind this number of proxies, 1 to 32. The header of any sender counts. */
    public static ClientAddress behindHops(int hops) {
        if (hops < 1 || hops > FromRight.MAX_ENTRIES) {
            var message = hops + " is not a number of proxies: give 1 to 32";
            throw new ArgumentException("hops", message, 0);
        }
        return new ClientAddress(null, hops, "x-forwarded-for", 64);
    }

    /** The header that the proxies write, in place of {@code X-Forwarded-For}. */
    public ClientAddress header(String name) {
        if (header == null) {
            var message = "a header counts only from a proxy that is trusted: name the proxies";
            throw new ArgumentException("header", message, 0);
        }
        var lower = name.toLowerCase(Locale.ROOT);
        if (hops > 0 && SINGLE.contains(lower)) {
            var message = name + " holds one address: no proxies can be counted in it";
            throw new ArgumentException("header", message, 0);
        }
        return new ClientAddress(proxies, hops, lower, prefix);
    }

    /** How many bits of an IPv6 address tell clients apart, 32 to 128; 64 without it. */
    public ClientAddress ipv6Prefix(int bits) {
        if (bits < 32 || bits > 128) {
            var message = bits + " bits tell no clients apart: give 32 to 128";
            throw new ArgumentException("ipv6Prefix", message, 0);
        }
        return new ClientAddress(proxies, hops, header, bits);
    }

    /**
     * The subject of a client, such as {@code ip:192.0.2.7}; null without an address.
     *
     * @param peer the other end of the connection; null at a Unix socket
     * @param lines the lines of a header, by its name
     * @param warn gets each likely mistake once
     */
    public String subject(
            String peer, Function<String, List<String>> lines, Consumer<String> warn) {
        var address = address(peer, lines, warn);
        return address == null ? null : "ip:" + Addresses.shown(address, prefix);
    }

    /** The whole address, for a field of policies; null without one. */
    String whole(String peer, Function<String, List<String>> lines, Consumer<String> warn) {
        var address = address(peer, lines, warn);
        return address == null ? null : Addresses.shown(address, 128);
    }

    private byte[] address(
            String peer, Function<String, List<String>> lines, Consumer<String> warn) {
        boolean isLocal = peer == null || peer.isEmpty();
        var from = isLocal ? Addresses.LOCAL : Addresses.parse(peer);
        if (from == null || isLocal && !trusts(from)) {
            say(Remark.NO_ADDRESS, warn);
            return null;
        }
        var found = find(from, lines);
        // Of this host alone there is no address to count.
        boolean isNobody = found.remark == Remark.NO_HEADER
            || found.remark == Remark.UNREADABLE && found.address == Addresses.LOCAL;
        if (isLocal && isNobody) {
            say(Remark.NO_ADDRESS, warn);
            return null;
        }
        say(found.remark, warn);
        return found.address;
    }

    private void say(Remark remark, Consumer<String> warn) {
        if (remark == null) return;
        synchronized (given) {
            if (!given.add(remark)) return;
        }
        warn.accept(remark.text);
    }

    private boolean trusts(byte[] peer) {
        if (networks == null) return hops > 0;
        return networks.stream().anyMatch(network -> network.contains(peer));
    }

    private Found find(byte[] peer, Function<String, List<String>> lines) {
        if (header == null) {
            boolean isForwarded = !lines.apply("x-forwarded-for").isEmpty()
                || !lines.apply("forwarded").isEmpty();
            return new Found(peer, isForwarded ? Remark.UNTRUSTED : null);
        }
        var given = lines.apply(header).stream().map(ClientAddress::readable).toList();
        if (!trusts(peer)) return new Found(peer, given.isEmpty() ? null : Remark.UNTRUSTED);
        if (SINGLE.contains(header)) return single(peer, given);
        var entries = new FromRight(given, header.equals("forwarded"));
        var last = peer;
        for (int place = 0; place < FromRight.MAX_ENTRIES; place++) {
            var address = entries.next();
            if (address == null && place == 0) return new Found(last, Remark.NO_HEADER);
            if (address == null) {
                return new Found(last, hops > 0 ? Remark.TOO_FEW_HOPS : Remark.ONLY_PROXIES);
            }
            if (address == FromRight.UNREADABLE) return new Found(last, Remark.UNREADABLE);
            last = address;
            if (hops > 0 ? place == hops - 1 : !trusts(last)) return new Found(last, null);
        }
        return new Found(last, Remark.TOO_MANY_HOPS);
    }

    /** A word that is no address in place of a line that no server passes on. */
    private static String readable(String line) {
        boolean isControl = line.chars().anyMatch(c -> c < ' ' && c != '\t' || c == 127);
        return isControl ? "unknown" : line;
    }

    /** A header that the proxy sets. */
    private static Found single(byte[] peer, List<String> lines) {
        if (lines.isEmpty()) return new Found(peer, Remark.NO_HEADER);
        boolean isShort = lines.size() == 1
            && lines.get(0).length() <= FromRight.MAX_ENTRY_BYTES;
        var address = isShort ? Addresses.parse(lines.get(0)) : null;
        return address == null ? new Found(peer, Remark.UNREADABLE) : new Found(address, null);
    }
}
