// Headers to which proxies append, read from the right and only as far as needed.

package tollgate;

import java.util.List;

/** The entries of all lines of one header, from the right. */
final class FromRight {
    /** No request passes through more proxies. */
    static final int MAX_ENTRIES = 32;

    static final int MAX_ENTRY_BYTES = 512;

    /** In place of an address, for an entry that cannot be read. */
    static final byte[] UNREADABLE = {};

    private static final String TOKEN = "[0-9A-Za-z!#$%&'*+.^_`|~-]";

    private final List<String> lines;
    private final boolean forwarded;
    private int next;
    private String line;

    FromRight(List<String> lines, boolean forwarded) {
        this.lines = lines;
        this.forwarded = forwarded;
        this.next = lines.size();
    }

    /** The next address, {@link #UNREADABLE}, or null at the end. */
    byte[] next() {
        // Empty entries are skipped (RFC 9110, 5.6.1), but their number is bounded too.
        for (int count = 0; count < MAX_ENTRIES; count++) {
            if (line == null) {
                if (next == 0) return null;
                line = lines.get(--next);
            }
            int tail = Math.max(0, line.length() - MAX_ENTRY_BYTES - 1);
            int comma = lastComma(line, tail);
            if (comma < 0 && tail > 0) {
                line = null;
                return UNREADABLE;
            }
            var entry = line.substring(comma + 1);
            line = comma < 0 ? null : line.substring(0, comma);
            if (entry.isBlank()) continue;
            var address = forwarded ? forwardedFor(entry) : Addresses.parse(entry);
            return address == null ? UNREADABLE : address;
        }
        return UNREADABLE;
    }

    /** The place of the last comma from {@code tail} on, outside of quotes; -1 without one. */
    private int lastComma(String text, int tail) {
        // From the right, so that an open quote of the client on the left cannot include what a
        // proxy appended.
        boolean quoted = false;
        for (int at = text.length() - 1; at >= tail; at--) {
            char each = text.charAt(at);
            if (each == ',' && !quoted) return at;
            if (each != '"' || !forwarded) continue;
            int slashes = 0;
            while (at - slashes > tail && text.charAt(at - slashes - 1) == '\\') slashes++;
            // Within quotes, a quote after a backslash is part of the text.
            if (!quoted || slashes % 2 == 0) quoted = !quoted;
        }
        return -1;
    }

    /** The address of an element such as {@code for=192.0.2.60;proto=http}; null without one. */
    private static byte[] forwardedFor(String element) {
        var rest = element.strip();
        byte[] found = null;
        while (true) {
            int equals = rest.indexOf('=');
            if (equals < 0) return null;
            var name = rest.substring(0, equals).stripLeading();
            if (!name.matches(TOKEN + "+")) return null;
            var value = new StringBuilder();
            int end = value(rest, equals + 1, value);
            if (end < 0) return null;
            if (name.equalsIgnoreCase("for")) {
                if (found != null) return null;
                found = Addresses.parse(value.toString());
                if (found == null) return null;
            }
            rest = rest.substring(end).stripLeading();
            if (rest.isEmpty()) return found;
            if (rest.charAt(0) != ';') return null;
            rest = rest.substring(1);
            // Some proxies write `for=1.2.3.4;`.
            if (rest.isBlank()) return found;
        }
    }

    /** Reads a token or a quoted text, and returns the place after it; -1 where it is neither. */
    private static int value(String text, int begin, StringBuilder value) {
        int at = begin;
        if (at >= text.length() || text.charAt(at) != '"') {
            // `:` and brackets should be quoted, but often are not; they do not separate.
            while (at < text.length() && isInToken(text.charAt(at))) at++;
            value.append(text, begin, at);
            return at > begin ? at : -1;
        }
        for (at++; at < text.length(); at++) {
            char each = text.charAt(at);
            if (each == '"') return at + 1;
            if (each == '\\' && ++at == text.length()) return -1;
            value.append(text.charAt(at));
        }
        return -1;
    }

    private static boolean isInToken(char each) {
        return ":[]".indexOf(each) >= 0 || String.valueOf(each).matches(TOKEN);
    }
}
