# SPDX-License-Identifier: Apache-2.0
"""An independent reader of safetensors and .npy files, from the formats' public descriptions.
Checks that every array counts 0, 1, 2, ... Usage: read_arrays.py FILE NAME DTYPE SHAPE... (shape as
2x3; for .npy the name is ignored)"""
import ast
import json
import struct
import sys

path, name, dtype, shape = sys.argv[1:5]
shape = [int(d) for d in shape.split("x")] if shape != "scalar" else []
data = open(path, "rb").read()
if path.endswith(".npy"):
    assert data[:8] == b"\x93NUMPY\x01\x00"
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0 and data[9 + length:10 + length] == b"\n"
    header = ast.literal_eval(data[10:10 + length].decode("latin1"))
    assert not header["fortran_order"]
    found = {"<f4": "F32", "<f2": "F16", "<i4": "I32", "<i8": "I64", "|u1": "U8"}[header["descr"]]
    dims, raw = list(header["shape"]), data[10 + length:]
else:
    length = struct.unpack("<Q", data[:8])[0]
    assert length % 8 == 0 and data[8:9] == b"{"
    header = json.loads(data[8:8 + length])
    end = 0
    for entry in sorted((e for n, e in header.items() if n != "__metadata__"),
                        key=lambda e: e["data_offsets"]):
        assert entry["data_offsets"][0] == end, "a gap or an overlap"
        end = entry["data_offsets"][1]
    assert 8 + length + end == len(data)
    entry = header[name]
    found, dims = entry["dtype"], entry["shape"]
    raw = data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
assert found == dtype and dims == shape, (found, dims)
if dtype == "BF16":
    values = [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
else:
    code = {"F32": "f", "F16": "e", "I32": "i", "I64": "q", "U8": "B"}[dtype]
    values = list(struct.unpack("<%d%s" % (len(raw) // struct.calcsize("<" + code), code), raw))
count = 1
for d in shape:
    count *= d
assert values == list(range(count)), values
