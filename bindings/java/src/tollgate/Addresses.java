// Addresses and networks, read as docs/identity.md says.

package tollgate;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Addresses as bytes, 4 or 16 of them. IPv4 in IPv6 is IPv4. */
final class Addresses {
    static final byte[] LOCAL = {127, 0, 0, 1};

    private static final int MAX_ZONE_BYTES = 64;

    private Addresses() {
    }

    /** Addresses that begin with the same bits. */
    record Network(byte[] first, int bits) {
        boolean contains(byte[] address) {
            return address.length == first.length
                && Arrays.equals(masked(address, bits), first);
        }
    }

    /**
     * An address as headers write it: with a port, in brackets, with a zone; no names, no shortened
     * or octal IPv4. Null for any other text.
     */
    static byte[] parse(String written) {
        var text = written.strip();
        if (text.startsWith("[")) {
            int close = text.indexOf(']');
            if (close < 0) return null;
            var after = text.substring(close + 1);
            boolean ends = after.isEmpty() || after.charAt(0) == ':' && isPort(after.substring(1));
            return ends ? parseV6(text.substring(1, close)) : null;
        }
        int colon = text.indexOf(':');
        if (colon < 0) return parseV4(text);
        if (text.indexOf(':', colon + 1) >= 0) return parseV6(text);
        return isPort(text.substring(colon + 1)) ? parseV4(text.substring(0, colon)) : null;
    }

    /** Whether it is one, including one that is obfuscated as RFC 7239 allows: {@code _x}. */
    private static boolean isPort(String text) {
        if (text.startsWith("_")) return text.matches("_[0-9A-Za-z._-]+");
        return text.matches("[0-9]{1,5}") && Integer.parseInt(text) <= 0xffff;
    }

    private static byte[] parseV4(String text) {
        var parts = text.split("\\.", -1);
        if (parts.length != 4) return null;
        var address = new byte[4];
        for (int place = 0; place < 4; place++) {
            if (!parts[place].matches("0|[1-9][0-9]{0,2}")) return null;
            int part = Integer.parseInt(parts[place]);
            if (part > 255) return null;
            address[place] = (byte) part;
        }
        return address;
    }

    private static byte[] parseV6(String written) {
        var text = written;
        int percent = text.indexOf('%');
        if (percent >= 0) {
            var zone = text.substring(percent + 1);
            if (zone.length() > MAX_ZONE_BYTES || !zone.matches("[!-~]+")) return null;
            text = text.substring(0, percent);
        }
        int gap = text.indexOf("::");
        if (gap >= 0 && text.indexOf("::", gap + 1) >= 0) return null;
        var address = new byte[16];
        if (gap < 0) return fill(address, text, true) == 16 ? unmapped(address) : null;
        var right = new byte[16];
        int before = fill(address, text.substring(0, gap), false);
        int after = fill(right, text.substring(gap + 2), true);
        // The gap stands for one group of zeros at least.
        if (before < 0 || after < 0 || before + after > 14) return null;
        System.arraycopy(right, 0, address, 16 - after, after);
        return unmapped(address);
    }

    /** Writes groups from the left, and returns how many bytes; -1 for other texts. */
    private static int fill(byte[] address, String text, boolean mayEndWithV4) {
        if (text.isEmpty()) return 0;
        var groups = text.split(":", -1);
        int at = 0;
        for (int place = 0; place < groups.length; place++) {
            var group = groups[place];
            if (mayEndWithV4 && place == groups.length - 1 && group.indexOf('.') >= 0) {
                var v4 = parseV4(group);
                if (v4 == null || at > 12) return -1;
                System.arraycopy(v4, 0, address, at, 4);
                return at + 4;
            }
            if (at > 14 || !group.matches("[0-9A-Fa-f]{1,4}")) return -1;
            int bits = Integer.parseInt(group, 16);
            address[at++] = (byte) (bits >> 8);
            address[at++] = (byte) bits;
        }
        return at;
    }

    private static byte[] unmapped(byte[] address) {
        for (int place = 0; place < 10; place++) {
            if (address[place] != 0) return address;
        }
        boolean isMapped = address[10] == -1 && address[11] == -1;
        return isMapped ? Arrays.copyOfRange(address, 12, 16) : address;
    }

    private static byte[] masked(byte[] address, int bits) {
        var masked = address.clone();
        for (int place = 0; place < masked.length; place++) {
            int kept = Math.max(0, Math.min(8, bits - place * 8));
            masked[place] &= (byte) (0xff << (8 - kept));
        }
        return masked;
    }

    /** Networks and addresses with commas between them. */
    static List<Network> networks(String text) {
        var all = new ArrayList<Network>();
        for (var part : text.split(",", -1)) {
            var word = part.strip();
            int slash = word.indexOf('/');
            var address = word.startsWith("[") || word.indexOf('%') >= 0 ? null
                : parse(slash < 0 ? word : word.substring(0, slash));
            boolean isV6 = word.indexOf(':') >= 0;
            int most = isV6 ? 128 : 32;
            var written = slash < 0 ? Integer.toString(most) : word.substring(slash + 1);
            boolean isPrefix = written.matches("[0-9]{1,3}")
                && Integer.parseInt(written) <= most;
            boolean hasPort = word.matches("[^:]*:[^:]*");
            if (address == null || !isPrefix || hasPort) {
                throw new ArgumentException("proxies",
                    "`" + word + "` is not a network: write 10.0.0.0/8 or 192.0.2.1", 0);
            }
            int bits = Integer.parseInt(written) - (isV6 && address.length == 4 ? 96 : 0);
            if (bits < 0 || !Arrays.equals(masked(address, bits), address)) {
                throw new ArgumentException("proxies",
                    "`" + word + "` has bits beyond its prefix", 0);
            }
            all.add(new Network(address, bits));
        }
        return List.copyOf(all);
    }

    /** The address as it is counted: IPv6 by its network. */
    static String shown(byte[] address, int ipv6Prefix) {
        if (address.length == 4) {
            return (address[0] & 255) + "." + (address[1] & 255) + "." + (address[2] & 255) + "."
                + (address[3] & 255);
        }
        var text = shownV6(masked(address, ipv6Prefix));
        return ipv6Prefix == 128 ? text : text + "/" + ipv6Prefix;
    }

    /** As RFC 5952 says: the longest run of zeros, the first of equals, is {@code ::}. */
    private static String shownV6(byte[] address) {
        int begin = -1;
        int length = 1;
        for (int from = 0; from < 8; from++) {
            int to = from;
            while (to < 8 && address[2 * to] == 0 && address[2 * to + 1] == 0) to++;
            if (to - from > length) {
                begin = from;
                length = to - from;
            }
        }
        var out = new StringBuilder();
        for (int group = 0; group < 8; group++) {
            if (group == begin) {
                out.append("::");
                group += length - 1;
                continue;
            }
            if (!out.isEmpty() && out.charAt(out.length() - 1) != ':') out.append(':');
            out.append(new BigInteger(1, Arrays.copyOfRange(address, 2 * group, 2 * group + 2))
                .toString(16));
        }
        return out.toString();
    }
}
