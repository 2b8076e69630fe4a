# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_onnx for make_corpus.py, in protobuf's wire format."""
import struct


def varint(value):
    out = b""
    value &= (1 << 64) - 1
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def whole(number, value):
    return varint(number << 3) + varint(value)


def part(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


def wholes(*values):
    return struct.pack("<%dq" % len(values), *values)


def tensor(name, shape, kind, raw=None, more=b""):
    out = b"".join(whole(1, d) for d in shape) + whole(2, kind) + part(8, name)
    return out + (part(9, raw) if raw is not None else b"") + more


def attribute(name, value):
    out = part(1, name)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack("<f", value) + whole(20, 1)
    if isinstance(value, int):
        return out + whole(3, value) + whole(20, 2)
    if isinstance(value, str):
        return out + part(4, value) + whole(20, 3)
    if isinstance(value, list) and isinstance(value[0], float):
        return out + part(7, floats(*value)) + whole(20, 6)
    if isinstance(value, list):
        return out + part(8, b"".join(map(varint, value))) + whole(20, 7)
    kind, message = value
    return out + part(kind, message) + whole(20, 4 if kind == 5 else 5)


def node(op, inputs, outputs, **attributes):
    out = b"".join(part(1, x) for x in inputs) + b"".join(part(2, x) for x in outputs)
    out += part(3, "a " + op) + part(4, op)
    return out + b"".join(part(5, attribute(k, v)) for k, v in attributes.items())


def port(name, dims, kind=1):
    shape = b"".join(part(1, part(2, d) if isinstance(d, str) else whole(1, d)) for d in dims)
    return part(1, name) + part(2, part(1, whole(1, kind) + part(2, shape)))


def graph(nodes, initializers, inputs, outputs):
    return (b"".join(part(1, n) for n in nodes) + part(2, "g")
            + b"".join(part(5, t) for t in initializers) + b"".join(part(11, p) for p in inputs)
            + b"".join(part(12, p) for p in outputs))


def model(opset, *parts):
    return whole(1, 8) + part(2, "seeds") + part(7, graph(*parts)) + part(8, whole(2, opset))


def image_model():
    conv = node("Conv", ["x", "a.weight", "a.bias"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2])
    norm = node("BatchNormalization", ["c", "n.g", "n.b", "n.m", "n.v"], ["d"], epsilon=1e-3)
    tail = [node("HardSigmoid", ["d"], ["e"], alpha=0.25), node("GlobalAveragePool", ["e"], ["f"]),
            node("Flatten", ["f"], ["g"]),
            node("Gemm", ["g", "h.weight"], ["y"], transB=1)]
    weights = [tensor("a.weight", (2, 1, 3, 3), 1, floats(*range(18))),
               tensor("a.bias", (2,), 1, None, part(4, floats(1, 2)))]
    weights += [tensor("n." + c, (2,), 1, floats(1, 2)) for c in "gbmv"]
    weights += [tensor("h.weight", (3, 2), 10, bytes(12))]
    return model(13, [conv, norm] + tail, weights, [port("x", ["n", 1, 6, "w"])],
                 [port("y", ["n", 3])])


def shape_model():
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["h"]),
             node("Constant", [], ["two"], value=(5, tensor("", (1,), 7, wholes(2)))),
             node("Div", ["h", "two"], ["k"]), node("Unsqueeze", ["k", "zero"], ["u"]),
             node("Concat", ["minus", "u", "two"], ["t"], axis=0),
             node("Cast", ["t"], ["i"], to=7), node("Reshape", ["x", "i"], ["y"]),
             node("Slice", ["y", "zero", "two", "minus"], ["z"])]
    numbers = [tensor("one", (), 7, wholes(1)), tensor("zero", (1,), 7, None, whole(7, 0)),
               tensor("minus", (1,), 7, None, part(7, varint(-1)))]
    return model(14, nodes, numbers, [port("x", [1, 4, 5])], [port("z", [])])


def branch_model():
    small = graph([node("Relu", ["x"], ["r"])], [], [], [port("r", [])])
    large = graph([node("Neg", ["x"], ["m"])], [tensor("w", (1,), 1, floats(1))], [],
                  [port("m", [])])
    one = tensor("", (1,), 1, floats(1))
    nodes = [node("ConstantOfShape", ["shape"], ["ones"], value=(5, one)),
             node("ReduceProd", ["shape"], ["count"], keepdims=0),
             node("Greater", ["count", "shape0"], ["is"]),
             node("If", ["is"], ["b"], then_branch=(6, small), else_branch=(6, large)),
             node("Add", ["b", "ones"], ["y"])]
    numbers = [tensor("shape", (2,), 7, wholes(1, 3)), tensor("shape0", (), 7, wholes(2))]
    return model(11, nodes, numbers, [port("x", ["n", 3])], [port("y", [])])


