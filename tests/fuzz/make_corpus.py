#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzzers whose formats are text or simple enough to be written here; the
same bytes every time.

tests/fuzz/make_corpus.py        into tests/fuzz/corpus

What the library's own writers made (fuzz_archive, fuzz_events, messages) and what fuzzing has found
is not touched. """
import gzip
import json
import pathlib
import struct
import sys
import zlib

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
sys.path[:0] = [str(CORPUS.parents[1] / room) for room in ("support", "text")]
import families  # noqa: E402
import gguf_seeds  # noqa: E402
import line_seeds  # noqa: E402
import lora_seeds  # noqa: E402
import onnx_seeds  # noqa: E402
import tfrecord as tf  # noqa: E402


def seed(fuzzer, name, data):
    folder = CORPUS / ("fuzz_" + fuzzer)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def safetensors():
    f32, u8 = struct.pack("<6f", *range(6)), bytes(range(5))
    header = {"__metadata__": {"format": "pt"},
              "conv/kernel": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
              "labels": {"dtype": "U8", "shape": [5], "data_offsets": [24, 29]},
              "none": {"dtype": "I64", "shape": [0, 7], "data_offsets": [29, 29]}}
    text = compact(header)
    seed("safetensors", "file", b"\0" + struct.pack("<Q", len(text)) + text.encode() + f32 + u8)
    seed("safetensors", "header", b"\1" + text.encode() + b"\n" + f32 + u8)
    for dtype, size in ("F16", 2), ("BF16", 2), ("I32", 4), ("F64", 8):
        one = {"a": {"dtype": dtype, "shape": [], "data_offsets": [0, size]}}
        seed("safetensors", dtype.lower(), b"\1" + compact(one).encode() + b"\n" + bytes(size))
    several = {"a": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]},
               "b": {"dtype": "U8", "shape": [1] * 7, "data_offsets": [1, 2]},
               "c": {"dtype": "\x1b\u00e9", "shape": [], "data_offsets": [2, 2]}}
    seed("safetensors", "types", b"\1" + compact(several).encode() + b"\n12")
    seed("safetensors", "gap", '\1{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}\n12')


def npy():
    def header(descr, shape, order="False"):
        return "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)
    text = header("<f4", "(2, 3)").encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    seed("npy", "version1", b"\0\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text
         + struct.pack("<6f", *range(6)))
    seed("npy", "version2", b"\0\x93NUMPY\2\0" + struct.pack("<I", len(text)) + text
         + struct.pack("<6f", *range(6)))
    for name, descr, shape, size in (("scalar", "<f2", "()", 2), ("vector", "<i4", "(3,)", 12),
                                     ("bytes", "|u1", "(1, 2, 2)", 4),
                                     ("empty", "<i8", "(0, 4)", 0)):
        seed("npy", name, b"\1" + header(descr, shape).encode() + b"\n" + bytes(size))
    seed("npy", "fortran", "\1" + header("<f8", "(2,)", "True") + "\n")


def idx():
    def file(kind, shape, data):
        return bytes([0, 0, kind, len(shape)]) + struct.pack(">%dI" % len(shape), *shape) + data
    images, labels = file(8, (2, 3, 3), bytes(range(18))), file(8, (2,), b"\3\7")
    seed("idx", "images", b"\0" + images)
    seed("idx", "labels", b"\0" + labels)
    seed("idx", "images.gz", b"\0" + gzip.compress(images, mtime=0))
    seed("idx", "members.gz", b"\0" + gzip.compress(images[:9], mtime=0)
         + gzip.compress(images[9:], mtime=0))
    seed("idx", "packed", b"\1" + images)
    seed("idx", "one_byte_more", b"\1" + images + b"\0")
    for name, kind, data in (("i8", 9, b"\xff\1"), ("i16", 11, b"\xff\0\0\1"),
                             ("i32", 12, bytes(8)), ("f32", 13, b"\x3f\x80\0\0" * 2),
                             ("f64", 14, struct.pack(">2d", 1.5, 1e300))):
        seed("idx", name, b"\1" + file(kind, (2,), data))


def cifar():
    """The first byte: of 100 classes, zeros up to a whole record."""
    seed("cifar", "ten", b"\2\3")
    seed("cifar", "hundred", b"\3\1\7")
    seed("cifar", "cut", b"\0" + bytes(100))
    seed("cifar", "label", b"\2\12")


def csv():
    """The first byte: a header (1), semicolons (2), empty fields have a value (4), integers too
    (8)."""
    seed("csv", "plain", b"\x08" + b"1.5,2,3\n-4e-3,5,+.5\r\n")
    seed("csv", "header", b"\x09" + b"\xef\xbb\xbfb,\"a\",c\r\n1,2,inf\r\n\r\n 3 ,\"4\",nan")
    seed("csv", "quoted", b"\x00" + b'"1","2""\n,x",3\n4,,5\n')
    seed("csv", "semicolons", b"\x0e" + b"1;;\n;2147483647;3\n")
    seed("csv", "ragged", b"\x00" + b"1,2,3\n1,2\n")
    seed("csv", "open_quote", b"\x00" + b'1,2,3\n1,"2,3\n')
    seed("csv", "left_out", b"\x18" + b'1,2,3\nx,1,2\n"4,5\n5,6,7\n8,9\n')
    seed("csv", "returns", b"\x09" + b"a,b,c\r1,2,3\r\r4,\"5\",6\r\n7,8,9\n")
    seed("csv", "utf16", b"\x08" + "1,2,3\n".encode("utf-16-le"))
    seed("csv", "utf32", b"\x08\0\0\xfe\xff" + "1,2,3\n".encode("utf-32-be"))
    seed("csv", "too_large", b"\x08" + b"1e39,2147483648,0x1\n")


def image():
    """PNG alone; the JPEG files are libjpeg's. The first byte: what is asked for, and whether
    checksums are put right (fuzz_image.c)."""
    def chunk(name, data):
        return struct.pack(">I",
                           len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    def png(width, height, depth, kind, rows, *others, interlaced=0):
        header = struct.pack(">2I5B", width, height, depth, kind, 0, 0, interlaced)
        # No compression: the same bytes from every zlib.
        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(others)
                + chunk(b"IDAT", zlib.compress(rows, 0)) +
                chunk(b"IEND", b""))
    palette, alphas = chunk(b"PLTE", bytes(range(12))), chunk(b"tRNS", b"\x80\0")
    files = {"grey1": png(9, 2, 1, 0, b"\0\xa5\x80" * 2),
             "grey16": png(2, 2, 16, 0, b"\2\1\2\3\4" * 2),
             "grey_alpha": png(2, 2, 8, 4, b"\1\1\2\3\4" * 2),
             "rgb": png(2, 3, 8, 2, b"\4\1\2\3\4\5\6" * 3),
             "rgba": png(1, 2, 8, 6, b"\3\1\2\3\4" * 2),
             "palette": png(4, 2, 2, 3, b"\0\x1b" * 2, palette, alphas),
             "interlaced": png(3, 3, 8, 0, b"\0\1" + b"\0\2" + b"\0\3\4" + b"\0\5" * 2
                               + b"\0\6\7\1", interlaced=1),
             "grey_through": png(2, 1, 8, 0, b"\0\1\2", chunk(b"tRNS", b"\0\1")),
             "large": png(1 << 20, 1 << 20, 8, 0, b"\0" * 9)}
    for number, (name, data) in enumerate(files.items()):
        seed("image", name + ".png", bytes([4 + number % 4]) + data)
    seed("image", "cut.png", b"\0" + files["rgb"][:60])


def tfrecord():
    """The first byte: what the rest is, and what is asked for (fuzz_tfrecord.c)."""
    packed = tf.example(("f", tf.floats([1.5, -2])), ("i", tf.integers([7, -1, 2**31 - 1])),
                        ("b", tf.strings(b"four")))
    loose = tf.example(("b", tf.strings(b"four")), ("i", tf.integers([300], False)),
                       ("f", tf.floats([0, 3], False)), ("x", b""))
    odd = tf.example(("i", tf.integers([2**40])), ("b", tf.strings(b"a", b"b")),
                     ("f", tf.integers([1])), ("f", tf.floats([1, 2])))
    for name, message in ("packed", packed), ("loose", loose), ("odd", odd), ("nothing", b""):
        seed("tfrecord", "message_" + name, b"\1" + message)
        seed("tfrecord", "lenient_" + name, b"\5" + message)
    data = tf.record(packed) + tf.record(loose) + tf.record(b"") + tf.record(packed)
    seed("tfrecord", "file", b"\0" + data)
    seed("tfrecord", "put_right", b"\2" + data[:-9])
    seed("tfrecord", "compressed", b"\7" + data)
    seed("tfrecord", "gzip", b"\4" + gzip.compress(data[:70], 0, mtime=0)
         + gzip.compress(data[70:], 0, mtime=0))
    seed("tfrecord", "zlib", b"\4" + zlib.compress(data, 0))
    seed("tfrecord", "cut", b"\0" + data[:40])


def iterator_state():
    """The first byte: odd, with the number of the pipeline; then batch size, examples before,
    epoch, position."""
    for number, name in enumerate(("shuffled", "zip", "concatenate", "unbatch", "padded_batch",
                                   "flat_map", "interleave", "ignore_errors", "sample")):
        for batch, first, epoch, position in (5, 0, 0, 3), (2, 7, 9, 4), (5, 0, 1, 1000):
            seed("iterator_state", "%s_%d_%d" % (name, batch, position),
                 bytes([2 * number + 1]) + struct.pack("<4Q", batch, first, epoch, position))


def model():
    affine = {"activation": "relu", "use_bias": True,
              "kernel_initializer": {"kind": "he_uniform", "a": 0.0, "b": 0.0, "seed": 7},
              "bias_initializer": {"kind": "constant", "a": 0.5, "b": 0.0, "seed": 0},
              "kernel_regularizer": {"l1": 0.0, "l2": 0.001}}
    pool = {"window": [2, 2], "stride": [2, 2], "padding": "valid",
            "explicit_padding": [0, 0, 0, 0]}
    layers = [{"kind": "reshape", "name": "reshape", "shape": [8, 8, -1]},
              {"kind": "conv2d", "name": "conv2d", "filters": 4, "kernel_size": [3, 3],
               "padding": "explicit", "stride": [1, 1],
               "dilation": [1, 1], "groups": 1, "explicit_padding": [1, 1, 1, 1], **affine},
              {"kind": "max_pooling2d", "name": "max", **pool},
              {"kind": "average_pooling2d", "name": "mean", **pool},
              {"kind": "activation", "name": "activation", "activation": "gelu"},
              {"kind": "dropout", "name": "dropout", "rate": 0.25, "seed": 3},
              {"kind": "global_average_pooling2d", "name": "global"},
              {"kind": "flatten", "name": "flatten"},
              {"kind": "dense", "name": "dense", "units": 10, **affine}]
    seed("model", "architecture", "\0" + compact({"input_shape": [64], "layers": layers}))
    for layer in layers:
        seed("model", "layer_" + layer["kind"],
             "\0" + compact({"input_shape": [8, 8, 1], "layers": [layer]}))
    embedding = {"kind": "embedding", "name": "embedding", "input_dim": 11, "output_dim": 4,
                 "initializer": {"kind": "random_uniform", "a": -0.05, "b": 0.05, "seed": 1},
                 "regularizer": {"l1": 0.0, "l2": 0.001}}
    seed("model", "layer_embedding",
         "\0" + compact({"input_shape": [5], "input_dtype": "i32", "layers": [embedding]}))
    normalization = {"kind": "batch_normalization", "name": "norm", "axis": -1, "momentum": 0.99,
                     "epsilon": 0.001, "center": True, "scale": True,
                     "gamma_initializer": {"kind": "ones", "a": 0.0, "b": 0.0, "seed": 0},
                     "beta_initializer": {"kind": "zeros", "a": 0.0, "b": 0.0, "seed": 0},
                     "gamma_regularizer": {"l1": 0.0, "l2": 0.001},
                     "beta_regularizer": {"l1": 0.001, "l2": 0.0}}
    seed("model", "layer_batch_normalization",
         "\0" + compact({"input_shape": [4, 4, 2], "layers": [normalization]}))
    left_out = {k: v for k, v in normalization.items() if k.split("_")[0] not in ("gamma", "beta")}
    left_out.update(virtual_batch_size=8, axis=1, epsilon=1e-60, center=False, scale=False)
    seed("model", "layer_batch_normalization_bare",
         "\0" + compact({"input_shape": [3, 5], "layers": [left_out]}))
    ones, zeros = ({"kind": kind, "a": 0.0, "b": 0.0, "seed": 0} for kind in ("ones", "zeros"))
    for kind in "layer", "rms":
        norm = {"kind": kind + "_normalization", "name": "norm", "epsilon": 0.001, "scale": True,
                "gamma_initializer": ones,
                **({"center": True, "beta_initializer": zeros} if kind == "layer" else {})}
        seed("model", "layer_" + norm["kind"],
             "\0" + compact({"input_shape": [8], "layers": [norm]}))
    grouped = {**{k: v for k, v in normalization.items() if k != "momentum"},
               "kind": "group_normalization", "groups": 2}
    seed("model", "layer_group_normalization",
         "\0" + compact({"input_shape": [4, 4, 6], "layers": [grouped]}))
    moves = {"padding": "same", "stride": [1, 2], "dilation": [2, 1], "groups": 0,
             "explicit_padding": [0, 0, 0, 0]}
    depthwise = {"kernel_size": [3, 2], "depth_multiplier": 2, **moves, **affine}
    image_layers = {"depthwise_conv2d": depthwise,
                    "separable_conv2d": {"filters": 4, **depthwise, "pointwise_initializer": zeros,
                                         "pointwise_regularizer": {"l1": 0.0, "l2": 0.001}},
                    "global_max_pooling2d": {}, "zero_padding2d": {"padding": [1, 0, 2, 1]},
                    "up_sampling2d": {"factor": [2, 3], "interpolation": "bilinear"},
                    "spatial_dropout2d": {"rate": 0.5, "seed": 3},
                    "p_re_lu": {"shared_axes": [-2, 1], "alpha_initializer": zeros,
                                "alpha_regularizer": {"l1": 0.0, "l2": 0.001}}}
    pool1d = {"window": 2, "stride": 2, "padding": "valid"}
    sequence_layers = {"conv1d": {"filters": 4, "kernel_size": 3, "padding": "valid",
                                  "causal": True, "stride": 1, "dilation": 2, "groups": 1,
                                  **affine},
                       "max_pooling1d": pool1d, "average_pooling1d": pool1d,
                       "global_max_pooling1d": {}, "global_average_pooling1d": {},
                       "zero_padding1d": {"padding": [1, 2]},
                       "spatial_dropout1d": {"rate": 0.5, "seed": 3},
                       "leaky_re_lu": {"negative_slope": 0.3},
                       "time_distributed": {
                           "layer": {"kind": "reshape", "name": "time_distributed",
                                     "shape": [3, 1]}},
                       "gaussian_noise": {"stddev": 0.5, "seed": 3},
                       "gaussian_dropout": {"rate": 0.5, "seed": 3}}
    for shape, kinds in ([5, 4, 3], image_layers), ([7, 3], sequence_layers):
        for kind, fields in kinds.items():
            seed("model", "layer_" + kind,
                 "\0"
                 + compact({"input_shape": shape,
                            "layers": [{"kind": kind, "name": kind, **fields}]}))
    seed("model", "functional", "\0" + compact(functional(embedding, norm, layers[-1])))
    schedule = {"kind": "constant", "initial": 0.001, "rate": 0.0, "alpha": 0.0, "end": 0.0,
                "power": 0.0, "decay_steps": 0,
                "warmup_steps": 0, "staircase": False, "boundaries": [], "values": []}
    optimizer = {"kind": "adam", "learning_rate": schedule, "momentum": 0.0, "nesterov": False,
                 "beta_1": 0.9, "beta_2": 0.999,
                 "epsilon": 1e-7, "rho": 0.9, "weight_decay": 0.0, "clip_value": 0.0,
                 "clip_norm": 1.0, "global_clip_norm": 0.0,
                 "accumulation_steps": 2}
    training = {"optimizer": optimizer,
                "loss": {"kind": "sparse_categorical_crossentropy", "from_logits": True,
                         "reduction": "auto"},
                "metrics": ["sparse_categorical_accuracy", "mean"], "steps_per_execution": 4}
    for kind in "sgd", "adam", "adamw", "rmsprop":
        seed("model", "training_" + kind,
             "\1" + compact({**training, "optimizer": {**optimizer, "kind": kind}}))
        seed("model", "optimizer_" + kind, "\3" + compact({**optimizer, "kind": kind}))
    groups = [{"names": "*bias,*gamma", "rate_factor": 0.0, "no_weight_decay": True},
              {"names": "head/?*", "rate_factor": 10.0}]
    for kind, more in (("adagrad", {"initial_accumulator_value": 0.5}),
                       ("nadam",
                        {"groups": groups, "loss_scale": 64.0, "loss_scale_growth_steps": 200}),
                       ("lion", {"groups": groups[1:]}),
                       ("muon",
                        {"momentum": 0.95,
                         "groups": [{**groups[0], "muon": {"adamw": True}}, {**groups[1], "muon": {
                           "embeddings": True, "plain_momentum": True, "row_dimensions": 3,
                           "scale": "shape", "rms_rate": 0.0, "steps": 6}}]}),
                       ("lamb", {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 5,
                                 "hyperparameters": []})):
        seed("model", "optimizer_" + kind, "\3" + compact({**optimizer, **more, "kind": kind}))
        seed("model", "training_" + kind,
             "\1" + compact({**training, "optimizer": {**optimizer, **more, "kind": kind}, "loss": {
            "kind": "binary_crossentropy", "from_logits": True, "reduction": "auto",
            "label_smoothing": 0.1, "delta": 0.0},
            "metrics": ["precision", "recall"]}))
    for kind, more in (("constant", {}),
                       ("exponential_decay", {"rate": 0.9, "decay_steps": 10, "staircase": True}),
                       ("piecewise_constant",
                        {"initial": 0.0, "boundaries": [5, 9], "values": [0.1, 0.01, 0.001]}),
                       ("cosine_decay", {"alpha": 0.1, "decay_steps": 100, "warmup_steps": 5}),
                       ("polynomial_decay", {"end": 1e-5, "power": 2.0, "decay_steps": 100}),
                       ("inverse_time_decay", {"rate": 0.5, "decay_steps": 10}),
                       ("inverse_sqrt", {"warmup_steps": 5}),
                       ("cosine_restarts", {"decay_steps": 10, "t_mul": 1.5, "m_mul": 0.5})):
        seed("model", "schedule_" + kind, "\2" + compact({**schedule, "kind": kind, **more}))
    weighted = {"kind": "mean_absolute_error", "output": 0, "threshold": 0.0, "from_logits": False,
                "k": 0, "num_thresholds": 0, "weighted": True}
    seed("model", "training_weighted", "\1" + compact({**training, "metrics": [weighted], "loss": {
        "kind": "mean_squared_error", "reduction": "mean_with_sample_weight"}}))
    classes = {**weighted, "kind": "f1_score", "weighted": False, "average": "macro",
               "num_classes": 10}
    seed("model", "training_classes", "\1" + compact({**training, "metrics": [classes]}))
    top = {"kind": "sparse_top_k_categorical_accuracy", "output": 1, "name": "top",
           "threshold": 0.0, "from_logits": False, "k": 3,
           "num_thresholds": 0}
    seed("model", "training_two_outputs",
         "\1" + compact({**training, "losses": [training["loss"], {"kind": "mean_squared_error"}],
                                                         "loss_weights": [1.0, 0.25],
                                                         "metrics": [top, "mean_absolute_error"]}))


def functional(embedding, norm, dense):
    """Every layer of several tensors once, in a graph with two inputs, a mask, states and two
    outputs."""
    initializer = {"kind": "glorot_uniform", "a": 0.0, "b": 0.0, "seed": 0}
    penalty = {"l1": 0.0, "l2": 0.0}
    recurrent = {"units": 4, "return_sequences": True, "go_backwards": False, "use_bias": True,
                 "kernel_initializer": initializer,
                 "recurrent_initializer": {**initializer, "kind": "orthogonal"},
                 "kernel_regularizer": penalty, "recurrent_regularizer": penalty}
    attention = {"num_heads": 2, "num_key_value_heads": 1, "key_dim": 2, "value_dim": 3,
                 "output_dim": 0, "dropout": 0.1, "seed": 4,
                 "rotary_base": 10000.0, "causal": True, "use_bias": True,
                 "kernel_initializer": initializer}
    layers, calls, values = [], [], 2

    def call(kind, inputs, outputs=1, mask=None, **fields):
        nonlocal values
        layers.append({"kind": kind, "name": "%s_%d" % (kind, len(layers)), **fields})
        calls.append({"layer": layers[-1]["name"], "inputs": inputs, "outputs": outputs,
                      **({} if mask is None else {"mask": mask})})
        values += outputs
        return values - outputs

    mask = call("not_equal", [0], value=0)
    x = call(inputs=[0], **{k: v for k, v in embedding.items() if k != "name"})
    table = layers[-1]["name"]
    x = call("position_embedding", [x], max_length=9, initializer=initializer, trainable=False)
    x = call("sine_position_encoding", [x], max_wavelength=100.0)
    y = call("bidirectional", [x], 3, mask, layer="gru", merge_mode="sum", reset_after=True,
             **recurrent)
    y = call("lstm", [y], 3, mask, unit_forget_bias=True, **recurrent)
    z = call("gru", [y, y + 1], 2, mask, reset_after=False, **recurrent)
    z = call("simple_rnn", [z, z + 1], mask=mask, **recurrent)
    x = call("multi_head_attention", [x, z], mask=mask, **attention)
    for kind in "add", "multiply", "average", "maximum", "minimum":
        x = call(kind, [x, z, x])
    x = call("concatenate", [call("subtract", [x, z]), z], axis=-1)
    x = call(inputs=[x], **{k: v for k, v in norm.items() if k != "name"})
    calls.append({"layer": layers[-1]["name"], "inputs": [x], "outputs": 1})  # once more
    x, values = values, values + 1
    head = call("embedding_head", [z], embedding=table, use_bias=True)
    number = call(inputs=[1], **{k: v for k, v in dense.items() if k != "name"})
    return {"inputs": [{"name": "tokens", "dtype": "i32", "shape": [5]},
                       {"name": "numbers", "dtype": "f32", "shape": [3]}], "layers": layers,
            "calls": calls,
            "outputs": [{"name": "logits", "value": head}, {"name": "features", "value": x},
                        {"name": "number", "value": number}]}


def trace():
    def events(rank):
        return [{"name": "process_name", "ph": "M", "pid": rank,
                 "args": {"name": "worker %d" % rank}},
                {"name": "ringfire_clock", "ph": "M", "pid": rank,
                 "args": {"wall_start_ns": 1700000000000000000 + rank}},
                {"name": "step", "ph": "X", "pid": rank, "tid": 1, "ts": 12.5, "dur": 3,
                 "args": {"step": 1}}]
    def text(rank):
        return "[\n" + ",\n".join(map(compact, events(rank))) + "\n]\n"
    seed("trace", "one", text(0))
    seed("trace", "two", text(0) + "\0" + text(1))
    seed("trace", "same_rank", text(3) + "\0" + text(3))
    seed("trace", "cut", text(0)[:-20])
    seed("trace", "far", text(0).replace("1700000000000000000", "-9223372036854775808") + "\0"
         + text(1))
    seed("trace", "last_rank", text(9223372036854775807) + "\0" + text(9223372036854775807))


def text_files():
    seed("plot_csv", "epochs",
         "epoch,loss,accuracy,val_loss,val_sparse_categorical_accuracy\n"
         "0,1.5,0.5,1.25,0.625\n1,1.0,0.75,nan,0.5\n")
    seed("plot_csv", "rows", "loss\n3\n2\n1e-3\n")
    seed("plot_csv", "again", "step,loss\r\n0,3\r\n1,2\r\n1,1\r\n0,x\r\n")
    seed("hosts", "file",
         "\0# two nodes\nnode1 slots=2\nnode2\t slots=4 # the big one\n\n10.0.0.3\nnode1\n")
    seed("hosts", "file_address", "\0fe80::1%eth0 slots=1024\nuser@node-7.example.org\n")
    seed("hosts", "option", "\1a:2,b,[::1]:4,a,10.0.0.1:1024")
    seed("hosts", "option_colons", "\1::1:2,[::1],[::1]x,-o:1")
    seed("job_key", "key", "0123456789abcdefABCDEF0123456789" * 2 + "\n")
    seed("job_key", "short", "0123")
    seed("status", "file", "127.0.0.1:40123\n" + "0123456789abcdef" * 4)
    seed("status", "short", "[::1]:7\n00")
    seed("status", "status", compact({
        "program": "p", "steps": 3, "steps_per_second": 2.5, "workers": [{"address": "a"}],
        "replicas": [{"replica": 0, "rank": 7, "device": "\x1b", "share": 2}],
        "progress": {"epoch": 1, "epochs": 2, "batch": 9, "batches": 4, "remaining_seconds": -1,
                     "values": {"loss": 1}},
        "checkpoint": {"path": "x", "age_seconds": 1},
        "warnings": {"count": 9, "latest": ["w", 3]}}))
    choices = {"matmul 0123456789abcdef f32[8,16] f32[16,4] f32[8,4]": {
        "kernel": "tiles_4x4", "seconds": 1.5e-05},
               "relu 0000000000000000 f32[64] f32[64]": {"kernel": "lanes", "seconds": 0.25}}
    seed("tuning", "file",
         json.dumps({"format": 1, "library": "0.1.0", "device": "llvmpipe", "choices": choices},
                    indent=1))
    seed("tuning", "bad_choice",
         compact({"format": 1,
                  "choices": {"a": {"kernel": "b", "seconds": 1}, "c": {"seconds": 1}}}))


def wire():
    def frame(kind, rank, data):
        return struct.pack(">III", kind, rank, len(data)) + data
    hello = b"\1ringfire agent\1" + frame(1, 0, b"0.1.0\00012345")
    talk = (frame(2, 1, b"epoch 1\n") + frame(3, 0, b"warning\n") + frame(4, 1, b"0")
            + frame(5, 0, b"no such directory"))
    seed("wire", "agent", b"\xff" + b"Welcome to node1\n" + hello + talk)
    seed("wire", "bytewise", b"\1" + b"\1ringfire \1ringfire agent\1" + talk)
    order = b"aprogram\0a--epochs\0sA=b\0uC\0c/tmp\0k" + b"0" * 64 + b"\0r0\0n2\0g5\0"
    seed("wire", "orders", b"\x06" + frame(6, 0, order) + frame(7, 0, b"15") + frame(8, 0, b""))
    seed("order", "whole", order)
    seed("order", "end", order[:-1])
    seed("order", "no_count", order.replace(b"n2\0", b""))
    for name, text in (("rank", b"r1024\0"), ("count", b"n0\0"), ("grace", b"gnan\0"),
                       ("variable", b"s=B\0"), ("empty", b"\0\0"), ("kind", b"zq\0")):
        seed("order", name, order + text)
    seed("output", "lines", b"\x04one\ntwo words \r\n\nlast")
    seed("output", "empty_line", b"\x04\n\nafter\n")
    seed("output", "raw", b"\x09epoch 1\r\x1b[31mred\x1b[0m\n")
    seed("wire", "hello_port", b"\xff\1ringfire agent\1" + frame(1, 0, b"0.1.0\00065536")
         + frame(1, 0, b"\0000"))
    seed("wire", "nonsense", b"\x02" + frame(9, 0, b"x"))


def call_header():
    seed("call_header", "same", b"\1")
    seed("call_header", "payload", b"\1" + bytes(4) + b"\xff\xff")
    for name, at in (("magic", 0), ("serial", 8), ("count", 16), ("shape", 24), ("chunk", 32),
                     ("root", 36), ("kind", 38), ("algorithm", 39),
                     ("dtype", 40), ("op", 41), ("wire", 42), ("sealed", 43), ("name", 44)):
        seed("call_header", name, b"\1" + bytes(at) + b"\x55")
    for name, mode in ("plain", 0), ("sealed_message", 2), ("plain_data", 4), ("sealed_data", 6):
        seed("call_header", name, bytes([mode]))
        seed("call_header", name + "_changed", bytes([mode]) + bytes(50) + b"\1")
        seed("call_header", name + "_short", bytes([mode | 17 << 3]))


def fabric():
    def offer(*names, order=0x01020304):
        return struct.pack("<II", order,
                           len(names)) + b"".join(n.encode().ljust(64, b"\0") for n in names).ljust(
                               8 * 64, b"\0")
    def offers(*all_offers):
        return b"\0" + b"".join(struct.pack("<H", len(o)) + o for o in all_offers)
    seed("fabric", "offers",
         offers(offer("verbs", "tcp"), offer("tcp"), offer("opx", "tcp", "verbs")))
    seed("fabric", "offers_apart", offers(offer("verbs"), offer("tcp"), offer("verbs")))
    seed("fabric", "offers_none", offers(offer(), offer("tcp"), offer("tcp")))
    seed("fabric", "offers_order", offers(offer("tcp"), offer("tcp", order=0x04030201),
                                          offer("tcp")))
    def card(kind, family, size, length=148):
        address = struct.pack("<HHI", family, 0x5555, 0x0100007f).ljust(128, b"\0")
        return (bytes([1, kind]) + struct.pack("<H", length) + struct.pack("<I", size) + address
                + bytes(range(16)))
    seed("fabric", "card_any", card(1, 2, 16))
    seed("fabric", "card_ip4", card(2, 2, 16))
    seed("fabric", "card_ip6", card(3, 10, 28))
    seed("fabric", "card_short_address", card(3, 10, 16))
    seed("fabric", "card_cut", card(2, 2, 16, 100))
    seed("fabric", "card_text", card(11, 0x3130, 20))
    token = struct.pack("<IHH", 0x31466652, 2, 0) + bytes(32)
    seed("fabric", "token", b"\2" + token)
    seed("fabric", "token_insecure", b"\6" + token)
    seed("fabric", "token_up", b"\2" + struct.pack("<IHH", 0x31466652, 3, 0) + bytes(32))
    for name, mode in ("honest", 3), ("honest_insecure", 7):
        seed("fabric", name, bytes([mode]) + bytes(40))
        seed("fabric", name + "_padded", bytes([mode]) + bytes(56))
        seed("fabric", name + "_mac", bytes([mode]) + bytes(39) + b"\1")
        seed("fabric", name + "_cut", bytes([mode]) + bytes(39))


def shared():
    """Acts: 0 bytes written, 1 more written, 2 bytes read, 3 more read, 4 size of a message, 5
    read, 6 write, 7 release."""
    def size(at, n):
        return bytes([4, at]) + struct.pack("<H", n)
    def written(n):
        return b"\0" + struct.pack("<Q", n)
    seed("shared", "message", b"\0" + size(0, 100) + written(192) + b"\5\7\5")
    seed("shared", "two", b"\0" + size(0, 0) + size(1, 64) + b"\1\3\5\5\7" + size(3, 2000)
         + b"\1\x28\5\7")
    seed("shared", "lap",
         b"\0" + (size(0, 1900) + b"\1\x1f\5\7" + size(31, 1900) + b"\1\x21\5\7") * 3)
    seed("shared", "long", b"\0" + b"\x0c\0" + bytes([255] * 8) + written(64) + b"\5")
    seed("shared", "back", b"\0" + size(0, 0) + written(128) + b"\5\7" + written(0) + b"\5")
    seed("shared", "far", b"\0" + written(2 ** 63) + b"\5")
    seed("shared", "write", b"\0" + b"\6\0\4" * 5 + b"\3\x20" + b"\6\0\4" * 3)
    seed("shared", "read_far", b"\0" + b"\6\0\4" * 3 + b"\2" + bytes([255] * 8) + b"\6\0\4" * 2)
    seed("shared", "token", b"\1" + struct.pack("<IHH", 0x31536652, 2, 0) + bytes(32))
    seed("shared", "honest", b"\2" + bytes(40))
    seed("shared", "honest_cut", b"\2" + bytes(39))
    seed("shared", "honest_mac", b"\2" + bytes(39) + b"\1")


def agreement():
    def settings(*local):
        return b"\0" + b"".join(struct.pack("<6IQ", n, 0, 100, 1, 0, 0, 0) for n in local)
    seed("agreement", "settings", settings(1, 2, 1))
    seed("agreement", "settings_none", settings(1, 0, 1))
    seed("agreement", "settings_many", settings(1, 2 ** 32 - 2, 1))
    def offer(alignment, share, has_share=1, name=b"llvmpipe"):
        return name.ljust(256,
                          b"\0") + b"lavapipe".ljust(256, b"\0") + struct.pack(
                              "<I4xQQdI4x", 7, alignment, 2 ** 27, share, has_share)
    seed("agreement", "offers", b"\1" + offer(64, 1.0) + offer(256, 2.5) + offer(1024, 0.0))
    seed("agreement", "offers_alike", b"\5" + 3 * offer(64, 1.0, 0))
    seed("agreement", "offers_alignment", b"\1" + offer(64, 1.0) + offer(3, 1.0) + offer(64, 1.0))
    seed("agreement", "offers_share", b"\1" + offer(64, float("nan")) + offer(64, 1.0)
         + offer(64, 1e308))
    seed("agreement", "offers_name", b"\5" + 3 * offer(64, 1.0, 0, b"\n" * 256))
    def step(first, rows, number=4, examples=32, function=b"step"):
        return struct.pack("<4QiI", number, examples, first, rows, 0,
                           0) + function.ljust(48, b"\0") + struct.pack("<Q", 7)
    seed("agreement", "steps", b"\2" + step(0, 8) + step(8, 16) + step(24, 8))
    seed("agreement", "steps_gap", b"\2" + step(0, 8) + step(9, 16) + step(24, 8))
    seed("agreement", "steps_around", b"\2" + step(0, 40) + step(40, 2 ** 64 - 16) + step(24, 8))
    seed("agreement", "steps_other", b"\2" + step(0, 8) + step(8, 16, function=b"\x1b" * 48)
         + step(24, 8))
    lines = b"learning_rate 0.5\nbeta_1 0.9\n"
    seed("agreement", "texts", b"\6" + bytes([len(lines), len(lines)]) + 2 * lines
         + lines.replace(b"5", b"1"))
    seed("agreement", "texts_short", b"\6\0\4" + lines)
    seed("agreement", "rows", b"\3" + struct.pack("<4Q", 40, 3, 5, 0))
    seed("agreement", "rows_around", b"\3" + struct.pack("<4Q", 40, 2 ** 64 - 5, 10, 1))


def ps_shard():
    def message(kind, *numbers, payload=b""):
        body = struct.pack("<%dQ" % len(numbers), *numbers) + payload
        return bytes([kind, len(body)]) + body
    def push(version, step, part, examples, offset, *values):
        return message(12, version, step, part, examples, offset,
                       payload=struct.pack("<%df" % len(values), *values))
    def commit(step, count):
        return message(7, step, count)
    whole = push(0, 0, 0, 8, 0, 1, 2, 3)
    seed("ps_shard", "apply", b"\0" + whole + push(0, 0, 0, 8, 0, 1, 2) + push(0, 0, 0, 8, 2, 3)
         + push(2, 0, 0, 8, 0, 4, 5, 6))
    seed("ps_shard", "later", b"\0" + push(7, 0, 0, 8, 0, 1, 2, 3))
    seed("ps_shard", "too_many", b"\0" + push(0, 0, 0, 8, 0, 1, 2, 3, 4)
         + push(0, 0, 0, 8, 2 ** 64 - 1, 1, 2))
    seed("ps_shard", "step", b"\1" + whole + push(0, 0, 1, 4, 0, 4, 5, 6) + commit(0, 2)
         + push(1, 1, 0, 1, 0, 1, 1, 1) + commit(1, 1))
    seed("ps_shard", "part_missing", b"\1" + push(0, 0, 1, 4, 0, 4, 5, 6) + commit(0, 2))
    seed("ps_shard", "dropped", b"\1" + whole + commit(0, 0) + whole + commit(0, 1))
    seed("ps_shard", "no_examples", b"\1" + push(0, 0, 0, 0, 0, 1, 2, 3) + commit(0, 1))
    seed("ps_shard", "examples_around", b"\1" + push(0, 0, 0, 2 ** 63, 0, 1, 2, 3)
         + push(0, 0, 1, 2 ** 63, 0, 1, 2, 3) + commit(0, 2))
    seed("ps_shard", "no_part", b"\1" + push(0, 0, 2, 1, 0, 1, 2, 3) + commit(0, 3))
    def pull(slot):
        return message(10, slot)
    seed("ps_shard", "added", b"\2" + whole + pull(0) + pull(1) + push(1, 0, 0, 8, 0, 1, 2, 3)
         + pull(2))
    seed("ps_shard", "added_step", b"\3" + whole + push(0, 0, 1, 4, 0, 4, 5, 6) + commit(0, 2)
         + pull(1))
    seed("ps_shard", "added_alone", b"\7" + whole + commit(0, 1) + pull(0) + pull(1))
    seed("ps_message", "welcome_most", bytes([15]) + struct.pack("<2Q", 1, 2 ** 64 - 1)
         + b"\0\1\xff")
    seed("ps_message", "welcome_rules", bytes([15]) + struct.pack("<2Q", 0, 100) + b"\0\x40\xff")
    seed("ps_message", "welcome_lie", bytes([15]) + struct.pack("<2Q", 0, 100) + b"\0\xff\0")
    seed("ps_message", "init", bytes([5]) + struct.pack("<7Q", 30, 0, 2, 1, 12, 3, 2)
         + struct.pack("<3Q", 7, 0, 5) + b'{"kind": "sgd"}')
    seed("ps_message", "init_lie", bytes([5]) + struct.pack("<7Q", 30, 0, 2, 1, 0, 3, 2)
         + struct.pack("<3Q", 7, 2 ** 64 - 7, 5))
    seed("ps_message", "pull_slot", bytes([10]) + struct.pack("<Q", 2))


def checkpoint_item():
    def item(choice, present, size, number, *shape, rank=None):
        dims = list(shape) + [0] * (6 - len(shape))
        return bytes([choice]) + struct.pack("<4Q6q", present, size, number,
                                             len(shape) if rank is None else rank, *dims)
    seed("checkpoint_item", "tensor", item(0, 1, 60, 0, 3, 5))
    seed("checkpoint_item", "tensor_other", item(0, 1, 60, 0, 5, 3))
    seed("checkpoint_item", "tensor_short", item(0, 1, 4, 0, 3, 5))
    seed("checkpoint_item", "tensor_rank", item(0, 1, 60, 0, 3, 5, rank=2 ** 32 + 2))
    seed("checkpoint_item", "rows", item(1, 1, 140, 0, 7, 5))
    seed("checkpoint_item", "rows_around", item(1, 1, 12, 0, (2 ** 64 + 12) // 20, 5))
    seed("checkpoint_item", "rows_negative", item(1, 1, 2 ** 64 - 20, 0, -1, 5))
    seed("checkpoint_item", "bytes", item(2, 1, 77, 0))
    seed("checkpoint_item", "bytes_most", item(2, 1, 2 ** 64 - 1, 0))
    seed("checkpoint_item", "number", item(3, 1, 0, 123456789))
    seed("checkpoint_item", "number_data", item(3, 1, 8, 1))
    seed("checkpoint_item", "none", item(0, 0, 0, 0))
    seed("checkpoint_item", "part", b"\x04" + b"0a1b2c3d-4711-65f0c0de0001e240\0")
    seed("checkpoint_item", "part_path", b"\x04" + b"/../../0a1b-1-2\0")
    seed("checkpoint_item", "part_long", b"\x04" + b"0" * 64)


def graph():
    def desc(*shape, dtype="f32"):
        return {"dtype": dtype, "shape": list(shape)}
    def node(op, inputs, out, **attributes):
        return {"op": op, "in": inputs, "attributes": attributes, "out": [out]}
    def text(leaves, nodes):
        last = len(leaves) + len(nodes) - 1
        return compact({"version": 1, "leaves": leaves, "nodes": nodes,
                        "outputs": [{"name": "output", "value": last}]})
    image = {"kind": "input", "name": "input", **desc(-1, 8, 8, 2)}
    kernel = {"kind": "variable", "name": "conv2d/kernel", "tensor": "model/conv2d/kernel",
              **desc(3, 3, 2, 4)}
    bias = {"kind": "variable", "name": "conv2d/bias", "tensor": "model/conv2d/bias", **desc(4)}
    seed("graph", "image", text([image, kernel, bias], [
        node("conv2d", [0, 1], desc(-1, 8, 8, 4), padding="same", stride=[1, 1], dilation=[1, 1],
             groups=1),
        node("bias_add", [3, 2], desc(-1, 8, 8, 4)),
        node("elementwise", [4], desc(-1, 8, 8, 4), n_steps=1, fn=["leaky_relu"], imm=[0.2]),
        node("max_pool2d", [5], desc(-1, 4, 4, 4), window=[2, 2], stride=[2, 2]),
        node("reduce", [6], desc(-1, 4), kind="mean", axes_mask=6),
        node("softmax", [7], desc(-1, 4))]))
    row = {"kind": "input", "name": "input", **desc(-1, 6)}
    weight = {"kind": "constant", "tensor": "constant/2", **desc(5, 6)}
    seed("graph", "row",
         text([row, weight, {"kind": "global_batch", "name": "global_batch", **desc()}], [
        node("matmul", [0, 1], desc(-1, 5), transpose_b=1),
        node("elementwise", [3, 2], desc(-1, 5), n_steps=2, fn=["divide", "add"], a=[0, 2],
             b=[1, 0]),
        node("reshape", [4], desc(-1, 1, 5), rank=3, dim=[-1, 1, 5]),
        node("transpose", [5], desc(5, -1, 1), perm=[2, 0, 1]),
        node("cumsum", [6], desc(5, -1, 1), reverse=1),
        node("fill_like", [7], desc(5, -1, 1), value="-inf"),
        node("broadcast_like", [2, 8], desc(5, -1, 1))]))
    last, first = (1 << 63) - 1, -1 << 63
    seed("graph", "ranges", text([row], [
        node("slice", [0], desc(-1, 2), begin=[0, -2], end=[last, first], step=[1, -3]),
        node("slice_grad", [1, 0], desc(-1, 6), begin=[0, -2], end=[last, first], step=[1, -3])]))
    pixels = {"kind": "input", "name": "input", **desc(-1, 2, 3, 4)}
    larger = {"factor": [2, 3], "interpolation": "bilinear"}
    seed("graph", "upsample", text([pixels], [
        node("upsample2d", [0], desc(-1, 4, 9, 4), **larger),
        node("upsample2d_grad", [1, 0], desc(-1, 2, 3, 4), **larger)]))
    numbers = {"kind": "input", "name": "indices", **desc(-1, 3, dtype="i32")}
    seed("graph", "gathers", text([row, numbers], [
        node("gather", [0, 1], desc(-1, 3), axis=1, batch_dims=1),
        node("gather_grad", [2, 1, 0], desc(-1, 6), axis=1, batch_dims=1)]))
    gamma = {"kind": "constant", "tensor": "constant/1", **desc(6)}
    norm = {**node("layer_norm", [0, 1], desc(-1, 6), epsilon=0.001, scale=1)}
    norm["out"] += [desc(-1, 1), desc(-1, 1)]
    seed("graph", "norms", compact({"version": 1, "leaves": [row, gamma], "nodes": [
        norm, node("layer_norm_grad", [2, 0, 3, 4, 1], desc(-1, 6), epsilon=0.001, scale=1)],
        "outputs": [{"name": "output", "value": 5}]}))
    largest = node("top_k", [0], desc(-1, 3), k=3)
    largest["out"].append(desc(-1, 3, dtype="i32"))
    seed("graph", "top_k", text([row], [largest]))
    words = {"kind": "input", "name": "input", **desc(-1, 3, dtype="i32")}
    seed("graph", "words", text([words], [
        node("one_hot", [0], desc(-1, 3, 9), depth=9),
        node("argmax", [1], desc(-1, 3, dtype="i32")),
        node("cast", [2], desc(-1, 3, dtype="u8"), dtype="u8")]))


def tokenizer():
    """Without checksums, which the fuzzer does not look at."""
    def text(kind, special, **vocabulary):
        return compact({"format": "ringfire tokenizer", "version": 1, "kind": kind,
                        "keep_case": False, "keep_punctuation": False,
                        "special_tokens": special, **vocabulary})
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    seed("tokenizer", "characters", text("characters", [], tokens=["a", "b", "\u00fc", [255], [0]]))
    seed("tokenizer", "unknown", text("characters", ["[UNK]"], tokens=["[UNK]", "x"]))
    seed("tokenizer", "words",
         text("words", ["[START]"], tokens=["", "[UNK]", "[START]", "kind", "words", "tokens"]))
    seed("tokenizer", "word_piece",
         text("word_piece", [], tokens=bert + ["word", "##pie", "##ce", "_", "{", "\u4e2d"]))
    seed("tokenizer", "byte_pair",
         text("byte_pair", ["<|end|>"], merges=[[101, 110], [116, 111], [257, 107], [258, 256],
                                                [97, 97]]))
    seed("tokenizer", "doubling",
         text("byte_pair", [], merges=[[97, 97]] + [[256 + i, 256 + i] for i in range(7)]))
    seed("tokenizer", "same", text("byte_pair", [], merges=[[97, 97], [256, 97], [97, 256]]))
    seed("tokenizer", "version", text("words", []).replace(':1,', ':2,'))
    for name, value in families.small_ones().items():
        seed("tokenizer_json", name, compact(value))


def text():
    """The first byte: kind, case, punctuation, size, counts, special tokens."""
    sample = ("The newest lowest, lower \u00fcber-lower;\r\nisn't it? \u4e2d\u6587 caf\u00e9 "
              "e\u0301\n\n\t12 aaaa".encode())
    for kind in range(4):
        seed("text", "kind%d" % kind, bytes([kind]) + sample + sample)
        seed("text", "options%d" % kind, bytes([kind | 0x7c]) + sample + sample)
        seed("text", "broken%d" % kind,
             bytes([kind]) + b"\xef\xbb\xbf\xff\xc3\x28\xed\xa0\x80\xf4\x90\x80\x80\0\r\r\n")
    seed("text", "run", b"\x23" + b"a" * 300)
    folded = ("\u039f\u0394\u039f\u03a3. \u03a3'\u0391 \u0130\u1ec7\u1f82 \ud55c\uae00 "
              "a\u302e\u0323\U0001d165 \u0e19\u0e49 \u212b \u2028\ue000\u0378 \U0001d164")
    seed("text", "folded", b"\2" + folded.encode() * 2)
    seed("text", "unfolded", b"\6" + folded.encode() * 2)
    seed("text", "utf16", b"\2" + b"\xff\xfe" + "a\n".encode("utf-16-le"))


def gettext():
    def catalogue(order, *pairs):
        texts = [side for place in (0, 1) for side in (pair[place] for pair in pairs)]
        count, end = len(pairs), 28 + 16 * len(pairs)
        table = b""
        for one in texts:
            table += struct.pack(order + "II", len(one), end)
            end += len(one) + 1
        return struct.pack(order + "7I", 0x950412de, 0, count, 28, 28 + 8 * count, 0,
                           28 + 16 * count) + table + \
            b"".join(one + b"\0" for one in texts)
    head = (b"", b"Content-Type: text/plain; charset=UTF-8\n")
    pairs = (head, (b"file", b"Datei"), (b"menu\4Open", "\u00d6ffnen".encode()),
             (b"one\0more", b"eins\0mehr"), (b"none", b""))
    seed("gettext", "little", catalogue("<", *pairs))
    seed("gettext", "big", catalogue(">", *pairs))
    seed("gettext", "latin",
         catalogue("<", (b"", b"Content-Type: text/plain; charset=ISO-8859-1\n"), (b"a", b"\xe4")))
    seed("gettext", "none", catalogue("<"))


def ratings():
    seed("ratings", "plain", "".join("%d,%d\n" % (user, user + k) for user in range(4)
                                     for k in range(3)))
    seed("ratings", "header",
         "user,item,rating,time\n1,10,4.5,3\n1,20,3,2\n2,30,1,1\n2,40,5,9\n3,10,1,0\r\n3,50,1,0")
    seed("ratings", "movielens",
         "1::1193::5::978300760\n1::661::3::978302109\n"
         "2::914::3::978301968\n2::3408::4::978300275\n")
    seed("ratings", "twice", "7\t1\n7\t1\n7\t2\n8;3;1e3;-2.5\n8;4\n")


def reviews():
    seed("reviews", "plain", "1\tthe plot was never dull\n0\tthe cast was awful, although the "
                             "music was not bad\n1\tgood\r\n\n0\tbad")
    seed("reviews", "marked", b"\xef\xbb\xbf0\ta\n1\tb\n")
    seed("reviews", "class", "1\tgood\n2\tneither\n")
    seed("reviews", "text", "1\tgood\n0\t\n")
    seed("reviews", "zero", b"1\tgood\n0\tb\0d\n\0")


def document():
    seed("document", "markdown", "# Title\n\nOne sentence is here. Another one\ngoes on.\n* an "
                                 "entry\n* more: of it\n\n## Part\n```\nint a;\n```\n| a | b |\n")
    seed("document", "header", "/** What it\n * does, e.g. this.\n *\n * And it ends. */\nint "
                               "f(int a,\n      int b);\n/* ---- more ---- */\n@file\n")
    seed("document", "long", "a word, " * 200 + "\n\n" + "s\n\n" * 90)
    seed("document", "odd",
         b"/**/\n/*\n*/ /*/\n *\n */\n####\n---- \n---- -\n\xff\xc3\xa4\0\t.\r\n#")


for make in (document, graph, gettext, ratings, reviews, text, tokenizer, safetensors, npy,
             idx, cifar, csv, image, tfrecord, iterator_state, model, trace, text_files, wire,
             call_header, fabric, shared, agreement, ps_shard, checkpoint_item):
    make()
for module in (gguf_seeds, line_seeds, lora_seeds, onnx_seeds):
    for fuzzer, name, data in module.every():
        seed(fuzzer, name, data)
