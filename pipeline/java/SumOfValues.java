package weir;

import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataTypes;

/** The sum of a map's values. Spark interprets its own aggregate(), and with it all that groups by it. */
public final class SumOfValues extends OwnFunction implements ScalarFunction<Long> {
    SumOfValues() {
        super("sum_of_values",
                "sum_of_values(counts): the sum of a map's values; null if one is null, or if it is beyond 64 bits",
                DataTypes.createMapType(DataTypes.StringType, DataTypes.LongType), DataTypes.LongType);
    }

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
}