def recurrent_model():
    nodes = [node("LSTM", ["x", "w", "r", "", "", "h"], ["y", "", "c"], hidden_size=1,
                  direction="forward"),
             node("Squeeze", ["y"], ["z"], axes=[1]),
             node("DequantizeLinear", ["q", "scale", "zero"], ["f"], axis=0),
             node("MatMul", ["z", "f"], ["out"]), node("Gather", ["table", "tokens"], ["e"])]
    external = part(13, part(1, "location") + part(2, "weights.bin"))
    weights = [tensor("w", (1, 4, 2), 1, None, external + whole(14, 1)),
               tensor("r", (1, 4, 1), 1, floats(1, 2, 3, 4)), tensor("h", (1, 1, 1), 1, floats(0)),
               tensor("q", (1, 2), 3, b"\x01\xff"), tensor("scale", (1,), 1, floats(0.5)),
               tensor("zero", (1,), 3, b"\x02"), tensor("table", (2, 2), 16, bytes(8))]
    return model(12, nodes, weights, [port("x", [3, 1, 2]), port("tokens", [1, 3], 7)],
                 [port("out", []), port("e", []), port("c", [])])


def norm_model():
    """A layer normalisation and GELU as PyTorch's exporter wrote them."""
    nodes = [node("ReduceMean", ["x"], ["m"], axes=[-1]), node("Sub", ["x", "m"], ["d"]),
             node("Pow", ["d", "two"], ["p"]), node("ReduceMean", ["p"], ["v"], axes=[-1]),
             node("Add", ["v", "eps"], ["w"]), node("Sqrt", ["w"], ["s"]),
             node("Div", ["d", "s"], ["q"]), node("Mul", ["q", "l.weight"], ["k"]),
             node("Add", ["k", "l.bias"], ["n"]), node("Div", ["n", "root"], ["a"]),
             node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"]),
             node("Mul", ["n", "c"], ["e"]), node("Mul", ["e", "half"], ["y"]),
             node("Clip", ["y", "", "one"], ["z"])]
    numbers = [tensor(n, (), 1, floats(v)) for n, v in (("two", 2), ("eps", 1e-5), ("one", 1),
                                                        ("root", 2**0.5), ("half", 0.5))]
    numbers += [tensor("l." + n, (3,), 1, floats(1, 2, 3)) for n in ("weight", "bias")]
    return model(13, nodes, numbers, [port("x", ["n", 5, 3])], [port("z", [])])


def old_models():
    """Of operation sets that had sizes and axes in attributes."""
    enlarge = [node("Upsample", ["x"], ["u"], scales=[1.0, 1.0, 2.0, 1.0]),
               node("CastLike", ["u", "x"], ["y"])]
    yield "enlarged", model(8, enlarge, [], [port("x", ["n", 2, 2, 1])], [port("y", [])])
    nodes = [node("Add", ["x", "b"], ["a"], axis=1, broadcast=1),
             node("PRelu", ["a", "s"], ["y"])]
    yield "broadcast", model(6, nodes, [tensor(n, (2,), 1, floats(-9.5, 0.5)) for n in "bs"],
                             [port("x", ["n", 2, 2, 1])], [port("y", [])])


def hostile():
    """Sizes, cycles and paths that no model has."""
    fill = [node("ConstantOfShape", ["s"], ["y"]), node("Add", ["x", "y"], ["z"])]
    yield "huge", model(13, fill, [tensor("s", (2,), 7, wholes(1 << 40, 1 << 40))],
                        [port("x", [1, 2])], [port("z", [])])
    yield "cycle", model(13, [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], [],
                         [port("x", [1, 2])], [port("b", [])])
    yield "itself", model(13, [node("Add", ["x", "a"], ["a"])], [], [port("x", [1, 2])],
                          [port("a", [])])
    body = graph([node("Identity", ["go"], ["on"])], [], [port("i", [], 7), port("go", [], 9)],
                 [port("on", [], 9)])
    turn = [node("Loop", ["m", "go"], ["z"], body=(6, body)), node("Add", ["x", "z"], ["y"])]
    yield "endless", model(13, turn, [tensor("m", (), 7, wholes((1 << 63) - 1)),
                                      tensor("go", (), 9, b"\x01")], [port("x", [1, 2])],
                           [port("y", [])])
    yield "overflow", model(13, [node("Add", ["x", "t"], ["y"])],
                            [tensor("t", (1 << 62, 1 << 62), 1, b"")], [port("x", [1, 2])],
                            [port("y", [])])
    deep = graph([], [], [], [])
    for _ in range(12):
        deep = graph([node("If", ["c"], ["y"], then_branch=(6, deep))], [], [], [port("y", [])])
    yield "deep", part(7, deep) + part(8, whole(2, 13))
    double = [node("Concat", ["a%d" % i, "a%d" % i], ["a%d" % (i + 1)], axis=0) for i in range(60)]
    yield "doubled", model(13, double + [node("Add", ["x", "a60"], ["y"])],
                           [tensor("a0", (64,), 7, wholes(*range(64)))], [port("x", [1, 64])],
                           [port("y", [])])


def every():
    """(fuzzer, name, data) of each."""
    yield ("onnx", "image", b"\0" + image_model())
    yield ("onnx", "shapes", b"\0" + shape_model())
    yield ("onnx", "branches", b"\0" + branch_model())
    yield ("onnx", "recurrent", bytes([32]) + recurrent_model() + floats(*range(8)))
    yield ("onnx", "norms", b"\0" + norm_model())
    for name, data in (*old_models(), *hostile()):
        yield ("onnx", name, b"\0" + data)
