// Asks `tollgate serve --resp` with Jedis 7.4 or later, whose jars lie in a folder:
//
//   REDIS_URL=redis://127.0.0.1:6380 java -cp 'jars/*' Throttle.java user:42
//
// Exit code 0: admitted, 1: denied, 2: no answer. The password is part of the URL: redis://:PASSWORD@...

import java.nio.charset.StandardCharsets;
import java.util.List;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisException;

class Throttle {
    static final ProtocolCommand THROTTLE = () -> "CL.THROTTLE".getBytes(StandardCharsets.US_ASCII);

    /** Charges one unit to the count of the subject: 3 at once, 2 in an hour. */
    static List<?> throttle(RedisClient client, String subject) {
        var command = new CommandArguments(THROTTLE).key(subject).add(2).add(2).add(3600);
        return (List<?>) client.executeCommand(command);
    }

    public static void main(String[] args) {
        if (args.length != 1) {
            System.err.println("usage: java Throttle.java SUBJECT");
            System.exit(2);
        }
        var url = System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380");
        // One client for the whole program: it keeps connections, waits at most 2 s, and sends
        // nothing twice.
        try (var client = RedisClient.create(url)) {
            var answer = throttle(client, args[0]);
            if (answer.get(0).equals(1L)) {
                System.out.println("denied: retry in " + answer.get(3) + " s");
                System.exit(1);
            }
            System.out.println("admitted: " + answer.get(2) + " of " + answer.get(1) + " remain");
        } catch (JedisException error) {
            // Here the caller decides: to go on uncounted, or not to.
            System.err.println("no answer: " + error);
            System.exit(2);
        }
    }
}
