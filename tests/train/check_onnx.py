# SPDX-License-Identifier: Apache-2.0
"""Checks an exported ONNX file and runs it, as far as there is something to do that with: python3-onnx's checker, and ONNX
Runtime for node (package onnxruntime-node, found through NODE_PATH).

Usage: check_onnx.py MODEL INPUTS EXPECTED N,H,W,C (raw f32 files); exits with 77 where neither is installed"""
import os
import shutil
import subprocess
import sys

model, inputs, expected, shape = sys.argv[1:5]
checked = False
for python in (sys.executable, "/usr/bin/python3"): # distributions' modules belong to their own interpreter
    found = subprocess.run([python, "-c", "import onnx"], stderr=subprocess.DEVNULL).returncode == 0
    if found:
        subprocess.run([python, "-c", "import onnx, sys; m = onnx.load(sys.argv[1]); onnx.checker.check_model(m, full_check=True); "
                        "print(len(m.graph.node), 'nodes')", model], check=True)
        checked = True
        break
else:
    print("left out: no module onnx (python3-onnx)")
script = """
const ort = require('onnxruntime-node'), fs = require('fs'), [model, inputs, expected, shape] = process.argv.slice(1);
const floats = f => { const b = fs.readFileSync(f); return new Float32Array(b.buffer.slice(b.byteOffset, b.byteOffset + b.length)); };
ort.InferenceSession.create(model).then(async s => {
  const r = await s.run({ input: new ort.Tensor('float32', floats(inputs), shape.split(',').map(Number)) });
  const got = r.output.data, want = floats(expected);
  if (got.length !== want.length) throw new Error(`${got.length} values, not ${want.length}`);
  let worst = 0;
  for (let i = 0; i < want.length; i++) worst = Math.max(worst, Math.abs(got[i] - want[i]));
  console.log('largest difference', worst);
  process.exit(worst < 1e-4 ? 0 : 1);
}).catch(e => { console.error(e); process.exit(1); });
"""
node = shutil.which("node")
if node and subprocess.run([node, "-e", "require('onnxruntime-node')"], stderr=subprocess.DEVNULL).returncode == 0:
    subprocess.run([node, "-e", script, model, inputs, expected, shape], check=True, env=os.environ)
    checked = True
else:
    print("left out: no node with onnxruntime-node (NODE_PATH)")
sys.exit(0 if checked else 77)
