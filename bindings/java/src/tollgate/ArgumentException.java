// A question that makes no sense.

package tollgate;

/** A question that makes no sense, or that the service takes from no caller. */
public final class ArgumentException extends TollgateException {
    private static final long serialVersionUID = 1;

    private final String field;
    private final int status;

    ArgumentException(String field, String message, int status) {
        super(field.isEmpty() ? message : field + ": " + message, null);
        this.field = field;
        this.status = status;
    }

    /** The place in the question, such as {@code limit}; empty where none is named. */
    public String field() {
        return field;
    }

    /** The status of HTTP; 0 where nothing was asked. */
    public int status() {
        return status;
    }
}
