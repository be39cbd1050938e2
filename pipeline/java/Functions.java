package weir;

import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The functions of Weir that Spark finds by name: weir.request_event(value). Spark compiles a call of them into its
 * plan; the rows of a user-defined function it would convert, field by field. For pipeline/request_values.py.
 *
 * The option `requests` is the schema of a request in Spark's JSON, so that pipeline/formats.py alone has it.
 */
public final class Functions implements FunctionCatalog {
    private String name;
    private UnboundFunction requestEvents;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        requestEvents = new RequestEvents((StructType) DataType.fromJson(options.get("requests")));
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Identifier[] listFunctions(String[] namespace) {
        return namespace.length > 0 ? new Identifier[0] : new Identifier[] {Identifier.of(namespace, requestEvents.name())};
    }

    @Override
    public UnboundFunction loadFunction(Identifier wanted) throws NoSuchFunctionException {
        if (wanted.namespace().length > 0 || !wanted.name().equals(requestEvents.name())) throw new NoSuchFunctionException(wanted);
        return requestEvents;
    }
}
