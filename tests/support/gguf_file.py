# SPDX-License-Identifier: Apache-2.0
"""A reader and a writer of GGUF files of the tests' own, written from the format's description."""
import struct

VALUES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
          12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        out = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return out[0] if len(out) == 1 else out

    def text(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            kind, count = self.take("I"), self.take("Q")
            return [self.value(kind) for _ in range(count)]
        return self.take(VALUES[kind])


def text_bytes(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def kind_of(value):
    """The type that values of Python are written as: 32 bits."""
    return (STRING if isinstance(value, (str, bytes)) else 7 if isinstance(value, bool)
            else 4 if isinstance(value, int) else 6)


def value_bytes(value, kind=None):
    """Type and bytes of a value; (type, value) has another type than is usual."""
    if isinstance(value, tuple):
        kind, value = value
    if isinstance(value, list):
        of = kind if kind is not None else 5 if isinstance(value[0], int) else kind_of(value[0])
        return struct.pack("<IIQ", ARRAY, of, len(value)) + b"".join(
            value_bytes(x, of)[4:] for x in value)
    kind = kind_of(value) if kind is None else kind
    data = text_bytes(value) if kind == STRING else struct.pack("<" + VALUES[kind], value)
    return struct.pack("<I", kind) + data


def write(values, tensors, version=3, num_tensors=None, num_values=None):
    """A file of values by key, and of tensors: name to dimensions, type and bytes."""
    out = b"GGUF" + struct.pack("<IQQ", version,
                                len(tensors) if num_tensors is None else num_tensors,
                                len(values) if num_values is None else num_values)
    out += b"".join(text_bytes(key) + value_bytes(value) for key, value in values.items())
    body = b""
    for name, (dims, kind, data) in tensors.items():
        out += text_bytes(name) + struct.pack("<I", len(dims))
        out += struct.pack("<%dQ" % len(dims), *dims) + struct.pack("<IQ", kind, len(body))
        body += data + bytes(-len(data) % 32)
    return out + bytes(-len(out) % 32) + body


def read(data):
    """Values by key, and of each tensor its dimensions, type and bytes from its place on."""
    r = Reader(data)
    assert r.take("4s") == b"GGUF" and r.take("I") == 3
    num_tensors, num_values = r.take("QQ")
    values = {}
    for _ in range(num_values):
        key = r.text()
        values[key] = r.value(r.take("I"))
    places = {}
    for _ in range(num_tensors):
        name = r.text()
        dims = [r.take("Q") for _ in range(r.take("I"))]
        places[name] = dims, r.take("I"), r.take("Q")
    alignment = values.get("general.alignment", 32)
    begin = -(-r.at // alignment) * alignment
    assert not any(data[r.at:begin])
    for dims, kind, place in places.values():
        assert place % alignment == 0
    return values, {name: (dims, kind, data[begin + place:])
                    for name, (dims, kind, place) in places.items()}
