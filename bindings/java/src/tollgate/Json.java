// The JSON of questions and answers: the JDK has none.

package tollgate;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes JSON: null, Boolean, BigDecimal, String, List and Map. */
final class Json {
    /** An answer is far flatter. */
    private static final int MAX_DEPTH = 32;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The value of a text; null where it is not JSON. */
    static Object read(String text) {
        var json = new Json(text);
        try {
            var value = json.value(0);
            json.blanks();
            return json.at == text.length() ? value : null;
        } catch (IndexOutOfBoundsException | IllegalArgumentException error) {
            return null;
        }
    }

    static String write(Object value) {
        var out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            out.append('{');
            map.forEach((name, each) -> {
                out.append(out.charAt(out.length() - 1) == '{' ? "" : ",");
                quote(name.toString(), out);
                out.append(':');
                write(each, out);
            });
            out.append('}');
        } else if (value instanceof List<?> list) {
            out.append('[');
            for (var each : list) {
                out.append(out.charAt(out.length() - 1) == '[' ? "" : ",");
                write(each, out);
            }
            out.append(']');
        } else if (value instanceof String string) {
            quote(string, out);
        } else {
            out.append(value);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                out.append('\\').append(each);
            } else if (each < ' ') {
                out.append(String.format("\\u%04x", (int) each));
            } else {
                out.append(each);
            }
        }
        out.append('"');
    }

    private Object value(int depth) {
        if (depth > MAX_DEPTH) throw new IllegalArgumentException();
        blanks();
        char first = text.charAt(at);
        return switch (first) {
            case '{' -> object(depth);
            case '[' -> list(depth);
            case '"' -> string();
            case 't' -> word("true", Boolean.TRUE);
            case 'f' -> word("false", Boolean.FALSE);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object(int depth) {
        var read = new LinkedHashMap<String, Object>();
        at++;
        if (ends('}')) return read;
        do {
            blanks();
            var name = string();
            expect(':');
            read.put(name, value(depth + 1));
        } while (goesOn('}'));
        return read;
    }

    private List<Object> list(int depth) {
        var read = new ArrayList<Object>();
        at++;
        if (ends(']')) return read;
        do {
            read.add(value(depth + 1));
        } while (goesOn(']'));
        return read;
    }

    private boolean ends(char end) {
        blanks();
        if (text.charAt(at) != end) return false;
        at++;
        return true;
    }

    /** Whether a comma follows, and not the end. */
    private boolean goesOn(char end) {
        if (ends(end)) return false;
        expect(',');
        return true;
    }

    private void expect(char sign) {
        blanks();
        if (text.charAt(at++) != sign) throw new IllegalArgumentException();
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) throw new IllegalArgumentException();
        at += word.length();
        return value;
    }

    private BigDecimal number() {
        int begin = at;
        while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) at++;
        return new BigDecimal(text.substring(begin, at));
    }

    private String string() {
        if (text.charAt(at++) != '"') throw new IllegalArgumentException();
        var out = new StringBuilder();
        for (char each = text.charAt(at++); each != '"'; each = text.charAt(at++)) {
            out.append(each == '\\' ? escaped() : each);
        }
        return out.toString();
    }

    private char escaped() {
        char each = text.charAt(at++);
        return switch (each) {
            case 'n' -> '\n';
            case 't' -> '\t';
            case 'r' -> '\r';
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'u' -> {
                at += 4;
                yield (char) Integer.parseInt(text.substring(at - 4, at), 16);
            }
            default -> each;
        };
    }
}
