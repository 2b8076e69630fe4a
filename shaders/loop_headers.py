# SPDX-License-Identifier: Apache-2.0
"""Gives the loops of a SPIR-V module headers of their own.

The optimiser's merge-blocks moves the beginning of a loop's body into its header. That is valid,
and drivers do not care. But the Vulkan validation layer's GPU-assisted checks split a block where
they look at what it reads, and leave a header that is none (1.3.239)."""
import struct

OP_PHI, OP_LOOP_MERGE, OP_LABEL, OP_BRANCH = 245, 246, 248, 249
# the first word; where the module says how many ids it has; words before the first instruction
MAGIC, BOUND, HEADER = 0x07230203, 3, 5


def word(opcode, length):
    return length << 16 | opcode


def instructions(words):
    """(opcode, its words) of each."""
    at = HEADER
    while at < len(words):
        length = words[at] >> 16
        yield words[at] & 0xffff, words[at:at + length]
        at += length


def split(block, body):
    """The block as a header and a body of the label `body`, or as it is where its header has
    nothing else."""
    merges = [i for i, (opcode, _) in enumerate(block) if opcode == OP_LOOP_MERGE]
    phis = sum(opcode == OP_PHI for opcode, _ in block)
    if not merges or merges[0] == 1 + phis:
        return block, False
    label, (_, (first, merge, proceed, *control)) = block[0][1][1], block[merges[0]]
    proceed = body if proceed == label else proceed
    header = block[:1 + phis] + [(OP_LOOP_MERGE, [first, merge, proceed, *control]),
                                 (OP_BRANCH, [word(OP_BRANCH, 2), body])]
    return header + [(OP_LABEL, [word(OP_LABEL, 2), body])] + block[1 + phis:merges[0]] + block[
        merges[0] + 1:], True


def give_headers(module):
    """The module's bytes, with headers that hold phis and what makes them headers, no more."""
    words = list(struct.unpack("<%dI" % (len(module) // 4), module))
    assert words[0] == MAGIC
    # what stands before a label; block that ends as one did -> that one
    blocks, now_from = [[]], {}
    for opcode, operands in instructions(words):
        if opcode == OP_LABEL:
            blocks.append([])
        blocks[-1].append((opcode, operands))
    made = []
    for block in blocks:
        block, is_split = split(block, words[BOUND])
        if is_split:
            now_from[block[0][1][1]] = words[BOUND]
            words[BOUND] += 1
        made += block
    out = words[:HEADER]
    for opcode, operands in made:
        # result type and result, then values and the blocks that they come from
        if opcode == OP_PHI:
            operands = operands[:3] + [now_from.get(w, w) if i % 2 else w for i,
                                       w in enumerate(operands[3:])]
        out += operands
    return struct.pack("<%dI" % len(out), *out)
