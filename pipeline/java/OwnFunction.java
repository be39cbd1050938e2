package weir;

import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A function of one argument, whose types are always the same. */
abstract class OwnFunction implements UnboundFunction, BoundFunction {
    private final String name, description;
    private final DataType argument, result;

    OwnFunction(String name, String description, DataType argument, DataType result) {
        this.name = name;
        this.description = description;
        this.argument = argument;
        this.result = result;
    }

    @Override
    public BoundFunction bind(StructType arguments) {
        return this;
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {argument};
    }

    @Override
    public DataType resultType() {
        return result;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String description() {
        return description;
    }
}
