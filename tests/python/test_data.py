# SPDX-License-Identifier: Apache-2.0
"""ringfire.data and ringfire.text: elements, their order, functions in Python, files, failures."""
import gzip
import io
import json
import os
import struct
import tarfile
import tempfile
import threading
import unittest

import numpy as np

import ringfire as rf
from ringfire import data, text
from ringfire.data import Dataset


def numbers(dataset):
    return [int(x) for x in dataset.as_numpy_iterator()]


class Sources(unittest.TestCase):
    def test_slices(self):
        x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6)
        dataset = Dataset.from_tensor_slices((x, y))
        self.assertEqual((len(dataset), dataset.batch_size), (6, 0))
        self.assertEqual([s.dtype.name for s in dataset.element_spec], ["float32", "int32"])
        for i, (a, b) in enumerate(dataset.as_numpy_iterator()):
            np.testing.assert_array_equal(a, x[i])
            self.assertEqual((b, b.dtype), (i, np.int32))

    def test_types_are_narrowed_where_numbers_fit(self):
        self.assertEqual(next(Dataset.from_tensor_slices([1.5]).as_numpy_iterator()).dtype,
                         np.float32)
        with self.assertRaisesRegex(ValueError, "do not fit int32"):
            Dataset.from_tensor_slices(np.array([2**40]))

    def test_slices_are_used_in_place_and_kept(self):
        x = np.zeros((4, 2), np.float32)
        dataset = Dataset.from_tensor_slices(x).batch(2)
        x[3, 1] = 7
        del x
        self.assertEqual([b.max() for b in dataset.as_numpy_iterator()], [0, 7])

    def test_structures(self):
        dataset = Dataset.from_tensor_slices(({"a": [1, 2], "b": [[3.0], [4.0]]}, [5, 6]))
        (first, label), = dataset.batch(2).as_numpy_iterator()
        self.assertEqual(sorted(first), ["a", "b"])
        self.assertEqual((first["b"].tolist(), label.tolist()), ([[3], [4]], [5, 6]))
        zipped = Dataset.zip((Dataset.range(3), dataset))
        number, (features, _) = next(zipped.as_numpy_iterator())
        self.assertEqual((int(number), int(features["a"])), (0, 1))

    def test_generator(self):
        made = []

        def pairs():
            made.append(1)
            for i in range(5):
                yield i, [float(i)]

        dataset = Dataset.from_generator(pairs)
        for _ in range(2):
            self.assertEqual([int(i) for i, _ in dataset.as_numpy_iterator()], list(range(5)))
        self.assertEqual(len(made), 3)  # once to see what it gives
        with self.assertRaisesRegex(ValueError, "output_signature"):
            Dataset.from_generator(lambda: [])

    def test_windows_and_tensors(self):
        self.assertEqual([(a.tolist(), b.tolist()) for a, b in
                          Dataset.windows(range(5), 2).as_numpy_iterator()],
                         [([0, 1], [1, 2]), ([2, 3], [3, 4])])
        self.assertEqual(next(Dataset.from_tensors([1, 2]).as_numpy_iterator()).tolist(), [1, 2])


