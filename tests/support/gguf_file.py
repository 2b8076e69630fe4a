# SPDX-License-Identifier: Apache-2.0
"""A reader of GGUF files of the tests' own, written from the format's description."""
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
