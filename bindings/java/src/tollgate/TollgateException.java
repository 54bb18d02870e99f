// The base of the exceptions.

package tollgate;

/** The base of all exceptions of this package. A denial is a {@link Decision}. */
public abstract class TollgateException extends RuntimeException {
    private static final long serialVersionUID = 1;

    TollgateException(String message, Throwable cause) {
        super(message, cause);
    }
}
