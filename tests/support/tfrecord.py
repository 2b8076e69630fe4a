# SPDX-License-Identifier: Apache-2.0
"""TFRecord files and tf.train.Example messages, byte by byte, by the published formats: a record is
u64 length, masked CRC-32C of these bytes, data, masked CRC-32C of the data; a message is protocol
buffers' wire format."""
import struct


def table():
    remainders = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        remainders.append(byte)
    return remainders


REMAINDERS = table()


def masked_crc(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ REMAINDERS[(crc ^ byte) & 0xff]
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I",
                                masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def varint(value):
    value &= 0xffffffffffffffff  # negative numbers take ten bytes
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, data):
    """A field with a length: bytes, text or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def floats(values, packed=True):
    if packed:
        data = field(1, struct.pack("<%df" % len(values), *values))
    else:
        data = b"".join(varint(1 << 3 | 5) + struct.pack("<f", v) for v in values)
    return field(2, data)


def integers(values, packed=True):
    if packed:
        data = field(1, b"".join(map(varint, values)))
    else:
        data = b"".join(varint(1 << 3) + varint(v) for v in values)
    return field(3, data)


def strings(*values):
    return field(1, b"".join(field(1, v) for v in values))


def entry(name, feature):
    return field(1, field(1, name.encode()) + field(2, feature))


def example(*entries):
    """Of pairs of a name and a feature; a name may stand there twice."""
    return field(1, b"".join(entry(name, feature) for name, feature in entries))
