// A hold that is not open.

package tollgate;

/** A hold that is not open: it has ended, was released or reset, or never was. */
public final class HoldException extends TollgateException {
    private static final long serialVersionUID = 1;

    private final boolean full;

    HoldException(String message, boolean full) {
        super(message, null);
        this.full = full;
    }

    /** Whether the count has as many holds as it can have. */
    public boolean isFull() {
        return full;
    }
}
