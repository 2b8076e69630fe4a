# SPDX-License-Identifier: Apache-2.0
"""Event files of TensorBoard, byte by byte."""
import struct

import tfrecord as tf


def event(time, step, value):
    return tf.record(b"\x09" + struct.pack("<d", time) + b"\x10" + tf.varint(step) +
                     tf.field(5, tf.field(1, value)))


def scalar(tag, value):
    return tf.field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def text(tag, value):
    tensor = b"\x08\x07" + tf.field(8, value.encode())
    plugin = tf.field(1, tf.field(1, b"text"))
    return tf.field(1, tag.encode()) + tf.field(8, tensor) + tf.field(9, plugin)
