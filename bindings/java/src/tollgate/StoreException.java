// No decision.

package tollgate;

/** There is no decision: the service did not answer, or its store did not. */
public final class StoreException extends TollgateException {
    private static final long serialVersionUID = 1;

    private final boolean ambiguous;

    StoreException(String message, boolean ambiguous, Throwable cause) {
        super(message, cause);
        this.ambiguous = ambiguous;
    }

    /** Whether the units may have been charged nevertheless, as after a lost answer. */
    public boolean isAmbiguous() {
        return ambiguous;
    }
}
