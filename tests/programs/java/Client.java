import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;

import org.openziti.Ziti;
import org.openziti.ZitiContext;

/**
 * `enroll TOKEN KEPT` enrolls with the token in a file and stores the identity in another file.
 * `list KEPT SERVICE` logs in with the identity and prints its services, once the named one is among them.
 */
public class Client {
    private static final char[] PASSWORD = {};
    private static final long SECONDS = 60;

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "enroll" -> enroll(Path.of(arguments[1]), arguments[2]);
            case "list" -> list(arguments[1], arguments[2]);
            default -> System.exit(2);
        }
        System.exit(0);
    }

    private static void enroll(Path token, String kept) throws Exception {
        KeyStore keys = KeyStore.getInstance("PKCS12");
        keys.load(null, PASSWORD);
        Ziti.enroll(keys, Files.readAllBytes(token), "java");
        try (FileOutputStream out = new FileOutputStream(kept)) {
            keys.store(out, PASSWORD);
        }
    }

    private static void list(String kept, String service) throws Exception {
        ZitiContext context = Ziti.newContext(kept, PASSWORD);
        String known = "";
        for (long end = System.nanoTime() + SECONDS * 1_000_000_000L; System.nanoTime() < end && !known.contains(service); ) {
            Thread.sleep(200);
            StringWriter text = new StringWriter();
            context.dump(text);
            known = text.toString();
        }
        System.out.println(known);
        context.destroy();
    }
}
