// The programs of docs/java.md, compiled as pasted; the one with a main method is run.

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.URLClassLoader;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;

class PageTest {
    private static final Pattern BLOCK =
        Pattern.compile("(?s)```java\n(.*?)```\n(?:```text\n(.*?)```)?");

    public static void theProgramsOfThePageWork() throws Exception {
        var service = Service.start();
        var page = Files.readString(Path.of(Service.root(), "docs/java.md"));
        var folder = Files.createTempDirectory("tollgate-page");
        var words = new ArrayList<>(List.of("-proc:none", "-Xlint:all", "-Werror", "-d",
            folder.toString(), "-cp", System.getProperty("java.class.path")));
        String printed = null;
        var found = BLOCK.matcher(page);
        while (found.find()) {
            var source = found.group(1).replace("http://127.0.0.1:8700", service.url);
            var name = source.replaceAll("(?s).*\nclass (\\w+) .*", "$1");
            words.add(Files.writeString(folder.resolve(name + ".java"), source).toString());
            if (found.group(2) != null) printed = found.group(2);
        }
        Tests.equal(words.size(), 9);
        int failed = ToolProvider.getSystemJavaCompiler()
            .run(null, System.out, System.out, words.toArray(new String[0]));
        Tests.equal(failed, 0);
        try (var loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
            Tests.equal(run(loader, "Ask"), printed);
            for (var made : List.of("perClient", "byPolicies")) {
                var method = loader.loadClass("Filters").getDeclaredMethod(made);
                method.setAccessible(true);
                Tests.equal(method.invoke(null).getClass().getName(),
                    "tollgate.jakarta.LimitFilter");
            }
        }
        try (var files = Files.list(folder)) {
            files.forEach(file -> file.toFile().delete());
        }
        Files.delete(folder);
    }

    /** What the main method of a class prints. */
    private static String run(ClassLoader loader, String name) throws Exception {
        var out = new ByteArrayOutputStream();
        var before = System.out;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        try {
            var main = loader.loadClass(name).getDeclaredMethod("main", String[].class);
            main.setAccessible(true);
            main.invoke(null, (Object) new String[0]);
        } finally {
            System.setOut(before);
        }
        return out.toString(StandardCharsets.UTF_8);
    }
}