class Steps(unittest.TestCase):
    def test_order(self):
        ten = Dataset.range(10)
        self.assertEqual(numbers(ten.skip(2).take(3)), [2, 3, 4])
        self.assertEqual(numbers(ten.shard(3, 1)), [1, 4, 7])
        self.assertEqual(numbers(ten.take(2).repeat(2).concatenate(Dataset.range(7, 9))),
                         [0, 1, 0, 1, 7, 8])
        self.assertEqual(numbers(ten.repeat(0)), [])
        self.assertEqual(ten.repeat().cardinality(), data.INFINITE_CARDINALITY)
        self.assertEqual(numbers(ten.take(-1).skip(-1)), [])
        self.assertEqual(numbers(ten.batch(4, drop_remainder=True).unbatch()), list(range(8)))
        first, second = ten.split(0.3)
        self.assertEqual((numbers(first), numbers(second)), ([0, 1, 2], list(range(3, 10))))

    def test_each_pass_is_another_epoch(self):
        shuffled = Dataset.range(50).shuffle(50, seed=3)
        one, two = numbers(iter(shuffled)._dataset), numbers(shuffled)
        self.assertEqual(sorted(two), list(range(50)))
        passes = [[int(x) for x in shuffled] for _ in range(3)]
        self.assertNotEqual(passes[0], passes[1])
        same = Dataset.range(50).shuffle(50, seed=3, reshuffle_each_iteration=False)
        self.assertEqual([int(x) for x in same], [int(x) for x in same])
        self.assertEqual(sorted(one), sorted(two))

    def test_position(self):
        shuffled = Dataset.range(20).shuffle(20, seed=1)
        iterator = iter(shuffled)
        seen = [int(next(iterator)) for _ in range(5)]
        position = iterator.save()
        rest = [int(x) for x in iterator]
        self.assertEqual([int(x) for x in shuffled.restore_iterator(position)], rest)
        self.assertEqual(sorted(seen + rest), list(range(20)))

    def test_padded_batches(self):
        rows = Dataset.from_generator(lambda: ([1] * n for n in (1, 3, 2, 4)),
                                      rf.TensorSpec((4,), "int32"))
        batches = list(rows.padded_batch(2, padding_values=9,
                                         bucket_boundaries=[2, 4]).as_numpy_iterator())
        self.assertEqual([b.tolist() for b in batches],
                         [[[1, 9], [1, 1]], [[1, 1, 1, 9], [1, 1, 1, 1]]])

    def test_packed_rows(self):
        rows = Dataset.from_generator(lambda: (([1] * n, [n] * n) for n in (3, 2, 1)),
                                      (rf.TensorSpec((3,), "int32"), rf.TensorSpec((3,), "int32")))
        (tokens, positions), labels = next(rows.pack(7, (0, -100)).as_numpy_iterator())
        self.assertEqual(tokens.tolist(), [1] * 6 + [0])
        self.assertEqual(positions.tolist(), [0, 1, 2, 0, 1, 0, 0])
        self.assertEqual(labels.tolist(), [3, 3, 3, 2, 2, 1, -100])
        with_segments = rows.pack(7, -1, segments=True).as_numpy_iterator()
        self.assertEqual(next(with_segments)[0][2].tolist(), [1, 1, 1, 2, 2, 3, 0])

    def test_values_of_a_batch_are_kept_by_who_holds_them(self):
        held = list(Dataset.range(6).batch(2))
        self.assertEqual([v.numpy().tolist() for v in held], [[0, 1], [2, 3], [4, 5]])

    def test_without_python(self):
        pixels = Dataset.from_tensor_slices((np.full((4, 2, 2, 1), 255, np.uint8), [0, 1, 2, 0]))
        image, label = next(pixels.map_scale().map_one_hot(3).as_numpy_iterator())
        self.assertEqual((image.dtype, image.max(), label.tolist()), (np.float32, 1, [1, 0, 0]))
        varied = pixels.map_augment(pad=1, flip=True, mean=[0], deviation=[255])
        self.assertLessEqual(next(varied.as_numpy_iterator())[0].max(), 1)


    def test_varied_images(self):
        pixels = np.random.default_rng(1).integers(0, 256, (6, 8, 9, 3)).astype(np.uint8)
        images = Dataset.from_tensor_slices((pixels, pixels))
        for varied in (images.map_color_jitter(0, 1, 0.5, 0.5, 0.5, 0.2),
                       images.map_affine(0, 1, 30, (0.8, 1.2), (0.1, 0.1), "reflect"),
                       images.map_erase(0, 1, probability=1, area=(0.1, 0.1), ratio=(1, 1))):
            made = list(varied.as_numpy_iterator())
            again = next(varied.as_numpy_iterator())  # of another pass
            for i, (image, original) in enumerate(made):
                self.assertEqual((image.dtype, image.shape), (np.uint8, (8, 9, 3)))
                self.assertTrue((image != pixels[i]).any())
                np.testing.assert_array_equal(original, pixels[i])
            self.assertTrue((again[0] != made[0][0]).any())
        both = images.map_affine(0, 7, 90, interpolation="nearest").map_affine(
            1, 7, 90, interpolation="nearest")
        for image, mask in both.as_numpy_iterator():
            np.testing.assert_array_equal(image, mask)
        with self.assertRaisesRegex(ValueError, "fill_mode='mirror' is none of constant, nearest"):
            images.map_affine(fill_mode="mirror")
        with self.assertRaisesRegex(rf.InvalidArgumentError, "hue is 0.7"):
            images.map_color_jitter(hue=0.7)

    def test_mixup(self):
        rows = Dataset.from_tensor_slices((np.arange(8, dtype=np.float32),
                                           np.eye(8, dtype=np.float32))).batch(4)
        for images, labels in rows.mixup(alpha=1, seed=3).as_numpy_iterator():
            np.testing.assert_allclose(labels.sum(1), 1, atol=1e-6)
            np.testing.assert_allclose(images, labels @ np.arange(8), atol=1e-5)
        pixels = np.tile(np.arange(4, dtype=np.float32)[:, None, None, None], (1, 8, 8, 1))
        pictures = Dataset.from_tensor_slices((pixels, np.eye(4, dtype=np.float32))).batch(4)
        images, labels = next(pictures.cutmix(seed=2).as_numpy_iterator())
        np.testing.assert_allclose(images.mean((1, 2, 3)), labels @ np.arange(4), atol=1e-5)

    def test_sample_from_datasets(self):
        sources = [Dataset.range(30), Dataset.range(100, 110)]
        mixed = Dataset.sample_from_datasets(sources, [3, 1], seed=2)
        self.assertEqual(sorted(numbers(mixed)), [*range(30), *range(100, 110)])
        endless = Dataset.sample_from_datasets([d.repeat() for d in sources], [0.0, 1.0])
        self.assertEqual(numbers(endless.take(12)), [*range(100, 110), 100, 101])
        ends = Dataset.sample_from_datasets(sources, stop_on_empty_dataset=True)
        self.assertLess(len(numbers(ends)), 40)
        with self.assertRaisesRegex(ValueError, "1 weights for 2 datasets"):
            Dataset.sample_from_datasets(sources, [1.0])

    def test_table_windows(self):
        rows = Dataset.from_tensor_slices((np.arange(10), np.arange(10) * 10))
        made = rows.table_windows([data.WindowPart(0, 3, sampling_rate=2),
                                   data.WindowPart(1, offset=5)], stride=2)
        self.assertEqual([(a.tolist(), int(b)) for a, b in made.as_numpy_iterator()],
                         [([0, 2, 4], 50), ([2, 4, 6], 70), ([4, 6, 8], 90)])
        series = rf.keras.utils.timeseries_dataset_from_array
        table = np.arange(20, dtype=np.float32)
        x, y = next(series(table[:-5], table[5:], 5, sequence_stride=3,
                           batch_size=4).as_numpy_iterator())
        self.assertEqual((x[:, 0].tolist(), y.tolist()), ([0, 3, 6, 9], [5, 8, 11, 14]))
        alone = list(series(table, None, 6, batch_size=None, start_index=10).as_numpy_iterator())
        self.assertEqual([w[0] for w in alone], [10, 11, 12, 13, 14])

    def test_moments(self):
        x = np.random.default_rng(0).normal(3, 2, (40, 5, 2)).astype(np.float32)
        dataset = Dataset.from_tensor_slices(x)
        for source in (dataset, dataset.batch(7)):
            for axis, over in ((-1, (0, 1)), (1, (0, 2)), (None, None)):
                mean, variance = source.moments(axis=axis)
                np.testing.assert_allclose(mean, x.mean(over), rtol=1e-5)
                np.testing.assert_allclose(variance, x.var(over), rtol=1e-5)


