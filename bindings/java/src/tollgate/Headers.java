// The headers of responses.

package tollgate;

import java.util.Locale;

/** The headers that tell a client about its limits. */
public enum Headers {
    /** {@code RateLimit-Policy} and {@code RateLimit}, of the draft of the IETF. */
    DRAFT,
    /** {@code X-RateLimit-Limit}, {@code -Remaining} and {@code -Reset}. */
    LEGACY,
    /** All five. */
    BOTH,
    /** None. */
    NONE;

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
