# SPDX-License-Identifier: Apache-2.0
"""Declares shaders' blocks of push constants as C structs, by what compiled modules say of them.

A struct is called rf_push_NAME after the file that declares the block, so that all shaders that
include the file share it. Where conditions make different blocks of one declaration, each has a
struct, which is called after the first shader of the list that has it. A block that is the
beginning of another has none of its own: the struct of the longer one serves both. A member that a
specialization constant may stand in for is called pushed_NAME in the shader; the field is NAME."""
import os
import re
import struct

import loop_headers

OP_MEMBER_NAME, OP_TYPE_INT, OP_TYPE_FLOAT, OP_TYPE_VECTOR = 6, 21, 22, 23
OP_TYPE_ARRAY, OP_TYPE_STRUCT, OP_TYPE_POINTER = 28, 30, 32
OP_CONSTANT, OP_FUNCTION, OP_VARIABLE, OP_DECORATE, OP_MEMBER_DECORATE = 43, 54, 59, 71, 72
ARRAY_STRIDE, OFFSET, PUSH_CONSTANT = 6, 35, 9
DECLARATION = re.compile(rb"layout\s*\(\s*push_constant\s*\)")
LETTERS = {"f": "float", "i": "int32_t", "u": "uint32_t"}


class Unfit(Exception):
    """A block that no struct of C can be."""


class Type:
    """A scalar by its letter, or a struct's members, in an array of so many; `dims` are those of
    the C array."""

    def __init__(self, letter="", members=(), dims=(), size=4):
        self.letter, self.members, self.dims, self.size = letter, tuple(members), tuple(dims), size

    def key(self):
        return self.letter, tuple((name, offset, kind.key()) for name, offset,
                                  kind in self.members), self.dims

    def is_begun_by(self, other):
        """Whether the other one is the same, or a shorter array of the same."""
        same = self.letter == other.letter and self.key()[1] == other.key()[1] and self.dims[
            1:] == other.dims[1:]
        return same and len(self.dims) == len(other.dims) and self.dims[:1] >= other.dims[:1]


class Reader:
    """The declarations of a module."""

    def __init__(self, module):
        self.names, self.offsets, self.strides, self.types, self.constants, self.block = {}, {}, {
            }, {}, {}, None
        words = struct.unpack("<%dI" % (len(module) // 4), module)
        for opcode, w in loop_headers.instructions(words):
            if opcode == OP_MEMBER_NAME:
                self.names[w[1], w[2]] = struct.pack("<%dI" % len(w[3:]), *w[3:]).split(b"\0")[
                    0].decode()
            elif opcode == OP_MEMBER_DECORATE and w[3] == OFFSET:
                self.offsets[w[1], w[2]] = w[4]
            elif opcode == OP_DECORATE and w[2] == ARRAY_STRIDE:
                self.strides[w[1]] = w[3]
            elif OP_TYPE_INT <= opcode <= OP_TYPE_POINTER:
                self.types[w[1]] = opcode, w[2:]
            elif opcode == OP_CONSTANT:
                self.constants[w[2]] = w[3]
            elif opcode == OP_VARIABLE and w[3] == PUSH_CONSTANT:
                self.block = self.types[w[1]][1][1]
            elif opcode == OP_FUNCTION:
                return

    def read(self, type_id, name):
        opcode, w = self.types[type_id]
        if opcode in (OP_TYPE_INT, OP_TYPE_FLOAT) and w[0] == 32:
            return Type("f" if opcode == OP_TYPE_FLOAT else "ui"[w[1]])
        if opcode in (OP_TYPE_VECTOR, OP_TYPE_ARRAY):
            of = self.read(w[0], name)
            length = w[1] if opcode == OP_TYPE_VECTOR else self.constants[w[1]]
            if opcode == OP_TYPE_ARRAY and self.strides[type_id] != of.size:
                raise Unfit("'%s' has elements of %d bytes, %d apart"
                            % (name, of.size, self.strides[type_id]))
            return Type(of.letter, of.members, (length, *of.dims), length * of.size)
        if opcode == OP_TYPE_STRUCT:
            return self.read_struct(type_id, w)
        raise Unfit("'%s' is of no type that C has in 32 bits" % name)

    def read_struct(self, type_id, ids):
        members, end = [], 0
        for i, member in enumerate(ids):
            name = self.names.get((type_id, i), "")
            offset, kind = self.offsets[type_id, i], self.read(member, name)
            if offset != end:
                raise Unfit("'%s' is at byte %d; in C it would be at %d" % (name, offset, end))
            members.append((name[len("pushed_"):] if name.startswith("pushed_") else name, offset,
                            kind))
            end = offset + kind.size
        return Type(members=members, size=end)


def block_of(module):
    """The type of the module's block; None: it has none. A stripped module's members have no
    names."""
    reader = Reader(module)
    return reader.read(reader.block, "the block") if reader.block is not None else None


def is_beginning(short, long):
    """Whether one block begins another, or is the same."""
    if len(short.members) > len(long.members):
        return False
    pairs = list(zip(short.members, long.members))
    if any(a[:2] != b[:2] or a[2].key() != b[2].key() for a, b in pairs[:-1]):
        return False
    (name_a, offset_a, a), (name_b, offset_b, b) = pairs[-1]
    return (name_a, offset_a) == (name_b,
                                  offset_b) and b.is_begun_by(a) and (
                                      len(short.members) == len(long.members) or a.dims == b.dims)


def forms_of(blocks):
    """(name of the first shader, block) of each that begins no other, of (name, block) in the order
    of the list."""
    longest = []
    for _, block in blocks:
        if not any(is_beginning(block, other) for other in longest):
            longest = [other for other in longest if not is_beginning(other, block)] + [block]
    return [(next(name for name, block in blocks if is_beginning(block, long)), long)
            for long in longest]


def declare(tag, block):
    """C text of the struct."""
    inner = [(name, kind) for name, _, kind in block.members if kind.members]
    text = "".join(declare("%s_%s" % (tag, name), Type(members=kind.members, size=kind.size))
                   for name, kind in inner)
    text += "typedef struct %s {\n" % tag
    for name, _, kind in block.members:
        of = "%s_%s" % (tag, name) if kind.members else LETTERS[kind.letter]
        text += "    %s %s%s;\n" % (of, name, "".join("[%d]" % dim for dim in kind.dims))
    text += "} %s;\n" % tag
    for name, offset, _ in block.members:
        text += '_Static_assert(offsetof(%s, %s) == %d, "shader: %s");\n' % (
            tag, name, offset, name)
    return text


def header_of(guard, modules):
    """C text with the structs of all blocks, of (name, file that declares the block, block) for
    each module with names."""
    files = {}
    for name, path, block in modules:
        files.setdefault(path, []).append((name, block))
    text = ("/* Made by the build from the shaders' blocks of push constants. */\n#ifndef "
            "%s\n#define %s\n\n" % (guard, guard))
    text += "#include <stddef.h>\n#include <stdint.h>\n"
    for path in sorted(files):
        forms = forms_of(files[path])
        stem = os.path.basename(path).rsplit(".", 1)[0]
        for first, block in forms:
            tag = "rf_push_" + (stem if len(forms) == 1 else first)
            text += "\n" + declare(tag, block)
            text += '_Static_assert(sizeof(%s) == %d, "shader: size");\n' % (tag, block.size)
    return text + "\n#endif\n"