class Functions(unittest.TestCase):
    def test_map(self):
        dataset = Dataset.from_tensor_slices(([1.0, 2.0], [3, 4]))
        made = list(dataset.map(lambda a, b: {"sum": a + b, "b": b}).as_numpy_iterator())
        self.assertEqual([float(m["sum"]) for m in made], [4, 6])
        self.assertEqual(numbers(Dataset.range(4).map(lambda i: i * i).cache()), [0, 1, 4, 9])

    def test_map_in_a_thread(self):
        threads = set()

        def note(i):
            threads.add(threading.get_ident())
            return i

        self.assertEqual(numbers(Dataset.range(20).map(note).prefetch(4)), list(range(20)))
        self.assertGreater(len(threads), 1)

    def test_map_in_several_threads(self):
        met = threading.Barrier(3)

        def meet(i):
            if i in (3, 4, 5):
                met.wait(60)  # each in a thread of its own
            return i

        squares = Dataset.range(20).map(meet, rf.TensorSpec((), rf.int32))
        self.assertEqual(numbers(squares.parallel(3)), list(range(20)))
        self.assertEqual(numbers(Dataset.range(5).batch(2).parallel().unbatch()), list(range(5)))

    def test_operations_of_the_package(self):
        scaled = Dataset.from_tensor_slices(np.full((2, 3), 51, np.uint8)).map(
            lambda image: rf.cast(image, rf.float32) / 255)
        self.assertAlmostEqual(float(next(scaled.as_numpy_iterator())[0]), 0.2, places=6)

    def test_filter_flat_map_and_interleave(self):
        self.assertEqual(numbers(Dataset.range(6).filter(lambda i: i % 2 == 1)), [1, 3, 5])
        up_to = Dataset.range(1, 4).flat_map(lambda i: Dataset.range(int(i)))
        self.assertEqual(numbers(up_to), [0, 0, 1, 0, 1, 2])
        turns = Dataset.range(2).interleave(
            lambda i: Dataset.from_tensor_slices(np.full(2, i, np.int32)), cycle_length=2)
        self.assertEqual(numbers(turns), [0, 1, 0, 1])

    def test_random(self):
        drawn = Dataset.range(4).map_random(lambda r, i: np.float32(r.random()), seed=5)
        first = [float(x) for x in drawn]
        self.assertNotEqual(first, [float(x) for x in drawn])
        self.assertEqual(first, [float(x) for x in Dataset.range(4).map_random(
            lambda r, i: np.float32(r.random()), seed=5)])

    def test_what_raises(self):
        def odd(i):
            if i == 3:
                raise KeyError("three")
            return i

        for dataset in (Dataset.range(6).map(odd), Dataset.range(6).map(odd).prefetch(2),
                        Dataset.range(6).map(odd).parallel(2),
                        Dataset.range(6).map(odd).batch(2)):
            with self.assertRaisesRegex(KeyError, "three"):
                list(dataset)
        kept = Dataset.range(6).map(odd).ignore_errors()
        self.assertEqual(numbers(kept), [0, 1, 2, 4, 5])
        self.assertEqual(kept.ignored_errors, 1)

    def test_types_that_numpy_lacks(self):
        with self.assertRaisesRegex(ValueError, "make no bfloat16"):
            Dataset.range(2).map(lambda i: i, rf.TensorSpec((), rf.bfloat16))

    def test_what_changes_its_mind(self):
        with self.assertRaisesRegex(ValueError, r"gave an array \(3,\) where .* has \(2,\)"):
            list(Dataset.range(2).map(lambda i: np.zeros(int(i) + 2)))
        with self.assertRaisesRegex(TypeError, "not a Dataset"):
            Dataset.range(2).flat_map(lambda i: [i])

    def test_wrong_arguments(self):
        with self.assertRaises(TypeError):
            Dataset.range(3).batch(bach_size=2)
        with self.assertRaisesRegex(ValueError, "batch_size is 0"):
            Dataset.range(3).batch(0)
        with self.assertRaisesRegex(TypeError, "infinite"):
            len(Dataset.range(3).repeat())


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)

    def test_csv(self):
        with gzip.open(self.path("a.csv.gz"), "wt") as file:
            file.write("x,y,label\n1,2,0\n,4,1\n")
        table = data.csv(self.path("a.csv.gz"), [data.Columns(["x", "y"]),
                                                 data.Columns([2], "int32")], fill_value=-1)
        self.assertEqual([(a.tolist(), int(b)) for a, b in table.as_numpy_iterator()],
                         [([1, 2], 0), ([-1, 4], 1)])
        with self.assertRaisesRegex(rf.Error, "a.csv.gz:3: column 0"):
            list(data.csv(self.path("a.csv.gz"), data.Columns(["x"])))
        kept = data.csv(self.path("a.csv.gz"), data.Columns(["x"]), skip_damaged=True)
        self.assertEqual((len(kept), kept.ignored_errors), (1, 1))

    def test_lines(self):
        with open(self.path("a.txt"), "w") as file:
            file.write("one\n\nthree\n")
        lines = data.TextLineDataset(self.path("a.txt"), skip_empty=True)
        self.assertEqual([bytes(line) for line in lines.as_numpy_iterator()], [b"one", b"three"])
        self.assertEqual(text.read_lines(self.path("a.txt")), [b"one", b"", b"three"])

    def test_json_lines(self):
        with gzip.open(self.path("a.jsonl.gz"), "wt") as file:
            file.write('{"n": 3, "t": "abc"}\n\n{"t": "d", "n": "x"}\n{"t": "", "n": 5}\n')
        letters = text.Tokenizer(["a", "b", "c", "d"], "characters")
        rows = text.jsonl(self.path("a.jsonl.gz"), {
            "n": text.Field(), "t": text.Field("uint8", [8], variable=True),
            "tokens": text.Field(shape=[2], variable=True, truncate=True, tokenizer=letters)})
        with self.assertRaisesRegex(rf.Error, "'tokens' is missing"):
            list(rows)
        rows = text.jsonl(self.path("a.jsonl.gz"), {
            "n": text.Field(), "t": text.Field(shape=[2], variable=True, truncate=True,
                                               tokenizer=letters)})
        self.assertEqual(len(rows), 3)
        kept = rows.ignore_errors()
        self.assertEqual([(int(row["n"]), row["t"].tolist()) for row in kept.as_numpy_iterator()],
                         [(3, [0, 1]), (5, [])])
        self.assertEqual(kept.ignored_errors, 1)

    def test_chat_templates(self):
        template = text.ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}{{ end }}"
                                     "{% endfor %}{% if add_generation_prompt %}me: {% endif %}"
                                     "{{ tools | tojson if tools }}", end="\n")
        chat = [{"role": "you", "content": "häh?"}, {"role": "me", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
        self.assertEqual(template.apply(chat), "you: häh?\nme: ab\n")
        self.assertEqual(template.apply(chat[:1], tools=[{"x": 1}], add_generation_prompt=True,
                                        end="; "), "you: häh?; me: [{\"x\": 1}]")
        with self.assertRaisesRegex(rf.InvalidArgumentError, "the template has no tokenizer"):
            template.encode(chat)
        with self.assertRaisesRegex(rf.UnsupportedError, "line 2: the tag 'call' is not known"):
            text.ChatTemplate("\n{% call x() %}")

    def test_chats(self):
        with open(self.path("chats.jsonl"), "w") as file:
            file.write('{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", '
                       '"content": "cd"}]}\n{"prompt": "a", "completion": "b"}\n')
        letters = text.Tokenizer(["a", "b", "c", "d", "."], "characters")

        def render(messages):
            for message in messages:
                yield letters.encode(message["content"]), message["role"] == "assistant"

        rows = text.chats(self.path("chats.jsonl"), render, letters, ".")
        self.assertEqual([(a.tolist(), b.tolist()) for a, b in rows.as_numpy_iterator()],
                         [([0, 1, 2, 3], [-100, 2, 3, -100]), ([0, 1, 4], [1, 4, -100])])
        self.assertEqual(rows.cut_elements, 0)
        short = text.chats(self.path("chats.jsonl"), render, letters, ".", max_tokens=2)
        self.assertEqual([b.tolist() for _, b in short.as_numpy_iterator()], [[-100, 2], [1, 4]])
        self.assertEqual(short.cut_elements, 2)
        with self.assertRaisesRegex(KeyError, "name"):
            list(text.chats(self.path("chats.jsonl"), lambda messages: messages[0]["name"]))
        with self.assertRaisesRegex(rf.Error, "the tokenizer has no token 'x'"):
            text.chats(self.path("chats.jsonl"), render, letters, "x")

    def test_tar_archives(self):
        with tarfile.open(self.path("a.tar"), "w") as file:
            for name, content in (("1.cls", b"7"), ("1.txt", b"ab"), ("2.txt", b""),
                                  ("2.cls", b"8")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
        fields = {"label": data.TarField("cls"),
                  "text": data.TarField("txt", "uint8", (4,), variable=True)}
        try:
            rows = data.tar(self.path("a.tar"), fields)
        except rf.UnsupportedError as error:
            self.skipTest(str(error))
        self.assertEqual([(int(e["label"]), bytes(e["text"])) for e in rows.as_numpy_iterator()],
                         [(7, b"ab"), (8, b"")])

    def test_catalogues(self):
        with open(self.path("a.mo"), "wb") as file:  # "" and "a" with "b"
            strings = [(b"", b"Content-Type: text/plain; charset=UTF-8\n"), (b"a", b"b")]
            at, table, texts = 28 + 32, b"", b""
            for side in (0, 1):
                for pair in strings:
                    table += struct.pack("<2I", len(pair[side]), at + len(texts))
                    texts += pair[side] + b"\0"
            file.write(struct.pack("<7I", 0x950412de, 0, 2, 28, 28 + 16, 0, 0) + table + texts)
        self.assertEqual([(bytes(a), bytes(b)) for a, b in
                          data.gettext(self.path("a.mo")).as_numpy_iterator()], [(b"a", b"b")])

    def test_idx(self):
        with open(self.path("x"), "wb") as file:
            file.write(struct.pack(">4I", 0x803, 2, 1, 1) + b"\x05\x06")
        with open(self.path("y"), "wb") as file:
            file.write(struct.pack(">2I", 0x801, 2) + b"\x01\x02")
        twice = data.idx([self.path("x")] * 2, [self.path("y")] * 2)
        self.assertEqual([(int(x[0, 0, 0]), int(y)) for x, y in twice.as_numpy_iterator()],
                         [(5, 1), (6, 2)] * 2)
        with self.assertRaisesRegex(ValueError, "2 files of images, 1 of labels"):
            data.idx([self.path("x")] * 2, self.path("y"))

    def test_negatives(self):
        pairs = data.pairs_with_negatives([0, 1], [2, 0], 4, 2, seed=3, others=([0], [1]))
        drawn = [tuple(int(part.reshape(())) for part in element)
                 for element in pairs.as_numpy_iterator()]
        self.assertEqual([label for _, _, label in drawn], [1, 0, 0, 1, 0, 0])
        self.assertTrue({item for user, item, _ in drawn[1:3]} <= {0, 3}, drawn)

    def test_records(self):
        def field(number, payload):
            return bytes([number << 3 | 2, len(payload)]) + payload

        def checksum(payload):
            crc = 0xffffffff
            for byte in payload:
                crc ^= byte
                for _ in range(8):
                    crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
            crc ^= 0xffffffff
            return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)

        def record(weight, label):
            features = b""
            for name, value in ((b"x", field(2, field(1, struct.pack("<2f", weight, 2)))),
                                (b"y", field(3, field(1, bytes([label]))))):
                features += field(1, field(1, name) + field(2, value))
            example = field(1, features)
            length = struct.pack("<Q", len(example))
            return length + checksum(length) + example + checksum(example)

        with open(self.path("a.tfrecord"), "wb") as file:
            file.write(record(0.5, 3) + record(1.5, 4))
        records = data.TFRecordDataset(self.path("a.tfrecord"), {
            "x": data.FixedLenFeature([2]), "y": data.FixedLenFeature([], np.int64),
            "z": data.FixedLenFeature([], default_value=9)})
        self.assertEqual([(r["x"].tolist(), int(r["y"]), float(r["z"]))
                          for r in records.as_numpy_iterator()],
                         [([0.5, 2], 3, 9), ([1.5, 2], 4, 9)])

    def test_images(self):
        for kind, grey in (("cat", 10), ("dog", 200)):
            os.mkdir(self.path(kind))
            data.write_image(self.path(kind + "/1.png"), np.full((2, 2, 1), grey, np.uint8))
        root = os.path.dirname(self.path("cat"))
        images = rf.keras.utils.image_dataset_from_directory(
            root, "grayscale", batch_size=2, image_size=None, shuffle=False)
        self.assertEqual(images.class_names, ["cat", "dog"])
        pixels, labels = next(images.as_numpy_iterator())
        self.assertEqual((pixels[:, 0, 0, 0].tolist(), labels.tolist()), ([10, 200], [0, 1]))
        self.assertEqual(data.read_image(self.path("dog/1.png")).shape, (2, 2, 1))
        with self.assertRaisesRegex(rf.InvalidArgumentError, "ends with neither .png nor .jpg"):
            data.write_image(self.path("1.gif"), np.zeros((2, 2), np.float32))

    def test_mnist(self):
        if not os.path.isdir("/usr/share/datasets/fashion-mnist"):
            self.skipTest("dataset-fashion-mnist is not installed")
        (x, y), (x_test, y_test) = rf.keras.datasets.fashion_mnist.load_data()
        self.assertEqual((x.shape, x.dtype, y.shape), ((60000, 28, 28), np.uint8, (60000,)))
        self.assertEqual((len(x_test), y_test.max()), (10000, 9))
        with self.assertRaisesRegex(rf.NotFoundError, "nowhere"):
            rf.keras.datasets.mnist.load_data("/nowhere")


class Texts(unittest.TestCase):
    def test_tokenizer(self):
        words = text.Tokenizer.train(["the cat sat", "The dog"], special_tokens=["[START]"])
        self.assertEqual(words.decode(words.encode("The Cat!")), "the cat")
        self.assertEqual(words.encode_padded(["the cat", "dog"], padding="post")[1, 1], 0)
        self.assertTrue(words.is_special(words.id("[START]")))
        with tempfile.TemporaryDirectory() as folder:
            words.save(os.path.join(folder, "t.json"))
            again = text.Tokenizer.load(os.path.join(folder, "t.json"))
        self.assertEqual(again.vocabulary, words.vocabulary)
        given = text.Tokenizer([b"", b"[UNK]", b"a", b"b"])
        self.assertEqual(given.encode("b a c").tolist(), [3, 2, 1])
        with self.assertRaises(IndexError):
            given.token(4)

    def test_tokenizer_json(self):
        ids = [("[CLS]", 3), ("[SEP]", 4)]
        document = {"version": "1.0", "added_tokens": [
            {"id": number, "content": name, "special": True} for name, number in ids],
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": {
                "type": "BertProcessing", "cls": ids[0], "sep": ids[1]},
            "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2}}}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document, file)
            words = text.Tokenizer.from_file(path)
        self.assertEqual(words.encode("a c").tolist(), [3, 1, 0, 4])
        self.assertEqual(words.encode("a b", add_special_tokens=False).tolist(), [1, 2])
        self.assertEqual(words.encode("[SEP]", add_special_tokens=False,
                                      split_special_tokens=True).tolist(), [0])
        tokens, types = words.encode_with_types("a", "b b")
        self.assertEqual(tokens.tolist(), [3, 1, 4, 2, 2, 4])
        self.assertEqual(types.tolist(), [0, 0, 0, 1, 1, 1])
        self.assertEqual(words.decode(tokens), "a b b")

    def test_sequences(self):
        self.assertEqual(text.pad_sequences([[1, 2, 3], [4]], maxlen=2).tolist(), [[2, 3], [0, 4]])
        self.assertEqual(text.bleu([[1, 2, 3, 4]], [[1, 2, 3, 4]]), 1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
