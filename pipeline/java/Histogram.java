package weir;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataTypes;

/** A map of pairs, from the edges of a histogram's buckets to their counts. */
public final class Histogram extends OwnFunction implements ScalarFunction<MapData> {
    Histogram() {
        super("histogram",
                "histogram(pairs): a map of what is a pair of numbers; null if a first number is there twice",
                DataTypes.createArrayType(DataTypes.createArrayType(DataTypes.LongType)), DataTypes.createMapType(DataTypes.LongType, DataTypes.LongType));
    }

    /** Spark finds this method by its name. */
    public static MapData invoke(ArrayData pairs) {
        if (pairs == null) return null;
        long[] edges = new long[pairs.numElements()], counts = new long[pairs.numElements()];
        int size = 0;
        boolean isAscending = true;
        for (int at = 0; at < pairs.numElements(); at++) {
            if (pairs.isNullAt(at)) continue;
            ArrayData pair = pairs.getArray(at);
            if (pair.numElements() != 2 || pair.isNullAt(0) || pair.isNullAt(1)) continue;
            edges[size] = pair.getLong(0);
            counts[size] = pair.getLong(1);
            isAscending &= size == 0 || edges[size - 1] < edges[size];
            size++;
        }
        if (size < edges.length) {
            edges = Arrays.copyOf(edges, size);
            counts = Arrays.copyOf(counts, size);
        }
        if (!isAscending && hasSameTwice(edges)) return null;
        return new ArrayBasedMapData(UnsafeArrayData.fromPrimitiveArray(edges), UnsafeArrayData.fromPrimitiveArray(counts));
    }

    private static boolean hasSameTwice(long[] edges) {
        long[] sorted = edges.clone();
        Arrays.sort(sorted);
        for (int at = 1; at < sorted.length; at++) {
            if (sorted[at - 1] == sorted[at]) return true;
        }
        return false;
    }
}
