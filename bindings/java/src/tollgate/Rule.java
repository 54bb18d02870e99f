// The failure rule.

package tollgate;

import java.util.Locale;

/** What happens without a decision. */
public enum Rule {
    /** Requests pass uncounted. */
    ALLOW,
    /** Requests get a 503. */
    DENY;

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
