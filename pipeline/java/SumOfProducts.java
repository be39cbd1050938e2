package weir;

import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataTypes;

/** The sum of an array's first elements times the second ones. Spark interprets its own aggregate(). */
public final class SumOfProducts extends OwnFunction implements ScalarFunction<Double> {
    SumOfProducts() {
        super("sum_of_products",
                "sum_of_products(pairs): the sum of the first elements times the second ones; others than pairs add 0",
                DataTypes.createArrayType(DataTypes.createArrayType(DataTypes.LongType)), DataTypes.DoubleType);
    }

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
}
