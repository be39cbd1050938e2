package weir;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.functions.AggregateFunction;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Adds up arrays of histograms, bucket by bucket. Spark's own way is a row for each bucket of each histogram, which is
 * looked up by all columns that it is grouped by.
 */
public final class MergedHistograms implements UnboundFunction, AggregateFunction<MergedHistograms.Sums, ArrayData> {
    @Override
    public Sums newAggregationState() {
        return new Sums();
    }

    @Override
    public Sums update(Sums sums, InternalRow arguments) {
        if (arguments.isNullAt(0)) return sums;
        ArrayData histograms = arguments.getArray(0);
        for (int place = 0; place < histograms.numElements(); place++) {
            if (histograms.isNullAt(place)) continue;
            MapData histogram = histograms.getMap(place);
            ArrayData edges = histogram.keyArray(), counts = histogram.valueArray();
            if (edges.numElements() == 0) continue;
            Buckets buckets = sums.at(place);
            for (int at = 0; at < edges.numElements(); at++) {
                if (!counts.isNullAt(at)) buckets.add(edges.getLong(at), counts.getLong(at), false);
            }
        }
        return sums;
    }

    @Override
    public Sums merge(Sums sums, Sums others) {
        for (int place = 0; place < others.places.length; place++) {
            if (others.places[place] != null) sums.at(place).addAll(others.places[place]);
        }
        return sums;
    }

    @Override
    public ArrayData produceResult(Sums sums) {
        List<InternalRow> found = new ArrayList<>();
        for (int place = 0; place < sums.places.length; place++) {
            if (sums.places[place] != null) sums.places[place].list(place, found);
        }
        return new GenericArrayData(found.toArray());
    }

    /** The buckets of a group by the places of their histograms. */
    static final class Sums implements Serializable {
        private static final long serialVersionUID = 1;
        private Buckets[] places = new Buckets[0];

        private Buckets at(int place) {
            if (place >= places.length) places = Arrays.copyOf(places, place + 1);
            if (places[place] == null) places[place] = new Buckets();
            return places[place];
        }
    }

    /** A hash table from edges to counts, with open addressing; at most half of it is used. */
    private static final class Buckets implements Serializable {
        private static final long serialVersionUID = 1;
        private static final byte FREE = 0, SUM = 1, BEYOND_64_BITS = 2;
        private long[] edges = new long[32], counts = new long[32];
        private byte[] kinds = new byte[32];
        private int size;

        private void add(long edge, long count, boolean isBeyond) {
            int at = place(edge);
            if (kinds[at] == FREE) {
                if (2 * size >= kinds.length) {
                    grow();
                    at = place(edge);
                }
                edges[at] = edge;
                kinds[at] = SUM;
                size++;
            }
            long sum = counts[at] + count;
            if (isBeyond || ((counts[at] ^ sum) & (count ^ sum)) < 0) kinds[at] = BEYOND_64_BITS;
            counts[at] = sum;
        }

        private void addAll(Buckets others) {
            for (int at = 0; at < others.kinds.length; at++) {
                if (others.kinds[at] != FREE) add(others.edges[at], others.counts[at], others.kinds[at] == BEYOND_64_BITS);
            }
        }

        private void list(int place, List<InternalRow> found) {
            for (int at = 0; at < kinds.length; at++) {
                if (kinds[at] == FREE) continue;
                Long count = kinds[at] == SUM ? counts[at] : null;
                found.add(new GenericInternalRow(new Object[] {place, edges[at], count}));
            }
        }

        /** Return where the edge is, or would be. */
        private int place(long edge) {
            int last = kinds.length - 1;
            int at = (int) (edge * 0x9E3779B97F4A7C15L >>> 32) & last;
            while (kinds[at] != FREE && edges[at] != edge) at = at + 1 & last;
            return at;
        }

        private void grow() {
            long[] oldEdges = edges, oldCounts = counts;
            byte[] oldKinds = kinds;
            edges = new long[2 * oldEdges.length];
            counts = new long[edges.length];
            kinds = new byte[edges.length];
            for (int from = 0; from < oldKinds.length; from++) {
                if (oldKinds[from] == FREE) continue;
                int to = place(oldEdges[from]);
                edges[to] = oldEdges[from];
                counts[to] = oldCounts[from];
                kinds[to] = oldKinds[from];
            }
        }
    }

    @Override
    public BoundFunction bind(StructType arguments) {
        return this;
    }

    @Override
    public DataType[] inputTypes() {
        DataType histogram = DataTypes.createMapType(DataTypes.LongType, DataTypes.LongType);
        return new DataType[] {DataTypes.createArrayType(histogram)};
    }

    @Override
    public DataType resultType() {
        StructType bucket = new StructType()
                .add("at", DataTypes.IntegerType, false)
                .add("us", DataTypes.LongType, false)
                .add("count", DataTypes.LongType, true);
        return DataTypes.createArrayType(bucket, false);
    }

    @Override
    public String name() {
        return "merged_histograms";
    }

    @Override
    public String description() {
        return "merged_histograms(histograms): the sums of the buckets of arrays of histograms, by place and edge";
    }
}
