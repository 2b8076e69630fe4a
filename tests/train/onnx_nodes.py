# SPDX-License-Identifier: Apache-2.0
"""Makes models with inputs and outputs of the ONNX project's own tests. Usage: onnx_nodes.py FOLDER
all|sample

FOLDER/manifest.json lists them. The tests come with Debian's libonnx-testdata, and python3-onnx
reads them. Exits with 77, and says why, where these are not installed.

A test gives all operands as inputs. A model here has a batch, and may have weights, so that each
test becomes up to two models: one whose inputs all have the batch as their first dimension, and one
whose first input alone stays one; others become initializers. One of the two has to work."""
import json
import pathlib
import subprocess
import sys

DATA = pathlib.Path("/usr/share/libonnx-testdata/data")
KINDS = ("node", "pytorch-converted", "pytorch-operator", "simple")
SAMPLE = 12  # every so many-th test
MOST_INPUTS = 8


def main():
    import numpy as np
    import onnx
    from onnx import numpy_helper

    class NoTensor(Exception):
        pass

    def tensor_of(path, port):
        if not port.type.HasField("tensor_type"):
            raise NoTensor
        message = onnx.TensorProto()
        message.ParseFromString(path.read_bytes())
        array = numpy_helper.to_array(message)
        if message.data_type == onnx.TensorProto.BFLOAT16:
            bits = np.frombuffer(message.raw_data, "<u2").astype("<u4") << 16
            array = bits.view("<f4").reshape(array.shape)
        if array.dtype.kind not in "fiub":
            raise NoTensor
        return message, array

    def write_array(name, array, kind):
        with np.errstate(over="ignore"):
            if array.dtype.kind == "f":
                array = array.astype("<f4")  # as numbers are here
            (out / name).write_bytes(np.ascontiguousarray(array).astype(kind).tobytes())
        return {"file": name, "shape": list(array.shape), "type": kind}

    def add_inputs(model, name, tensors, kept):
        """The model with only some of its inputs left, and these."""
        made = onnx.ModelProto()
        made.CopyFrom(model)
        ports = list(made.graph.input)
        del made.graph.input[:]
        listed = []
        for i, (port, (message, array)) in enumerate(zip(ports, tensors)):
            if i not in kept:
                message.name = port.name
                made.graph.initializer.append(message)
                continue
            made.graph.input.append(port)
            whole = array.dtype.kind in "iu"
            listed.append(write_array(f"{name}.{i}", array.clip(-2**31, 2**31 - 1) if whole else
                                      array, "i4" if whole else "f4"))
        (out / (name + ".onnx")).write_bytes(made.SerializeToString())
        return {"model": name + ".onnx", "inputs": listed}

    def models_of(folder, name):
        model = onnx.load(folder / "model.onnx")
        data = folder / "test_data_set_0"
        given = {t.name for t in model.graph.initializer}
        ports = [p for p in model.graph.input if p.name not in given]
        del model.graph.input[:]
        model.graph.input.extend(ports)
        # random, and rounded to a type that is f32 here
        dropout = name.startswith("test_training_dropout") and "zero" not in name
        if dropout or "_to_BFLOAT16" in name:
            raise NoTensor
        tensors = [tensor_of(data / f"input_{i}.pb", p) for i, p in enumerate(ports)]
        outputs = [tensor_of(data / f"output_{i}.pb", p) for i, p in enumerate(model.graph.output)]
        shapes = [array.shape for _, array in tensors]
        ways = []
        batches = {s[:1] for s in shapes}
        if len(shapes) <= MOST_INPUTS and len(batches) == 1 and () not in batches:
            ways.append(set(range(len(shapes))))
        first = next((i for i, s in enumerate(shapes) if s), None)
        if first is not None and {first} not in ways:
            ways.append({first})
        if not ways:
            raise NoTensor
        return {"name": name,
                "ways": [add_inputs(model, f"{name}.way{k}", tensors, way)
                         for k, way in enumerate(ways)],
                "outputs": [write_array(f"{name}.out{i}", array, "f8")
                            for i, (_, array) in enumerate(outputs)]}

    out, every = pathlib.Path(sys.argv[1]), SAMPLE if sys.argv[2] == "sample" else 1
    folders = [folder for kind in KINDS for folder in sorted((DATA / kind).glob("test_*"))]
    listed = []
    for folder in folders[::every]:
        try:
            listed.append(models_of(folder, folder.name))
        except NoTensor:
            pass  # of texts, sequences, scalars alone
    (out / "manifest.json").write_text(json.dumps({"tests": listed}))


try:
    import onnx  # noqa: F401
except ImportError:
    if sys.executable != "/usr/bin/python3":
        # distributions' modules belong to their own interpreter
        sys.exit(subprocess.run(["/usr/bin/python3", *sys.argv]).returncode)
    print("SKIP: no Python module onnx (Debian: python3-onnx)")
    sys.exit(77)
if not DATA.is_dir():
    print("SKIP: no tests of ONNX (Debian: libonnx-testdata)")
    sys.exit(77)
main()
