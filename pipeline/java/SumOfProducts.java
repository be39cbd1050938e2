package weir;

import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The sum of an array's first elements times the second ones. Spark interprets its own aggregate(). */
public final class SumOfProducts implements UnboundFunction, ScalarFunction<Double> {
    /** Spark finds this method by its name. */
    public static Double invoke(ArrayData pairs) {
        if (pairs == null) return null;
        double total = 0;
        for (int at = 0; at < pairs.numElements(); at++) {
            if (pairs.isNullAt(at)) continue;
            ArrayData pair = pairs.getArray(at);
            if (pair.numElements() < 2 || pair.isNullAt(0) || pair.isNullAt(1)) continue;
            total += (double) pair.getLong(0) * (double) pair.getLong(1);
        }
        return total;
    }

    @Override
    public BoundFunction bind(StructType arguments) {
        return this;
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.createArrayType(DataTypes.createArrayType(DataTypes.LongType))};
    }

    @Override
    public DataType resultType() {
        return DataTypes.DoubleType;
    }

    @Override
    public String name() {
        return "sum_of_products";
    }

    @Override
    public String description() {
        return "sum_of_products(pairs): the sum of the first elements times the second ones; others than pairs add 0";
    }
}
