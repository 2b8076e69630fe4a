# SPDX-License-Identifier: Apache-2.0
"""ringfire.keras.models.from_pretrained(): a directory of the hub as a model of Keras' kind."""
import gc
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import ringfire as rf
from ringfire import keras, text
from ringfire.lora import LoraConfig

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import hub  # noqa: E402

WIDTH, VOCABULARY = 8, 11
CONFIG = {"model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH,
          "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
          "tie_word_embeddings": True}
SHAPES = {"embed_tokens": (VOCABULARY, WIDTH), "layers.0.input_layernorm": (WIDTH,),
          "layers.0.post_attention_layernorm": (WIDTH,), "norm": (WIDTH,),
          **{"layers.0.self_attn.%s_proj" % p: (WIDTH, WIDTH) for p in "qkvo"},
          "layers.0.mlp.gate_proj": (12, WIDTH), "layers.0.mlp.up_proj": (12, WIDTH),
          "layers.0.mlp.down_proj": (WIDTH, 12)}


class Pretrained(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        rng = np.random.default_rng(2)
        self.weights = {"model.%s.weight" % name: 0.3 * rng.standard_normal(shape)
                        for name, shape in SHAPES.items()}

    def write(self, **more):
        hub.write_directory(self.folder / "tiny", {**CONFIG, **more}, self.weights, "BF16")
        return self.folder / "tiny"

    def test_trains_and_writes_back(self):
        tiny = self.write()
        model = keras.models.from_pretrained(tiny)
        self.assertEqual(model.name, "tiny")
        ids = np.arange(18, dtype=np.int32).reshape(2, 9) % VOCABULARY
        with self.assertRaisesRegex(ValueError, "takes no images"):
            model.image_scale()
        before = model.predict(ids)
        self.assertEqual(before.shape, (2, 9, VOCABULARY))
        model.save_pretrained(self.folder / "same")
        self.assertEqual(hub.read_directory(self.folder / "same"), hub.read_directory(tiny))
        model.compile(keras.optimizers.AdamW(0.01), keras.losses.SparseCategoricalCrossentropy(
            from_logits=True))
        losses = model.fit(ids, np.roll(ids, -1, 1), epochs=5, verbose=0).history["loss"]
        self.assertLess(losses[-1], losses[0])
        model.save_pretrained(self.folder / "trained")
        after = model.predict(ids)
        del model
        gc.collect()
        again = keras.models.from_pretrained(self.folder / "trained").predict(ids)
        self.assertLess(abs(again - after).max(), 0.05)  # as much as bf16 rounds
        self.assertGreater(abs(after - before).max(), 0.1)

    def test_generates(self):
        model = keras.models.from_pretrained(self.write())
        greedy = model.generate([[1, 2, 3], [4]], max_new_tokens=5)
        ids = [1, 2, 3]
        for token in greedy[0]:
            self.assertEqual(token, model.predict(np.array([ids], np.int32))[0, -1].argmax())
            ids.append(token)
        self.assertEqual(len(greedy[1]), 5)
        drawn = [model.generate([[1, 2]], 6, temperature=1.5, top_k=9, seed=4) for _ in range(2)]
        np.testing.assert_array_equal(*[texts[0] for texts in drawn])
        heard = []
        short = model.generate([[1, 2, 3]], 5, on_token=lambda *one: len(heard.append(one) or heard
                                                                         ) < 2)
        np.testing.assert_array_equal(short[0], greedy[0][:2])
        self.assertEqual(heard, [(0, greedy[0][0]), (0, greedy[0][1])])
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            model.generate([[1]], 2, on_token=lambda prompt, token: 1 / 0)
        with self.assertRaisesRegex(ValueError, "stop_strings need a tokenizer"):
            model.generate([[1]], 2, stop_strings=["x"])

    def test_texts(self):
        words = text.Tokenizer([chr(97 + i) for i in range(VOCABULARY)], kind="characters")
        tiny = self.write()
        (tiny / "generation_config.json").write_text('{"max_new_tokens": 7, "eos_token_id": []}')
        model = keras.models.from_pretrained(tiny)
        whole, = model.generate(["abc"], tokenizer=words)
        self.assertEqual(len(whole), 7)
        pieces = []
        cut, = model.generate(["abc"], tokenizer=words, stop_strings=[whole[3:5]],
                              on_token=lambda prompt, piece: pieces.append(piece))
        self.assertEqual(cut, whole[:whole.index(whole[3:5])])
        self.assertEqual("".join(pieces), cut)
        (tiny / "generation_config.json").write_text('{"num_beams": 2}')
        with self.assertRaisesRegex(rf.UnsupportedError, "'num_beams' is 2"):
            keras.models.from_pretrained(tiny).generate([[1]], 2)

    def test_packed_rows(self):
        tiny = self.write()
        ids = np.arange(9, dtype=np.int32) % VOCABULARY
        places = np.array([0, 1, 2, 3, 0, 1, 2, 3, 4], np.int32)
        model = keras.models.from_pretrained(tiny)
        alone = [model.predict(ids[None, part])[0] for part in (slice(0, 4), slice(4, 9))]
        packed = keras.models.from_pretrained(tiny, packed=True)
        found = packed.predict([ids[None], places[None]])[0]
        self.assertLess(abs(found - np.concatenate(alone)).max(), 1e-5)

    def test_weights_in_few_bits(self):
        tiny = self.write()
        ids = np.arange(18, dtype=np.int32).reshape(2, 9) % VOCABULARY
        whole = keras.models.from_pretrained(tiny)
        model = keras.models.from_pretrained(tiny, quantize="int8")
        self.assertLess(len(model.trainable_variables), len(whole.trainable_variables))
        before = model.predict(ids)
        self.assertLess(abs(before - whole.predict(ids)).max(), 0.05)
        few = keras.models.from_pretrained(tiny, quantize="nf4",
                                             quantized_weights=["*kernel", "*embeddings"])
        self.assertLess(len(few.trainable_variables), len(model.trainable_variables))
        model.save_pretrained(self.folder / "same")
        self.assertEqual(hub.read_directory(self.folder / "same"), hub.read_directory(tiny))
        with self.assertRaisesRegex(ValueError, "'int3' is none of"):
            keras.models.from_pretrained(tiny, quantize="int3")

    def test_images(self):
        """A small ResNet without a head gets one."""
        weights, rng = {}, np.random.default_rng(4)
        for name, channels, size in (("embedder.embedder", 3, 7),
                                     ("encoder.stages.0.layers.0.layer.0", 8, 3),
                                     ("encoder.stages.0.layers.0.layer.1", 8, 3)):
            weights[name + ".convolution.weight"] = rng.normal(0, 0.2, (8, channels, size, size))
            for part in ("weight", "bias", "running_mean", "running_var"):
                weights[name + ".normalization." + part] = np.ones(8)
        config = {"model_type": "resnet", "architectures": ["ResNetModel"], "embedding_size": 8,
                  "hidden_sizes": [8], "depths": [1], "layer_type": "basic"}
        hub.write_directory(self.folder / "images", config, weights)
        model = keras.models.from_pretrained(self.folder / "images", image_size=32,
                                             synchronized_batch_norm=True, class_names="abc")
        self.assertEqual(model.new_variables, ["classifier/kernel", "classifier/bias"])
        self.assertEqual(model.weight_report.missing, model.new_variables)
        self.assertEqual(str(model.weight_report), "'classifier/kernel': there is no tensor\n"
                         "'classifier/bias': there is no tensor\n")
        self.assertEqual(model.image_scale()[0], (0, 0, 0, 0))
        images = rng.normal(size=(2, 32, 32, 3)).astype(np.float32)
        before = model.predict(images)
        self.assertEqual(before.shape, (2, 3))
        model.save_pretrained(self.folder / "three")
        again = keras.models.from_pretrained(self.folder / "three", image_size=32)
        self.assertEqual(again.new_variables, [])
        np.testing.assert_array_equal(again.predict(images), before)

    def test_classes(self):
        with self.assertRaisesRegex(ValueError, "models of type 'llama' are no classifiers"):
            keras.models.from_pretrained(self.write(), class_names=["yes", "no"])

    def test_adapters(self):
        tiny = self.write()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        model = keras.models.from_pretrained(tiny)
        ids = np.arange(18, dtype=np.int32).reshape(2, 9) % VOCABULARY
        labels = np.roll(ids, -1, 1)
        before = model.predict(ids)
        model.add_adapter(LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
        model.compile(keras.optimizers.AdamW(0.01),
                      keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(ids, labels, epochs=5, verbose=0)
        model.save_adapter("adapter")
        self.assertEqual([v.shape for v in model.trainable_variables], [(WIDTH, 4), (4, WIDTH)] * 2)
        self.assertIn("model.layers.0.self_attn.q_proj", model.adapter_modules)
        after = model.predict(ids)
        self.assertGreater(abs(after - before).max(), 1e-3)
        model.disable_adapters()
        self.assertTrue((model.predict(ids) == before).all())
        model.load_adapter("adapter", "again")
        self.assertEqual((model.adapters, model.active_adapter), (["default", "again"], "again"))
        self.assertTrue((model.predict(ids) == after).all())
        model.merge_adapter("again")
        self.assertIsNone(model.active_adapter)
        self.assertLess(abs(model.predict(ids) - after).max(), 1e-5)
        model.unmerge_adapter()
        self.assertTrue((model.predict(ids) == before).all())
        model.set_adapter("default")
        model.delete_adapter("again")
        self.assertTrue((model.predict(ids) == after).all())

    def test_wrong_adapters(self):
        model = keras.models.from_pretrained(self.write())
        with self.assertRaisesRegex(ValueError, "lora_alpha=0 must be positive"):
            model.add_adapter(LoraConfig(lora_alpha=0))
        with self.assertRaisesRegex(rf.InvalidArgumentError, "'query', names none"):
            model.add_adapter(LoraConfig(target_modules="query"))
        with self.assertRaisesRegex(rf.InvalidArgumentError, "no adapter 'default'"):
            model.merge_adapter()
        with self.assertRaisesRegex(rf.NotFoundError, "nowhere/adapter_config.json"):
            model.load_adapter(self.folder / "nowhere")
        self.assertEqual(model.adapters, [])
        model.add_adapter()
        self.assertEqual(len(model.trainable_variables), 2 * 7)

    def test_unknown_keys(self):
        tiny = self.write(new_attention="on")
        with self.assertRaisesRegex(rf.UnsupportedError, "'new_attention' is \"on\""):
            keras.models.from_pretrained(tiny)
        model = keras.models.from_pretrained(tiny, ignored_keys=["new_attention"])
        with self.assertRaisesRegex(rf.NotFoundError, "nowhere/config.json"):
            keras.models.from_pretrained(self.folder / "nowhere")
        model.close()


unittest.main()
