package weir;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads values of __weir_requests as a broker writes them, into Spark's own rows. For pipeline/java_functions.py.
 *
 * A value in any other form gives null, and Spark's from_json then reads it: other fields, spaces, escapes, text beyond
 * ASCII, numbers that are no integers of up to 18 digits, a field or an edge of a histogram that is there twice, nulls.
 * So the rows are those that pipeline/histograms.py makes of from_json's.
 */
public final class RequestEvents extends OwnFunction implements ScalarFunction<InternalRow> {
    private static final byte[][] FIELDS = ascii("v", "time_ms", "source", "principal", "client_id", "api", "requests",
            "bytes_in", "bytes_out", "throttle_ms", "errors", "timed", "phases");
    private static final byte[][] PHASES =
            ascii("queue", "local", "remote", "response_queue", "response_send", "total");
    private static final int ERRORS = 10, PHASES_AT = 12, LOCAL = 1, MAX_DIGITS = 18;

    /** An event has two fields in place of the phases; after them is that of broken text, which is null here. */
    private static final int HISTOGRAMS = PHASES_AT, LOCAL_US = 13, SIZE = 15;

    private static final ArrayData NO_PAIRS = new GenericArrayData(new Object[0]);
    private static final MapData NO_COUNTS = new ArrayBasedMapData(NO_PAIRS, NO_PAIRS);

    RequestEvents(StructType event) {
        super("request_event",
                "request_event(value): the event in a value of __weir_requests, null if Spark must read it",
                DataTypes.BinaryType, event);
    }

    /** Spark finds this method by its name. */
    public static InternalRow invoke(byte[] value) {
        try {
            return value == null ? null : new Reader(value).event();
        } catch (OtherForm other) {
            return null;
        }
    }

    private static byte[][] ascii(String... names) {
        byte[][] found = new byte[names.length][];
        for (int at = 0; at < names.length; at++) found[at] = names[at].getBytes(StandardCharsets.US_ASCII);
        return found;
    }

    /** Thrown without a stack trace. */
    private static final class OtherForm extends Exception {
        static final OtherForm IT = new OtherForm();

        private OtherForm() {
            super(null, null, false, false);
        }
    }

    private static final class Reader {
        private final byte[] text;
        private long[] pairs = new long[32];
        private int at;

        Reader(byte[] text) {
            this.text = text;
        }

        InternalRow event() throws OtherForm {
            Object[] fields = new Object[SIZE];
            HistogramsOfPhases histograms = new HistogramsOfPhases(PHASES.length);
            int seen = 0;
            expect('{');
            do {
                int field = name(FIELDS);
                if ((seen & 1 << field) != 0) throw OtherForm.IT;
                seen |= 1 << field;
                if (field == PHASES_AT) fields[LOCAL_US] = phases(histograms);
                else fields[field] = field(field);
            } while (isNext(','));
            expect('}');
            if (at != text.length) throw OtherForm.IT;
            fields[HISTOGRAMS] = histograms.row();
            return new GenericInternalRow(fields);
        }

        private Object field(int field) throws OtherForm {
            switch (field) {
                case 0:
                    long version = number();
                    if (version != (int) version) throw OtherForm.IT;
                    return (int) version;
                case 2: case 3: case 4: case 5:
                    return string();
                case ERRORS:
                    return counts();
                default:
                    return number();
            }
        }

        private MapData counts() throws OtherForm {
            expect('{');
            if (isNext('}')) return NO_COUNTS; // Nearly every request.
            Map<UTF8String, Long> found = new LinkedHashMap<>();
            do {
                UTF8String name = string();
                expect(':');
                if (found.put(name, number()) != null) throw OtherForm.IT;
            } while (isNext(','));
            expect('}');
            return new ArrayBasedMapData(
                    new GenericArrayData(found.keySet().toArray()), new GenericArrayData(found.values().toArray()));
        }

        /** Read the object of phases; return the sum of the handlers' times, null without them. */
        private Double phases(HistogramsOfPhases histograms) throws OtherForm {
            Double localUs = null;
            expect('{');
            if (isNext('}')) return null;
            do {
                int phase = name(PHASES);
                if (histograms.has(phase)) throw OtherForm.IT;
                int size = pairs();
                histograms.set(phase, pairs, size);
                if (phase == LOCAL) localUs = sumOfProducts(size);
            } while (isNext(','));
            expect('}');
            return localUs;
        }

        /** Read an array of pairs into `pairs`; return how many numbers these are. */
        private int pairs() throws OtherForm {
            int size = 0;
            expect('[');
            if (isNext(']')) return 0;
            boolean isAscending = true;
            do {
                if (size == pairs.length) pairs = Arrays.copyOf(pairs, 2 * size);
                expect('[');
                pairs[size] = number();
                expect(',');
                pairs[size + 1] = number();
                expect(']');
                isAscending &= size == 0 || pairs[size - 2] < pairs[size];
                size += 2;
            } while (isNext(','));
            expect(']');
            if (!isAscending && hasEdgeTwice(size)) throw OtherForm.IT;
            return size;
        }

        private boolean hasEdgeTwice(int size) {
            long[] edges = new long[size / 2];
            for (int at = 0; at < edges.length; at++) edges[at] = pairs[2 * at];
            Arrays.sort(edges);
            for (int at = 1; at < edges.length; at++) {
                if (edges[at - 1] == edges[at]) return true;
            }
            return false;
        }

        private double sumOfProducts(int size) {
            double total = 0;
            for (int at = 0; at < size; at += 2) total += (double) pairs[at] * (double) pairs[at + 1];
            return total;
        }

        /** Return which of the names comes, and read over it and its colon. */
        private int name(byte[][] names) throws OtherForm {
            expect('"');
            for (int each = 0; each < names.length; each++) {
                byte[] name = names[each];
                int end = at + name.length;
                if (end + 1 < text.length && text[end] == '"' && text[end + 1] == ':'
                        && Arrays.equals(text, at, end, name, 0, name.length)) {
                    at = end + 2;
                    return each;
                }
            }
            throw OtherForm.IT;
        }

        private UTF8String string() throws OtherForm {
            expect('"');
            int begin = at;
            while (at < text.length && text[at] != '"') {
                if (text[at] < ' ' || text[at] == '\\') throw OtherForm.IT; // Bytes beyond ASCII are negative.
                at++;
            }
            UTF8String found = UTF8String.fromBytes(text, begin, at - begin);
            expect('"');
            return found;
        }

        private long number() throws OtherForm {
            boolean isNegative = isNext('-');
            int begin = at;
            long found = 0;
            while (at < text.length && text[at] >= '0' && text[at] <= '9') found = 10 * found + (text[at++] - '0');
            int digits = at - begin;
            boolean hasZero = digits > 1 && text[begin] == '0';
            if (digits == 0 || digits > MAX_DIGITS || hasZero || isNegative && found == 0) throw OtherForm.IT;
            return isNegative ? -found : found;
        }

        private boolean isNext(char wanted) {
            if (at == text.length || text[at] != wanted) return false;
            at++;
            return true;
        }

        private void expect(char wanted) throws OtherForm {
            if (!isNext(wanted)) throw OtherForm.IT;
        }
    }
}
