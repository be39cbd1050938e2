package weir;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The functions of Weir that Spark finds by name, such as weir.request_event(value). Spark compiles a call of them into
 * its plan; the rows of a user-defined function it would convert, field by field. For pipeline/java_functions.py.
 *
 * The option `requests` is the schema of a request in Spark's JSON, so that pipeline/formats.py alone has it.
 */
public final class Functions implements FunctionCatalog {
    private final Map<String, UnboundFunction> functions = new LinkedHashMap<>();
    private String name;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        add(new RequestEvents((StructType) DataType.fromJson(options.get("requests"))));
        add(new SumOfValues());
        add(new MergedHistograms());
    }

    private void add(UnboundFunction function) {
        functions.put(function.name(), function);
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Identifier[] listFunctions(String[] namespace) {
        if (namespace.length > 0) return new Identifier[0];
        return functions.keySet().stream().map(each -> Identifier.of(namespace, each)).toArray(Identifier[]::new);
    }

    @Override
    public UnboundFunction loadFunction(Identifier wanted) throws NoSuchFunctionException {
        UnboundFunction found = wanted.namespace().length > 0 ? null : functions.get(wanted.name());
        if (found == null) throw new NoSuchFunctionException(wanted);
        return found;
    }
}
