package weir;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/**
 * The histograms of a request's phases as one of Spark's own rows: a struct of maps, from the edges of buckets to their
 * counts. Spark copies such a row as it is; of other rows it copies each map, key by key.
 *
 * The form is that of UnsafeRow, UnsafeMapData and UnsafeArrayData: 64-bit words throughout.
 */
final class HistogramsOfPhases {
    private static final int WORD = 8, BITS = 64;
    private final int phases;
    private long[] words = new long[BITS];
    private int end;

    /** Begin with no histogram in any phase; there are at most 64. */
    HistogramsOfPhases(int phases) {
        this.phases = phases;
        words[0] = -1L >>> BITS - phases; // A bit for each field that is null.
        end = 1 + phases;
    }

    boolean has(int phase) {
        return (words[0] & 1L << phase) == 0;
    }

    /** Set a phase's histogram to the first `size` numbers of `pairs`: an edge, its count, an edge, its count. */
    void set(int phase, long[] pairs, int size) {
        int begin = end, buckets = size / 2, array = 1 + nullWords(buckets) + buckets;
        reserve(1 + 2 * array);
        words[begin] = (long) array * WORD;
        putArray(begin + 1, buckets, pairs, 0);
        putArray(begin + 1 + array, buckets, pairs, 1);
        end = begin + 1 + 2 * array;
        words[0] &= ~(1L << phase);
        words[1 + phase] = (long) begin * WORD << 32 | (long) (end - begin) * WORD;
    }

    UnsafeRow row() {
        UnsafeRow found = new UnsafeRow(phases);
        found.pointTo(words, Platform.LONG_ARRAY_OFFSET, end * WORD);
        return found;
    }

    private static int nullWords(int elements) {
        return (elements + BITS - 1) / BITS;
    }

    private void putArray(int begin, int elements, long[] pairs, int first) {
        words[begin] = elements;
        int at = begin + 1 + nullWords(elements);
        for (int each = 0; each < elements; each++) words[at + each] = pairs[2 * each + first];
    }

    private void reserve(int more) {
        if (end + more > words.length) words = Arrays.copyOf(words, Math.max(end + more, 2 * words.length));
    }
}
