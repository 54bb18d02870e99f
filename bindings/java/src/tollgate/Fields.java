// The fields of an answer.

package tollgate;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An object of JSON; a field that is not there reads as nothing. */
record Fields(Map<String, Object> all) {
    /** The object of a value; without fields for any other value. */
    @SuppressWarnings("unchecked") // Json makes maps with names that are texts
    static Fields of(Object value) {
        return new Fields(value instanceof Map ? (Map<String, Object>) value : Map.of());
    }

    boolean has(String name) {
        return all.get(name) != null;
    }

    String text(String name) {
        return all.get(name) instanceof String text ? text : null;
    }

    boolean flag(String name) {
        return Boolean.TRUE.equals(all.get(name));
    }

    long number(String name) {
        return number(all.get(name));
    }

    private static long number(Object value) {
        return value instanceof BigDecimal number ? number.longValue() : 0;
    }

    /** A time from now; null where there is none. */
    Duration time(String name) {
        var seconds = Fields.of(all.get(name)).all.get("seconds");
        if (!(seconds instanceof BigDecimal exact)) return null;
        var us = exact.movePointRight(6).setScale(0, RoundingMode.CEILING);
        return Duration.of(us.longValue(), ChronoUnit.MICROS);
    }

    Instant instant(String name) {
        if (!has(name)) return null;
        return Instant.EPOCH.plus(number(name), ChronoUnit.MICROS);
    }

    List<?> list(String name) {
        return all.get(name) instanceof List<?> list ? list : List.of();
    }

    List<Fields> objects(String name) {
        return list(name).stream().map(Fields::of).toList();
    }

    List<Long> numbers(String name) {
        return list(name).stream().map(Fields::number).toList();
    }

    /** A number of requests, or an amount of each unit. */
    Map<String, Long> units(String name) {
        if (!(all.get(name) instanceof Map<?, ?> amounts)) return Map.of("requests", number(name));
        var units = new LinkedHashMap<String, Long>();
        amounts.forEach((unit, amount) -> units.put(unit.toString(), number(amount)));
        return units;
    }
}
