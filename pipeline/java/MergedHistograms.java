package weir;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.functions.AggregateFunction;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Adds up arrays of histograms, bucket by bucket. Spark's own way is a row for each bucket of each histogram, which is
 * looked up by all columns that it is grouped by.
 *
 * The state is a {@link Buckets} for each place in these arrays, null where there is none. It is made of Java's own
 * types, because the executors of a cluster read it by a class loader that does not know the jars which Spark sent them.
 */
public final class MergedHistograms extends OwnFunction implements AggregateFunction<long[][], ArrayData> {
    private static final StructType BUCKET = new StructType()
            .add("at", DataTypes.IntegerType, false)
            .add("us", DataTypes.LongType, false)
            .add("count", DataTypes.LongType, true);

    MergedHistograms() {
        super("merged_histograms",
                "merged_histograms(histograms): the sums of the buckets of arrays of histograms, by place and edge",
                DataTypes.createArrayType(DataTypes.createMapType(DataTypes.LongType, DataTypes.LongType)), DataTypes.createArrayType(BUCKET, false));
    }

    @Override
    public long[][] newAggregationState() {
        return new long[0][];
    }

    @Override
    public long[][] update(long[][] sums, InternalRow arguments) {
        if (arguments.isNullAt(0)) return sums;
        ArrayData histograms = arguments.getArray(0);
        for (int place = 0; place < histograms.numElements(); place++) {
            if (histograms.isNullAt(place)) continue;
            MapData histogram = histograms.getMap(place);
            ArrayData edges = histogram.keyArray(), counts = histogram.valueArray();
            if (edges.numElements() == 0) continue;
            sums = withPlace(sums, place);
            long[] buckets = sums[place];
            for (int at = 0; at < edges.numElements(); at++) {
                if (!counts.isNullAt(at)) buckets = Buckets.add(buckets, edges.getLong(at), counts.getLong(at), Buckets.SUM);
            }
            sums[place] = buckets;
        }
        return sums;
    }

    @Override
    public long[][] merge(long[][] sums, long[][] others) {
        for (int place = 0; place < others.length; place++) {
            if (others[place] == null) continue;
            sums = withPlace(sums, place);
            sums[place] = Buckets.addAll(sums[place], others[place]);
        }
        return sums;
    }

    @Override
    public ArrayData produceResult(long[][] sums) {
        List<InternalRow> found = new ArrayList<>();
        for (int place = 0; place < sums.length; place++) {
            if (sums[place] != null) Buckets.list(sums[place], place, found);
        }
        return new GenericArrayData(found.toArray());
    }

    private static long[][] withPlace(long[][] sums, int place) {
        if (place >= sums.length) sums = Arrays.copyOf(sums, place + 1);
        if (sums[place] == null) sums[place] = Buckets.none();
        return sums;
    }

    /**
     * A hash table with open addressing in one array: how many edges it has, and then entries of three numbers, an edge,
     * its count and the kind of the entry. At most half of the entries are used.
     */
    private static final class Buckets {
        static final long FREE = 0, SUM = 1, BEYOND_64_BITS = 2;
        private static final int EDGE = 0, COUNT = 1, KIND = 2, ENTRY = 3, FIRST = 1, FEWEST = 32;

        static long[] none() {
            return new long[FIRST + ENTRY * FEWEST];
        }

        /** Return the table, or a larger one, with a count, or one beyond 64 bits. */
        static long[] add(long[] table, long edge, long count, long kind) {
            int at = entry(table, edge);
            if (table[at + KIND] == FREE) {
                if (2 * table[0] >= table.length / ENTRY) {
                    table = larger(table);
                    at = entry(table, edge);
                }
                table[0]++;
                table[at + EDGE] = edge;
                table[at + KIND] = SUM;
            }
            long before = table[at + COUNT], sum = before + count;
            table[at + COUNT] = sum;
            if (kind == BEYOND_64_BITS || ((before ^ sum) & (count ^ sum)) < 0) table[at + KIND] = BEYOND_64_BITS;
            return table;
        }

        static long[] addAll(long[] table, long[] others) {
            for (int at = FIRST; at < others.length; at += ENTRY) {
                if (others[at + KIND] != FREE) table = add(table, others[at + EDGE], others[at + COUNT], others[at + KIND]);
            }
            return table;
        }

        static void list(long[] table, int place, List<InternalRow> found) {
            for (int at = FIRST; at < table.length; at += ENTRY) {
                if (table[at + KIND] == FREE) continue;
                Long count = table[at + KIND] == SUM ? table[at + COUNT] : null;
                found.add(new GenericInternalRow(new Object[] {place, table[at + EDGE], count}));
            }
        }

        /** Return where the edge is, or would be. */
        private static int entry(long[] table, long edge) {
            int last = table.length / ENTRY - 1;
            int number = (int) (edge * 0x9E3779B97F4A7C15L >>> 32) & last;
            while (true) {
                int at = FIRST + ENTRY * number;
                if (table[at + KIND] == FREE || table[at + EDGE] == edge) return at;
                number = number + 1 & last;
            }
        }

        private static long[] larger(long[] table) {
            return addAll(new long[FIRST + 2 * (table.length - FIRST)], table);
        }
    }
}
