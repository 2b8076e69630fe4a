# SPDX-License-Identifier: Apache-2.0
"""Reads TensorBoard event files without TensorFlow and without the library's own reader: TFRecord
frames with their checksums, protocol buffer messages by field number. As a program it prints one
JSON object per event.

Usage: read_events.py FILE..."""
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from tfrecord import masked_crc  # noqa: E402


def records(data):
    at = 0
    while at < len(data):
        head = data[at:at + 12]
        length, check = struct.unpack("<QI", head)
        if masked_crc(head[:8]) != check:
            raise ValueError("checksum of the length at %d" % at)
        body = data[at + 12:at + 12 + length]
        if len(body) != length or masked_crc(body) != struct.unpack(
            "<I", data[at + 12 + length:at + 16 + length])[0]:
            raise ValueError("checksum of the record at %d" % at)
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if not byte & 128:
            return value, at


def fields(data):
    """{number: [raw value, ...]}: int for varints, bytes for everything else."""
    out, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                if kind != 2:
                    raise ValueError("wire type %d" % kind)
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise ValueError("a field is cut off")
        out.setdefault(key >> 3, []).append(value)
    return out


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def one(message, number, default=b""):
    return message.get(number, [default])[-1]


def text(message, number):
    return one(message, number).decode("utf-8")


def double(message, number):
    raw = message.get(number)
    return struct.unpack("<d", raw[-1])[0] if raw else 0.0


def shape(data):
    return [signed(one(fields(dim), 1, 0)) for dim in fields(data).get(2, [])]


def tensor(data):
    message = fields(data)
    kind, dims = one(message, 1, 0), shape(one(message, 2))
    count = 1
    for size in dims:
        count *= size
    if kind == 7:
        return dims, message.get(8, [])
    code, number = {1: ("f", 5), 2: ("d", 6)}[kind]
    raw = b"".join(message.get(number, [])) or one(message, 4)
    values = list(struct.unpack("<%d%s" % (len(raw) // struct.calcsize(code), code), raw))
    if len(values) != count:
        raise ValueError("%d values for shape %s" % (len(values), dims))
    return dims, values


def hparams(content):
    message = fields(content)
    if 3 in message:
        start, out = fields(message[3][0]), {}
        for entry in start.get(1, []):
            entry = fields(entry)
            value = fields(entry[2][0])
            out[text(entry, 1)] = text(value,
                                       3) if 3 in value else struct.unpack("<d", value[2][0])[0]
        return {"start": out, "time": double(start, 5)}
    end = fields(message[4][0])
    return {"status": one(end, 1, 0), "time": double(end, 2)}


def graph(data):
    nodes = []
    for raw in fields(data).get(1, []):
        node = fields(raw)
        attributes = {text(fields(a), 1): fields(fields(a)[2][0]) for a in node.get(5, [])}
        shapes = attributes.get("_output_shapes")
        nodes.append({"name": text(node, 1), "op": text(node, 2),
                      "inputs": [i.decode() for i in node.get(3, [])],
                      "shapes": [shape(s) for s in fields(shapes[1][0]).get(7, [])] if shapes
                      else []})
    return nodes


def events(path):
    with open(path, "rb") as file:
        data = file.read()
    for record in records(data):
        message = fields(record)
        base = {"time": double(message, 1), "step": signed(one(message, 2, 0))}
        if 3 in message:
            yield {**base, "kind": "version", "text": text(message, 3)}
        if 4 in message:
            yield {**base, "kind": "graph", "nodes": graph(message[4][0])}
        for raw in fields(one(message, 5)).get(1, []):
            value = fields(raw)
            metadata = fields(one(value, 9))
            plugin = fields(one(metadata, 1))
            event = {**base, "tag": text(value, 1), "kind": text(plugin, 1),
                     "class": one(metadata, 4, 0)}
            if event["kind"] == "hparams":
                event["hparams"] = hparams(one(plugin, 2))
            if 2 in value:
                event["kind"], event["values"] = "scalars", list(struct.unpack("<f", value[2][0]))
            if 8 in value:
                event["shape"], event["values"] = tensor(value[8][0])
            yield event


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for found in events(name):
            print(json.dumps(found, default=lambda raw: raw.decode("latin-1")))
