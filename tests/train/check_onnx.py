# SPDX-License-Identifier: Apache-2.0
"""Checks exported ONNX files, or runs them and compares. Usage: check_onnx.py checker|runtime
FOLDER

FOLDER/manifest.json lists models with the raw files of their inputs and of what their outputs
  should be. checker: python3-onnx's checker, with shape inference runtime: ONNX Runtime for node,
  package onnxruntime-node, which `./dev setup test` puts into the user's cache; another one through
  NODE_PATH
Exits with 77, and says why, where that is not installed."""
import os
import shutil
import subprocess
import sys

mode, folder = sys.argv[1:3]

CHECK = """
import json, onnx, os, sys
folder, bad = sys.argv[1], 0
models = json.load(open(os.path.join(folder, "manifest.json")))
for m in models:
    try:
        model = onnx.load(os.path.join(folder, m["model"]))
        onnx.checker.check_model(model, full_check=True)
        kinds = [n.op_type for n in model.graph.node]
        for op, most in m.get("nodes", {}).items():
            if kinds.count(op) != most:
                raise ValueError("%d %s nodes, not %d" % (kinds.count(op), op, most))
    except Exception as e:
        bad += 1
        print("FAIL", m["model"], str(e).strip().replace("\\n", " "))
print(len(models), "models checked,", bad, "bad")
sys.exit(1 if bad or not models else 0)
"""

RUN = """
const ort = require('onnxruntime-node'), fs = require('fs'), path = require('path');
const folder = process.argv[1];
const arrays = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array };
const read = (file, type) => {
  const b = fs.readFileSync(path.join(folder, file));
  return new arrays[type](b.buffer.slice(b.byteOffset, b.byteOffset + b.length));
};
async function run(m) {
  const threads = { intraOpNumThreads: 1, interOpNumThreads: 1 }, feeds = {};
  const s = await ort.InferenceSession.create(path.join(folder, m.model), threads);
  for (const i of m.inputs) feeds[i.name] = new ort.Tensor(i.type, read(i.file, i.type), i.shape);
  const results = await s.run(feeds);
  let worst = 0;
  for (const o of m.outputs) {
    const got = results[o.name], want = read(o.file, o.type);
    if (got.type !== o.type || got.dims.join() !== o.shape.join())
      throw new Error(`${o.name} is ${got.type} [${got.dims}], not ${o.type} [${o.shape}]`);
    for (let i = 0; i < want.length; i++) {
      const a = got.data[i], b = want[i];
      if (Number.isNaN(a) && Number.isNaN(b) || a === b) continue;
      const excess = Math.abs(a - b) - (o.atol + o.rtol * Math.abs(b));
      if (!(excess <= 0)) throw new Error(`${o.name}[${i}] is ${a}, not ${b}`);
      worst = Math.max(worst, Math.abs(a - b));
    }
  }
  return worst;
}
(async () => {
  let bad = 0, count = 0, worst = 0;
  for (const m of JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')))) {
    /* types that node has no arrays of */
    if (m.inputs.concat(m.outputs).some(t => !arrays[t.type])) continue;
    count++;
    try {
      worst = Math.max(worst, await run(m));
    } catch (e) {
      bad++;
      console.log('FAIL', m.model, e.message);
    }
  }
  console.log(count, 'models run,', bad, 'bad, largest difference', worst);
  process.exit(bad || !count ? 1 : 0);
})();
"""


def leave_out(why):
    print("SKIP:", why)
    sys.exit(77)


if mode == "checker":
    # distributions' modules belong to their own interpreter
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import onnx"], stderr=subprocess.DEVNULL).returncode == 0:
            sys.exit(subprocess.run([python, "-c", CHECK, folder]).returncode)
    leave_out("no Python module onnx (Debian: python3-onnx)")
node = shutil.which("node")
if not node:
    leave_out("no node, to run ONNX Runtime with; ./dev setup test installs both")
cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
places = [os.environ.get("NODE_PATH"), os.path.join(cache, "ringfire/onnxruntime/node_modules")]
environment = {**os.environ, "NODE_PATH": ":".join(filter(None, places))}
if subprocess.run([node, "-e", "require('onnxruntime-node')"], stderr=subprocess.DEVNULL,
                  env=environment).returncode != 0:
    leave_out("no ONNX Runtime (package onnxruntime-node); ./dev setup test installs it")
sys.exit(subprocess.run([node, "-e", RUN, folder], env=environment).returncode)
