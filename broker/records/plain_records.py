"""Passes over records of the shape that nearly all producers write, with as few steps of the interpreter as
there can be.

Called by `inspect`, which reads what is left: any other shape, and whatever is wrong. So this is an
optimisation and no rule: it accepts nothing that `inspect` would refuse. A plain record has no headers, at
most 8 KiB, and an offset delta of three bytes at most. One takes a third of the time that reading it with
`varint` takes.
"""

from broker.records.header import NO_TIMESTAMP, Buffer


def pass_plain_records(
    data: Buffer, at: int, done: int, stop: int, largest: int, base: int, least_delta: int, keys_needed: bool
) -> tuple[int, int, int]:
    """Reads records number `done` to `stop` (not included) from `at` on, up to the first that is not plain.
    Returns where it stopped: the position, the number of the next record, and the largest timestamp delta
    so far, `largest` included.
    """
    # Every number is a zigzag varint: its lowest bit is the sign, bit 7 of a byte says that another follows.
    begin = at
    number = done
    try:
        for number in range(done, stop):
            begin = at
            length = data[at]
            if length < 0x80:
                at += 2
            else:
                byte = data[at + 1]
                if byte >= 0x80:
                    return begin, number, largest
                length = length & 0x7F | byte << 7
                at += 3
            end = at + (length >> 1) - 1
            delta = data[at]
            at += 1
            if delta >= 0x80:
                delta &= 0x7F
                shift = 7
                while (byte := data[at]) >= 0x80:
                    delta |= (byte & 0x7F) << shift
                    shift += 7
                    at += 1
                    if shift > 42:
                        return begin, number, largest
                delta |= byte << shift
                at += 1
            delta = -(delta + 1 >> 1) if delta & 1 else delta >> 1
            offset = data[at]
            at += 1
            if offset >= 0x80:
                byte = data[at]
                at += 1
                offset = offset & 0x7F | (byte & 0x7F) << 7
                if byte >= 0x80:
                    byte = data[at]
                    if byte >= 0x80:
                        return begin, number, largest
                    offset |= byte << 14
                    at += 1
            key = data[at]
            at += 1
            if key >= 0x80:
                byte = data[at]
                if byte >= 0x80:
                    return begin, number, largest
                key = key & 0x7F | byte << 7
                at += 1
            if not key & 1:
                at += key >> 1
            elif keys_needed:
                return begin, number, largest
            value = data[at]
            at += 1
            if value >= 0x80:
                byte = data[at]
                if byte >= 0x80:
                    return begin, number, largest
                value = value & 0x7F | byte << 7
                at += 1
            if not value & 1:
                at += value >> 1
            if (
                data[at]  # it has headers
                or at + 1 != end
                or length & 1
                or offset != number + number
                or (delta < least_delta and base + delta != NO_TIMESTAMP)
            ):
                return begin, number, largest
            at = end
            if delta > largest:
                largest = delta
    except IndexError:
        return begin, number, largest
    return at, stop, largest
