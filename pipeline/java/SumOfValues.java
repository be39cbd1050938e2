package weir;

import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The sum of a map's values. Spark interprets its own aggregate(), and with it all that groups by it. */
public final class SumOfValues implements UnboundFunction, ScalarFunction<Long> {
    /** Spark finds this method by its name. */
    public static Long invoke(MapData counts) {
        if (counts == null) return null;
        ArrayData values = counts.valueArray();
        long total = 0;
        for (int at = 0; at < values.numElements(); at++) {
            if (values.isNullAt(at)) return null;
            long value = values.getLong(at), sum = total + value;
            if (((total ^ sum) & (value ^ sum)) < 0) return null; // Beyond 64 bits: both have another sign than the sum.
            total = sum;
        }
        return total;
    }

    @Override
    public BoundFunction bind(StructType arguments) {
        return this;
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.createMapType(DataTypes.StringType, DataTypes.LongType)};
    }

    @Override
    public DataType resultType() {
        return DataTypes.LongType;
    }

    @Override
    public String name() {
        return "sum_of_values";
    }

    @Override
    public String description() {
        return "sum_of_values(counts): the sum of a map's values; null if one is null, or if it is beyond 64 bits";
    }
}
