package weir;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
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
 * ASCII, numbers that are no integers of up to 18 digits, a field that is there twice, nulls. So the rows are those of
 * from_json.
 */
public final class RequestEvents extends OwnFunction implements ScalarFunction<InternalRow> {
    static final String[] FIELDS = {
        "v", "time_ms", "source", "principal", "client_id", "api", "requests", "bytes_in", "bytes_out", "throttle_ms",
        "errors", "timed", "phases"
    };
    static final String[] PHASES = {"queue", "local", "remote", "response_queue", "response_send", "total"};
    private static final int ERRORS = 10, PHASES_AT = 12, MAX_DIGITS = 18;
    private static final byte[][] FIELD_NAMES = ascii(FIELDS), PHASE_NAMES = ascii(PHASES);

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

    private static byte[][] ascii(String[] names) {
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
        private int at;

        Reader(byte[] text) {
            this.text = text;
        }

        InternalRow event() throws OtherForm {
            Object[] fields = new Object[FIELDS.length + 1]; // The last one is that of broken text.
            int seen = 0;
            expect('{');
            do {
                int field = name(FIELD_NAMES);
                if ((seen & 1 << field) != 0) throw OtherForm.IT;
                seen |= 1 << field;
                fields[field] = field(field);
            } while (isNext(','));
            expect('}');
            if (at != text.length) throw OtherForm.IT;
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
                case PHASES_AT:
                    return phases();
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

        private InternalRow phases() throws OtherForm {
            Object[] found = new Object[PHASES.length];
            expect('{');
            if (isNext('}')) return new GenericInternalRow(found);
            do {
                int phase = name(PHASE_NAMES);
                if (found[phase] != null) throw OtherForm.IT;
                found[phase] = pairs();
            } while (isNext(','));
            expect('}');
            return new GenericInternalRow(found);
        }

        private ArrayData pairs() throws OtherForm {
            Object[] found = new Object[8];
            int count = 0;
            expect('[');
            if (isNext(']')) return NO_PAIRS;
            do {
                if (count == found.length) found = java.util.Arrays.copyOf(found, 2 * count);
                expect('[');
                long edge = number();
                expect(',');
                found[count++] = UnsafeArrayData.fromPrimitiveArray(new long[] {edge, number()});
                expect(']');
            } while (isNext(','));
            expect(']');
            return new GenericArrayData(java.util.Arrays.copyOf(found, count));
        }

        /** Return which of the names comes, and read over it and its colon. */
        private int name(byte[][] names) throws OtherForm {
            expect('"');
            for (int each = 0; each < names.length; each++) {
                byte[] name = names[each];
                int end = at + name.length;
                if (end + 1 < text.length && text[end] == '"' && text[end + 1] == ':'
                        && java.util.Arrays.equals(text, at, end, name, 0, name.length)) {
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
