import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.security.Permission;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarFile;
import java.util.stream.Stream;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;

/**
 * Prints as JSON what only Kafka's classes know: the definitions of configuration keys, the features, and the usage of the
 * command-line tools. Run by jars.py with the jars of any version from 4.0, so it looks up by name what has moved.
 */
public class Tables {
    private static final Map<String, String> DEFINITIONS = Map.of(
        "broker", "org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF",
        "topic", "org.apache.kafka.storage.internals.log.LogConfig.configDefCopy",
        "group", "org.apache.kafka.coordinator.group.GroupConfig.CONFIG_DEF|configDef|CONFIG",
        "client-metrics", "org.apache.kafka.server.metrics.ClientMetricsConfigs.configDef");

    /** A tool must not end this process: some end it themselves, others through a class of Kafka's that moves. */
    @SuppressWarnings("removal")
    private static class Staying extends SecurityManager {
        @Override
        public void checkExit(int status) {
            throw new Ended();
        }

        @Override
        public void checkPermission(Permission permission) {
        }
    }

    private static class Ended extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("configs", configs());
        found.put("features", features());
        found.put("tools", tools());
        output.println(json(found));
        output.flush();
        Runtime.getRuntime().halt(0);  // a tool may have left a thread
    }

    private static Map<String, Object> configs() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<String, String> each : DEFINITIONS.entrySet()) {
            Map<String, Object> keys = new TreeMap<>();
            for (ConfigKey key : definition(each.getValue()).configKeys().values()) {
                Map<String, Object> facts = new LinkedHashMap<>();
                facts.put("type", key.type.name());
                facts.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
                facts.put("valid", key.validator == null ? null : text(key.validator));
                facts.put("internal", key.internalConfig);
                keys.put(key.name, facts);
            }
            found.put(each.getKey(), keys);
        }
        return found;
    }

    /** A validator without words of its own is the name of its class, and the number of its lambda is another each time. */
    private static String text(Object validator) {
        String said = validator.toString();
        return said.contains("@") || said.contains("$$Lambda") ? "checked" : said;
    }

    private static ConfigDef definition(String place) throws Exception {
        int dot = place.lastIndexOf('.');
        Class<?> type = Class.forName(place.substring(0, dot));
        for (String name : place.substring(dot + 1).split("\\|")) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return (ConfigDef) field.get(null);
                }
            }
            for (Method method : type.getMethods()) {
                if (method.getName().equals(name)) {
                    return (ConfigDef) method.invoke(null);
                }
            }
        }
        throw new IllegalStateException("Kafka has moved " + place);
    }

    /** The least level, the highest one of a production cluster, and the highest of all. */
    private static Map<String, Object> features() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        Class<?> type = Class.forName("org.apache.kafka.server.common.Feature");
        for (Object each : type.getEnumConstants()) {
            String name = type.getMethod("featureName").invoke(each).toString();
            if (!name.contains("test.feature")) {
                found.put(name, Stream.of("minimumProduction", "latestProduction", "latestTesting")
                    .map(method -> levelOf(type, each, method)).toList());
            }
        }
        Class<?> metadata = Class.forName("org.apache.kafka.server.common.MetadataVersion");
        Method level = metadata.getMethod("featureLevel");
        Object[] all = metadata.getEnumConstants();
        found.put("metadata.version", Stream.of(
            metadata.getField("MINIMUM_VERSION").get(null), metadata.getMethod("latestProduction").invoke(null), all[all.length - 1])
            .map(each -> {
                try {
                    return (Object) level.invoke(each);
                } catch (ReflectiveOperationException error) {
                    throw new IllegalStateException(error);
                }
            }).toList());
        return found;
    }

    private static Object levelOf(Class<?> type, Object feature, String method) {
        try {
            return type.getMethod(method).invoke(feature);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** By the simple name of the class: a tool may move to another package. */
    @SuppressWarnings("removal")
    private static Map<String, Object> tools() throws Exception {
        System.setSecurityManager(new Staying());
        Map<String, Object> found = new TreeMap<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            String jar = new File(path).getName();
            if (!jar.startsWith("kafka-tools-") && !jar.startsWith("kafka_2.13-")) {
                continue;
            }
            try (JarFile file = new JarFile(path)) {
                for (String name : file.stream().map(entry -> entry.getName()).sorted().toList()) {
                    if (name.matches("(org/apache/kafka/tools/[a-z/]*|kafka/tools/|kafka/admin/)[A-Za-z]+\\.class")) {
                        usage(name.substring(0, name.length() - ".class".length()).replace('/', '.'), found);
                    }
                }
            }
        }
        System.setSecurityManager(null);
        return found;
    }

    private static void usage(String name, Map<String, Object> found) throws Exception {
        Class<?> type = Class.forName(name);
        Method main;
        try {
            main = type.getMethod("main", String[].class);
        } catch (NoSuchMethodException error) {
            return;
        }
        if (!Modifier.isStatic(main.getModifiers())) {
            return;
        }
        PrintStream output = System.out;
        PrintStream errors = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(said, true);
        Thread running = new Thread(() -> {
            try {
                main.invoke(null, (Object) new String[] {"--help"});
            } catch (ReflectiveOperationException | RuntimeException error) {
                // It has ended as a process would, or failed: what it said is what counts.
            }
        });
        running.setDaemon(true);
        System.setOut(both);
        System.setErr(both);
        try {
            running.start();
            running.join(20_000);
        } finally {
            System.setOut(output);
            System.setErr(errors);
        }
        found.put(type.getSimpleName(), said.toString());
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(each -> json(each.getKey().toString()) + ":" + json(each.getValue()))
                .collect(java.util.stream.Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Iterable<?> list) {
            StringBuilder text = new StringBuilder("[");
            for (Object each : list) {
                text.append(text.length() > 1 ? "," : "").append(json(each));
            }
            return text.append("]").toString();
        }
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        StringBuilder text = new StringBuilder("\"");
        for (char each : value.toString().toCharArray()) {
            text.append(each < ' ' || each == '"' || each == '\\' || each > '~' ? String.format("\\u%04x", (int) each) : each);
        }
        return text.append("\"").toString();
    }
}
