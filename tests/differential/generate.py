# SPDX-License-Identifier: Apache-2.0
"""Random cases for differential.py: single operations at awkward shapes, and graphs of 5 to 20
operations.

A case is a dictionary, as its file is JSON: `steps` are leaves (type, shape, how to fill it) and
ops (name, numbers of the values they read, further numbers), whose values are counted from 0;
`loss` and `targets` are what is differentiated by what, `results` what is compared besides the
gradients. Values are looked at while a graph grows, so that a logarithm meets positive numbers and
nothing overflows. """
import math
import random

import numpy
import torch

import oracle

SMALL = [1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17]
LARGER = [31, 32, 33, 37, 63, 64, 65, 97, 127, 128, 129, 255, 256, 257]
LONG = [1021, 4095, 4096, 4097, 65535, 65537, 70001]
EQUATIONS = ["ij->ji", "ijk->kij", "ijk->j", "ij->", "ba", "i...->...i", "...ij->...", "ij,jk->ik",
             "ij,jk", "ji,kj->ik", "ij,kj->ki", "i,j->ij", "i,i->",
             "i,ij->j", "ij,ij->ij", "bi,bi->b", "bij,bj->bi", "bij,bjk->bik", "bji,bkj->bik",
             "bij,jk->bik", "bthd,bshd->bhts", "bhts,bshd->bthd",
             "bi,ijk,bj->bk", "abc,cd->abd", "abc,bcd->ad", "abc,dcb->ad", "ab,cd->dacb",
             "...ij,...jk->...ik", "...i,ij->...j", "a,b,c->abc",
             "ij,jk,kl->il", "ab,ab,ab->ba", "ij,k->i", "bhqd,bkd->bhqk", "ijkl,klm->mij",
             "abcde,ce->dab", "Ab,bC"]
MAX_ELEMENTS, MAX_PRODUCTS, MAX_VALUE = 1 << 15, 1 << 22, 1e3


def fill(step):
    """The elements of a leaf."""
    numbers, shape, (low,
                     high) = numpy.random.RandomState(step["seed"]), step["shape"], step["between"]
    kind = step["fill"]
    if kind == "integer":
        values = numbers.randint(low, high + 1, shape)
    elif kind == "normal":
        values = low + high * numbers.standard_normal(shape)
    else:
        values = low + (high - low) * numbers.random_sample(shape)
    values = numpy.asarray(values)
    if kind == "probability":
        values = values / values.sum(-1, keepdims=True)
    return numpy.ascontiguousarray(
        values.astype(numpy.int32 if step["leaf"] == "i32" else numpy.float32)).reshape(shape)


def leaves_of(case):
    return [fill(step) for step in case["steps"] if "leaf" in step]


class Builder:
    def __init__(self, rng, limit=MAX_ELEMENTS, alone=True):
        self.rng, self.limit, self.alone = rng, limit, alone
        self.steps, self.values, self.read = [], [], set()
        self.narrow = set()  # values of 16 and 8 bits, which only a cast takes

    # ---- what there is ----

    def shape(self, i):
        return list(self.values[i].shape)

    def is_float(self, i):
        """A value of 32 bits."""
        return self.values[i].is_floating_point() and i not in self.narrow

    def is_whole(self, i):
        return not self.values[i].is_floating_point() and i not in self.narrow

    def largest(self, i):
        return float(self.values[i].abs().max())

    def dims(self, rank, limit=None):
        """A random shape."""
        limit, out = limit or self.limit, []
        for _ in range(rank):
            options = SMALL * 4 + LARGER + (LONG if rank <= 2 and self.limit > MAX_ELEMENTS else [])
            out.append(self.rng.choice([d for d in options if d * math.prod(out) <= limit]))
        self.rng.shuffle(out)
        return out

    def leaf(self, shape, kind="normal", between=(0, 1), dtype="f32"):
        step = {"leaf": dtype, "shape": list(shape), "fill": kind, "between": list(between),
                "seed": self.rng.randrange(1 << 31)}
        self.steps.append(step)
        x = torch.from_numpy(fill(step))
        self.values.append(x.double() if dtype == "f32" else x.long())
        return len(self.values) - 1

    def pick(self, fits=lambda i: True, shape=None, **filling):
        """An f32 value with the property, often an old one; else a leaf of the shape."""
        old = [i for i in range(len(self.values)) if self.is_float(i) and fits(i)]
        if old and self.rng.random() < 0.85:
            return self.rng.choice(old[-6:] if self.rng.random() < 0.7 else old)
        return self.leaf(shape if shape is not None
                         else self.dims(self.rng.choice([0, 1, 2, 2, 3, 4])), **filling)

    def add(self, op, operands, numbers=()):
        """The new value, or None where it would be too large, or not finite."""
        node = {"op": op, "in": list(operands), "numbers": list(numbers)}
        with torch.no_grad():
            y = oracle.apply(oracle.Errors(), node, self.values)
        if y.numel() > self.limit or y.numel() == 0 or not torch.isfinite(y.double()).all(
            ) or float(y.double().abs().max()) > MAX_VALUE:
            return None
        return self.append(node, y)

    def force(self, op, operands, numbers=()):
        """A new value, however large."""
        node = {"op": op, "in": list(operands), "numbers": list(numbers)}
        with torch.no_grad():
            return self.append(node, oracle.apply(oracle.Errors(), node, self.values))

    def append(self, node, y):
        self.steps.append(node)
        self.values.append(y)
        self.read.update(node["in"])
        if node["op"] == "cast" and node["numbers"][0] in (oracle.U8, *oracle.ROUNDED):
            self.narrow.add(len(self.values) - 1)
        return len(self.values) - 1

    # ---- operations ----

    def operand_like(self, x):
        """Something that broadcasts against x, or is broadcast to by it."""
        shape = self.shape(x)
        choice = self.rng.random()
        if choice < 0.3:
            other = shape
        elif choice < 0.8:
            other = [1 if self.rng.random() < 0.4 else d
                     for d in shape][self.rng.randint(0, len(shape)):]
        else:
            other = [d if d > 1 else self.rng.choice(SMALL) for d in shape]
            if len(other) < 5 and self.rng.random() < 0.3:
                other = [self.rng.choice(SMALL)] + other

        def fits(i):
            try:
                return math.prod(torch.broadcast_shapes(self.shape(i), shape)) <= self.limit
            except RuntimeError:
                return False

        return fits, other

    def gen_binary(self, op):
        a = self.pick()
        fits, shape = self.operand_like(a)
        if op == "divide":
            b = self.pick(lambda i: fits(i) and float(self.values[i].abs().min()) > 0.05, shape,
                          kind="uniform", between=(0.5, 3))
        elif op == "pow":
            return self.gen_pow(a)
        else:
            b = self.pick(fits, shape)
        if op in ("maximum", "minimum") and self.rng.random() < 0.2:
            b = a
        pair = [a, b]
        if op != "divide" and self.rng.random() < 0.5:
            pair.reverse()
        return self.add(op, pair)

    def gen_pow(self, a):
        if self.rng.random() < 0.3:  # any base, whole exponents
            fits, shape = self.operand_like(a)
            b = self.leaf(shape, "integer", (0, 3))
            if not self.alone:  # its gradient is NaN, which may or may not reach what drops it
                b = self.force("stop_gradient", [b])
            return self.add("pow", [a, b])
        a = self.pick(lambda i: float(self.values[i].min()) > 0.01, None, kind="uniform",
                      between=(0.05, 3))
        fits, shape = self.operand_like(a)
        return self.add("pow", [a, self.pick(lambda i: fits(i) and self.largest(i) < 6, shape)])

    def gen_unary(self, op):
        if op in ("log", "sqrt", "rsqrt"):
            x = self.pick(lambda i: float(self.values[i].min()) > 0.01, None, kind="uniform",
                          between=(0.02, 4))
        elif op == "log1p":
            x = self.pick(lambda i: float(self.values[i].min()) > -0.9, None, kind="uniform",
                          between=(-0.8, 4))
        elif op in ("sign", "floor", "round"):  # not where they jump, but for a leaf's own numbers
            x = self.pick(lambda i: self.jumps_are_far(i, op))
        elif op in ("exp", "expm1"):
            x = self.pick(lambda i: float(self.values[i].max()) < 6)
        elif op == "flatten":
            x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        elif op in ("softmax", "log_softmax", "argmax", "argmin", "cumsum"):
            x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        elif op == "global_avg_pool2d":
            x = self.image()
        else:
            x = self.pick()
        numbers = {"leaky_relu": [self.rng.choice([0.0, 0.01, 0.2, 0.5])],
                   "elu": [self.rng.choice([0.0, 0.5, 1.0, 1.5])], "gelu": [self.rng.randint(0, 1)],
                   "activate": [
                       self.rng.choice([a for a in oracle.ACTIVATIONS if a != 6 or self.shape(x)])],
                   "dropout": [0.5],
                   "cumsum": [self.rng.randint(0, 1), self.rng.randint(0, 1)]}.get(op, [])
        return self.add(op, [x], numbers)

    def jumps_are_far(self, i, op):
        x = self.values[i]
        away = x.abs() if op == "sign" else (x - x.round()).abs() if op == "floor" else (
            x - x.floor() - 0.5).abs()
        return float(away.min()) > 1e-3

    def gen_cumprod(self, op):
        """Of numbers with zeros among them, and of long rows about 1; not where products are so
        small that they may be flushed to zero."""
        shape = self.dims(self.rng.randint(1, 4))
        around = min(0.9, 5 / math.sqrt(shape[-1]))
        x = self.pick(lambda i: len(self.shape(i)) >= 1 and self.shape(i)[-1] < 32, shape,
                      kind="uniform", between=(1 - around, 1 + around))
        if self.rng.random() < 0.3:
            x = self.add("multiply", [x, self.leaf(self.shape(x), "integer", (0, 2))])
        numbers = [self.rng.randint(0, 1), self.rng.randint(0, 1)]
        if x is None:
            return None
        products = oracle.cumprod(oracle.Errors(), [self.values[x]], numbers).abs()
        return self.add(op, [x],
                        numbers) if float(products[products > 0].min() if (products > 0).any()
                                          else 1) > 1e-25 else None

    def gen_top_k(self, op):
        """Values, or their indices, where no rounding changes which come first."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        k = self.rng.randint(1, min(self.shape(x)[-1], self.rng.choice([1, 3, 8, 64, 4096])))
        ordered = self.values[x].sort(-1, descending=True)[0][..., :k + 1]
        if ordered.shape[-1] > 1 and float(
            (ordered[..., :-1] - ordered[..., 1:]).min()) < 1e-4 * max(1.0, self.largest(x)):
            return None
        return self.add(op, [x], [k, self.rng.randint(0, 1)])

    def gen_sort(self, op):
        """Along any axis, where no rounding changes the order."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        axis = self.axis(len(self.shape(x)))
        gaps = self.values[x].sort(axis)[0].diff(dim=axis)
        if gaps.numel() and float(gaps.min()) < 1e-5 * max(1.0, self.largest(x)):
            return None
        return self.add(op, [x], [axis, self.rng.randint(0, 1), self.rng.randint(0, 1)])

    def image(self):
        """A value of rank 4; where there is none, one is reshaped."""
        if self.rng.random() < 0.3:
            for i in reversed(range(len(self.values))):
                if self.is_float(i) and len(self.shape(i)) in (2, 3):
                    added = self.add("reshape", [i], self.split(self.shape(i), 4))
                    if added is not None:
                        return added
        return self.pick(lambda i: len(self.shape(i)) == 4,
                         [self.rng.choice(SMALL[:5]), *self.dims(2, 1 << 9),
                          self.rng.choice(SMALL)])

    def split(self, shape, rank):
        """Another shape of the same number of elements."""
        count, out = math.prod(shape), []
        for _ in range(rank - 1):
            out.append(self.rng.choice([d for d in range(1, min(count, 64) + 1) if count % d == 0]))
            count //= out[-1]
        out.append(count)
        self.rng.shuffle(out)
        return out

    def gen_matmul(self, op):
        a = self.pick(lambda i: len(self.shape(i)) >= 2 and math.prod(self.shape(i)) <= 1 << 14,
                      self.dims(self.rng.choice([2, 2, 2, 3, 4]), 1 << 14))
        transposed = [self.rng.randint(0, 1), self.rng.randint(0, 1)]
        m, k = self.shape(a)[-2:] if not transposed[0] else reversed(self.shape(a)[-2:])
        batch = [1 if self.rng.random() < 0.3 else d
                 for d in self.shape(a)[:-2]][self.rng.randint(0, len(self.shape(a)) - 2):]
        n = self.rng.choice([d for d in SMALL + LARGER
                             if d * m * k * math.prod(self.shape(a)[:-2]) <= MAX_PRODUCTS] or [1])
        b = self.leaf(batch + ([n, k] if transposed[1] else [k, n]), between=(0, 1 / math.sqrt(k)))
        return self.add("matmul", [a, b], transposed)

    def gen_einsum(self, op):
        """Letters of few numbers; sometimes one operand has 1 where another one has more."""
        equation = self.rng.choice(EQUATIONS)
        terms = equation.split("->")[0].split(",")
        sizes = {c: self.rng.choice(SMALL + [31, 32, 33] * (len(set(equation)) < 7))
                 for c in equation}
        hidden = [self.rng.choice(SMALL[:5]) for _ in range(self.rng.randint(0, 2))]
        shapes = []
        for term in terms:
            own = hidden[self.rng.randint(0, len(hidden)):] if len(terms) > 1 else hidden
            shapes.append([d for c in term.replace("...", ".")
                           for d in (own if c == "." else [sizes[c]])])
        if math.prod(sizes.get(c, 1)
                     for c in set("".join(terms))) * math.prod(hidden) > MAX_PRODUCTS:
            return None
        if len(terms) > 1 and self.rng.random() < 0.2:
            ones = self.rng.choice([s for s in shapes if s] or shapes)
            ones[self.rng.randrange(len(ones))] = 1
        operands = [self.pick(lambda i, s=s: self.shape(i) == s, s) for s in shapes]
        return self.add(op, operands, [ord(c) for c in equation])

    def gen_bias_add(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        return self.add(op, [x, self.leaf(self.shape(x)[-1:])])

    def gen_conv2d(self, op):
        x = self.image()
        n, h, w, c = self.shape(x)
        padding = self.rng.randint(0, 2)
        pads = [self.rng.randint(0, 2) for _ in range(4)] if padding == 2 else [0] * 4
        dilation = [self.rng.choice([0, 1, 1, 2, 3]) for _ in range(2)]
        room = [h + pads[0] + pads[1], w + pads[2] + pads[3]]
        kernel = [self.rng.choice([1, 2, 3, 3, 4, 5]) for _ in range(2)]
        if padding != 1:
            kernel = [k if (k - 1) * (d or 1) < r else 1 for k, d, r in zip(kernel, dilation, room)]
        groups = self.rng.choice([g for g in range(1, min(c, 8) + 1) if c % g == 0] + [1] * 3)
        each = self.rng.choice([d for d in SMALL + [31, 32, 33]
                                if d * groups * math.prod(
                                    kernel) * c // groups * n * h * w <= MAX_PRODUCTS] or [1])
        k = self.leaf(kernel + [c // groups, each * groups],
                      between=(0, 1 / math.sqrt(math.prod(kernel) * c / groups)))
        stride = [self.rng.choice([0, 1, 1, 2, 3]) for _ in range(2)]
        return self.add(op, [x, k], [padding, *stride, *dilation, self.rng.choice([0, 1])
                                     if groups == 1 else groups, *pads])

    def gen_conv2d_transpose(self, op):
        x = self.image()
        n, h, w, c = self.shape(x)
        padding = self.rng.randint(0, 2)
        dilation = [self.rng.choice([0, 1, 1, 2, 3]) for _ in range(2)]
        stride = [self.rng.choice([0, 1, 2, 2, 3]) for _ in range(2)]
        kernel = [self.rng.choice([1, 2, 3, 3, 4, 5]) for _ in range(2)]
        pads = [self.rng.randint(0, (k - 1) * (d or 1) // 2) for k, d in zip(kernel, dilation)
                for _ in range(2)] if padding == 2 else [0] * 4
        groups = self.rng.choice([g for g in range(1, min(c, 8) + 1) if c % g == 0] + [1] * 3)
        each = self.rng.choice([d for d in SMALL + [31, 32, 33]
                                if d * math.prod(kernel) * c * n * h * w <= MAX_PRODUCTS] or [1])
        k = self.leaf(kernel + [each, c],
                      between=(0, 1 / math.sqrt(math.prod(kernel) * c / groups)))
        return self.add(op, [x, k], [padding, *stride, *dilation, self.rng.choice([0, 1])
                                     if groups == 1 else groups, *pads])

    def gen_pool(self, op):
        x = self.image()
        padding = self.rng.randint(0, 2)
        window = [self.rng.choice([0, 1, 2, 3, 4, 5]) for _ in range(2)]
        pads = [self.rng.randint(0, (w or 2) - 1) for w in window
                for _ in range(2)] if padding == 2 else [0] * 4
        stride = [self.rng.choice([0, 1, 2, 3]) for _ in range(2)]
        if padding != 1:
            for axis in range(2):
                if (window[axis]
                    or 2) > self.shape(x)[1 + axis] + pads[2 * axis] + pads[2 * axis + 1]:
                    return None
        return self.add(op, [x], [padding, *window, *stride, *pads])

    def gen_upsample(self, op):
        x = self.image()
        factors = [self.rng.choice([1, 1, 2, 2, 3, 4, 5]) for _ in range(2)]
        return self.add(op, [x],
                        [self.rng.randint(0, 1), *factors]) if math.prod(self.shape(x)) * math.prod(
                            factors) < 20000 else None

    def gen_resize(self, op):
        x = self.image()
        size = [self.rng.choice([1, 2, 3, 5, 8, 13]) for _ in range(2)]
        return self.add(op, [x], [*size, *self.rng.choice(sorted(oracle.RESIZES))]
                        ) if math.prod(self.shape(x)[::3] + size) < 20000 else None

    def gen_blocks(self, op):
        """Of images that blocks divide, which seldom are there."""
        block = self.rng.choice([1, 2, 3])
        shape = [self.rng.choice([1, 2, 3]) for _ in range(4)]
        for axis in (1, 2) if op == "space_to_depth" else (3, 3):
            shape[axis] *= block
        return self.add(op, [self.leaf(shape)], [block, self.rng.randint(0, 1)])

    def gen_reshape(self, op):
        x = self.pick()
        shape = self.split(self.shape(x),
                           self.rng.randint(0 if math.prod(self.shape(x)) == 1 else 1,
                                            5)) if self.shape(x) else [1] * self.rng.randint(0, 3)
        return self.add(op, [x], shape) if math.prod(shape) == math.prod(self.shape(x)) else None

    def gen_transpose(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 5)))
        perm = list(range(len(self.shape(x))))
        self.rng.shuffle(perm)
        return self.add(op, [x], perm)

    def gen_slice(self, op):
        """Ranges of some axes, backwards too, with ends inside and beyond."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 5)))
        numbers = []
        for size in self.shape(x)[:self.rng.randint(1, len(self.shape(x)))]:
            step = self.rng.choice([1, 1, 1, 2, 3, size + 1, -1, -2, -5])
            begin, end = (self.rng.randint(-size - 2, size + 2) for _ in range(2))
            if len(range(size)[begin:end:step]) == 0:
                begin, end = (0, size) if step > 0 else (size, -size - 1)
            numbers += [begin, end, step]
        return self.add(op, [x], numbers)

    def gen_pad(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        numbers = [round(self.rng.uniform(-2, 2), 3)]
        for _ in range(self.rng.randint(1, len(self.shape(x)))):
            numbers += [self.rng.choice([0, 0, 1, 2, 4, 5]) for _ in range(2)]
        return self.add(op, [x], numbers)

    def gen_tile(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4), 1 << 12))
        return self.add(op, [x], [self.rng.choice([1, 1, 2, 3, 7, 10])
                                  for _ in range(self.rng.randint(1, len(self.shape(x))))])

    def gen_reverse(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 5)))
        return self.add(op, [x], [self.axis(len(self.shape(x)))])

    def gen_compare(self, op):
        """Whole numbers, many of them equal, of either type; large ones of i32 differ where f32
        does not."""
        dtype, low = self.rng.choice([("f32", -3), ("i32", -3), ("i32", 2 ** 30)])
        a = self.leaf(self.dims(self.rng.randint(0, 4)), "integer", (low, low + 6), dtype)
        return self.add(op,
                        [a, self.leaf(self.operand_like(a)[1], "integer", (low, low + 6), dtype)],
                        [self.rng.randint(0, 5)])

    def gen_where(self, op):
        a = self.pick()
        fits, shape = self.operand_like(a)
        b = self.pick(fits, shape)
        both = list(torch.broadcast_shapes(self.shape(a), self.shape(b)))
        mask = self.leaf([1 if self.rng.random() < 0.3 else d for d in both], "integer", (-1, 1))
        return self.add(op, [mask, a, b])

    def gen_slice_update(self, op):
        """Updates at a place that a tensor says, some of them outside at times."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        shape = list(self.shape(x))
        axis = self.axis(len(shape))
        part = [*shape]
        part[axis] = self.rng.choice([1, 1, self.rng.randint(1, shape[axis])])
        updates = self.pick(lambda i: list(self.shape(i)) == part, part)
        start = self.leaf(self.rng.choice([[], [1], [1, 1]]), "integer", (-2, shape[axis]), "i32")
        return self.add(op, [x, updates, start], [axis])

    def gen_clip(self, op):
        return self.add(op, [self.pick()],
                        sorted(round(self.rng.uniform(-2, 2), 3) for _ in range(2)))

    def axis(self, rank):
        """One of so many, from the end too."""
        return self.rng.randint(-rank, rank - 1)

    def gen_join(self, op):
        """Old values of one shape but for the axis, the same one more than once, and new ones; more
        than one op takes."""
        x = self.pick(lambda i: 1 <= len(self.shape(i)) <= 5, self.dims(self.rng.randint(1, 4)))
        shape = self.shape(x)
        axis, count = self.axis(len(shape)
                                + (op == "stack")), self.rng.choice([1, 2, 2, 2, 3, 3, 5, 8, 11])

        def rest(dims):
            """The dimensions that a concatenation does not touch."""
            return [d for i, d in enumerate(dims) if i != axis % len(dims)]

        def fits(i):
            other = self.shape(i)
            return other == shape or op == "concat" and len(other) == len(shape) and rest(
                other) == rest(shape)

        def another():
            own = list(shape)
            if op == "concat":
                own[axis] = self.rng.choice(SMALL)
            return self.pick(fits, own)

        return self.add(op, [x] + [another() for _ in range(count - 1)], [axis])

    def gen_split(self, op):
        """One of the parts; often another one of the same parts as well."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        axis = self.axis(len(self.shape(x)))
        size = self.shape(x)[axis]
        count = self.rng.choice([n for n in range(1, 17) if size % n == 0])
        first = self.add(op, [x], [axis, count, self.rng.randrange(count)])
        return first if self.rng.random() < 0.5 else self.add(
            op, [x], [axis, count, self.rng.randrange(count)])

    def gen_axis(self, op):
        if op == "expand_dims":
            x = self.pick(lambda i: len(self.shape(i)) <= 5)
            return self.add(op, [x], [self.axis(len(self.shape(x)) + 1)])
        x = self.pick(lambda i: 1 in self.shape(i), [1] + self.dims(self.rng.randint(0, 3)))
        axis = self.rng.choice([d for d, size in enumerate(self.shape(x)) if size == 1])
        return self.add(op, [x], [axis if self.rng.random() < 0.5 else axis - len(self.shape(x))])

    def gen_gather(self, op):
        """Indices of any rank, few choices and many, some of them often."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        axis = self.rng.randrange(len(self.shape(x)))
        room = max(1, self.limit // math.prod(d for i, d in enumerate(self.shape(x)) if i != axis))
        shape = self.dims(self.rng.randint(0, min(3, 6 - len(self.shape(x)))), min(room, 1 << 11))
        indices = self.leaf(shape, "integer", (0, self.rng.randint(0, self.shape(x)[axis] - 1)),
                            "i32")
        return self.add(op, [x, indices],
                        [axis - len(self.shape(x)) if self.rng.random() < 0.5 else axis])

    def gen_gather_positions(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 2, self.dims(self.rng.randint(2, 4)))
        n, s = self.shape(x)[:2]
        room = max(1, self.limit // (math.prod(self.shape(x)) // s))
        positions = self.leaf([n, self.rng.choice([d for d in SMALL + LARGER if d <= room] or [1])],
                              "integer", (0, s - 1), "i32")
        return self.add(op, [x, positions])

    def gen_norm(self, op):
        """An epsilon that is not lost: of constant rows the inverse deviation is its root, times
        what rounding left of the row."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        vectors = [self.leaf(self.shape(x)[-1:]) for _ in range(2 if op == "layer_norm" else 1)]
        return self.add(op, [x, *vectors], [self.rng.choice([1e-1, 1e-3])])

    def gen_group_norm(self, op):
        """Gamma, beta, both or none; along any axis but the first."""
        x = self.pick(lambda i: len(self.shape(i)) >= 2, self.dims(self.rng.randint(2, 5)))
        rank = len(self.shape(x))
        axis = self.rng.randint(1, rank - 1)
        channels = self.shape(x)[axis]
        has = [self.rng.randint(0, 1), self.rng.randint(0, 1)]
        groups = self.rng.choice([g for g in range(1, channels + 1) if channels % g == 0] + [-1])
        return self.add(op, [x] + [self.leaf([channels]) for _ in range(sum(has))],
                        [groups, self.rng.choice([axis, axis - rank]),
                         self.rng.choice([1e-1, 1e-3]), *has])

    def gen_rnn(self, op):
        """The sequence, or a last state; whether there are a bias, initial states and a mask."""
        kind = self.rng.randint(0, 2)
        gates, units = (3, 4, 1)[kind], self.rng.choice([1, 2, 3, 4, 5, 8, 13])
        n, steps = self.rng.choice(SMALL), self.rng.randint(1, 9)
        bias, state, mask = (self.rng.randint(0, 1) for _ in range(3))
        which = self.rng.choice([0, 0, 1, 2] if kind == 1 else [0, 0, 1])
        old = [i for i in range(len(self.values)) if self.is_float(i)
               and math.prod(self.shape(i)) == n * steps * gates * units and self.largest(i) < 10]
        x = self.leaf([n, steps, gates * units])
        if old and self.rng.random() < 0.5:
            x = self.add("reshape", [self.rng.choice(old)], [n, steps, gates * units])
        operands = [x, self.leaf([units, gates * units], between=(0, 1 / math.sqrt(units)))]
        operands += [self.leaf([gates * units])] * bias
        for _ in range(state * (1 + (kind == 1))):
            operands.append(self.leaf([n, units]))
        operands += [self.leaf([n, steps], "integer", (0, 1))] * mask
        return self.add(op, operands, [kind, self.rng.randint(0, 1) if kind == 0 else 0,
                                       self.rng.randint(0, 1), which, bias, state, mask])

    def gen_reduce(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        rank = len(self.shape(x))
        axes = self.rng.sample(range(rank), self.rng.randint(0, rank))
        return self.add(op, [x], [self.rng.randint(0, 1)]
                        + [a - rank if self.rng.random() < 0.5 else a for a in axes])

    def gen_moments(self, op):
        """Often over all axes but the last, which one walk over x makes."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 4)))
        rank = len(self.shape(x))
        axes = list(range(rank - 1)) if rank > 1 and self.rng.random() < 0.5 else self.rng.sample(
            range(rank), self.rng.randint(0, rank))
        return self.add(op, [x], [self.rng.randint(0, 1), self.rng.randint(0, 1)]
                        + [a - rank if self.rng.random() < 0.5 else a for a in axes])

    def gen_one_hot(self, op):
        whole = [i for i in range(len(self.values)) if self.is_whole(i) and len(self.shape(i)) < 5]
        x = self.rng.choice(whole) if whole else self.leaf(
            self.dims(self.rng.randint(0, 3), 1 << 11), "integer", (-1, 20), "i32")
        return self.add(op, [x], [self.rng.choice(SMALL)])

    def gen_sparse(self, op):
        logits = self.rng.randint(0, 1)
        x = self.predictions(logits)
        rows, classes = self.shape(x)[:-1], self.shape(x)[-1]
        old = [i for i in range(len(self.values)) if self.is_whole(i) and self.shape(i) == rows
               and 0 <= int(self.values[i].min()) and int(self.values[i].max()) < classes]
        labels = self.rng.choice(old) if old and self.rng.random() < 0.5 else self.leaf(
            rows, "integer", (0, classes - 1), "i32")
        return self.add(op, [labels, x], [logits])

    def predictions(self, logits):
        shape = self.dims(self.rng.randint(1, 3))
        if logits:
            return self.pick(lambda i: len(self.shape(i)) >= 1, shape)
        return self.pick(lambda i: len(self.shape(i)) >= 1 and float(self.values[i].min()) > 1e-3,
                         shape, kind="probability", between=(0.1, 1))

    def gen_dense(self, op):
        logits = self.rng.randint(0, 1)
        x = self.predictions(logits)
        labels = self.pick(lambda i: self.shape(i) == self.shape(x), self.shape(x),
                           kind="probability", between=(0, 1))
        return self.add(op, [labels, x], [logits])

    def gen_ctc(self, op):
        """Empty and repeated labels, and more than so many steps can spell."""
        n, room, steps, classes = [self.rng.choice(sizes) for sizes in (
            [1, 2, 3, 4], [1, 2, 3, 5, 9, 33], [1, 3, 8, 21, 67, 300], [2, 3, 5, 6])]
        operands = [self.leaf([n, room], "integer", (self.rng.choice([-1, 0]), classes - 2), "i32"),
                    self.leaf([n, steps, classes], between=(-3, 3))]
        if self.rng.random() < 0.5:
            operands += [self.leaf([n], "integer", (1, steps), "i32")]
        return self.add(op, operands, [classes - 1, 1])

    def gen_mean_squared_error(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 3)))
        return self.add(op, [self.pick(lambda i: self.shape(i) == self.shape(x), self.shape(x)), x])

    def gen_mean_absolute_error(self, op):
        """Not where the two are so near that rounding changes which is the larger."""
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 3)))
        y = self.pick(lambda i: self.shape(i) == self.shape(x), self.shape(x))
        return self.add(op,
                        [y, x]) if float(
                            (self.values[x] - self.values[y]).abs().min()) > 1e-3 else None

    def gen_huber(self, op):
        x = self.pick(lambda i: len(self.shape(i)) >= 1, self.dims(self.rng.randint(1, 3)))
        return self.add(op, [self.pick(lambda i: self.shape(i) == self.shape(x), self.shape(x)), x],
                        [self.rng.choice([0.0, 0.3, 1.0, 2.5])])

    def between(self, shape, low, high):
        """A value whose elements all are."""
        return self.pick(lambda i: len(self.shape(i)) >= 1
                         and (shape is None or self.shape(i) == shape)
                         and low < float(self.values[i].min())
                         and float(self.values[i].max()) < high,
                         shape or self.dims(self.rng.randint(1, 3)), kind="uniform",
                         between=(low + 0.01, high - 0.01))

    def gen_binary_crossentropy(self, op):
        logits = self.rng.randint(0, 1)
        x = self.predictions(1) if logits else self.between(None, 0.01, 0.99)
        return self.add(op, [self.between(self.shape(x), 0, 1), x], [logits])

    def gen_kl_divergence(self, op):
        x = self.between(None, 0.001, 1)
        return self.add(op, [self.between(self.shape(x), 0.001, 1), x])

    def gen_attention(self, op):
        """Queries and keys of few numbers and many; masks with rows that attend to nothing."""
        n, heads = self.rng.choice([1, 2, 3]), self.rng.choice([1, 2, 3, 5])
        t, s = (self.rng.choice(SMALL + [31, 32, 33, 63, 64, 65, 97]) for _ in range(2))
        k, v = (self.rng.choice([1, 2, 3, 4, 5, 8, 13, 16, 32, 33, 64]) for _ in range(2))
        if n * heads * t * s > MAX_ELEMENTS or n * heads * t * s * (
            k + v) > MAX_PRODUCTS // 2 or n * heads * max(t, s) * max(k, v) > self.limit:
            return None
        operands = [self.leaf([n, heads, length, width]) for length,
                    width in ((t, k), (s, k), (s, v))]
        mask = self.rng.randint(0, 1)
        if mask:
            operands.append(self.leaf([1 if self.rng.random() < 0.4 else d
                                       for d in (n, heads, t, s)], "integer",
                                      (0, self.rng.choice([1, 1, 4]))))
        return self.add(op, operands, [self.rng.randint(0, 1), self.rng.randint(0, 2),
                                       self.rng.choice([0.0, 0.0, 0.5, 0.125]), mask])

    def gen_cast(self, op):
        """To a type and back: what is computed with is f32."""
        whole = [i for i in range(len(self.values)) if self.is_whole(i)]
        if whole and self.rng.random() < 0.5:
            return self.add(op, [self.rng.choice(whole)], [oracle.F32])
        to = self.rng.choice([oracle.F16, oracle.BF16, oracle.I32, oracle.U8, oracle.F32])
        x = self.pick()
        narrow = self.add(op, [x], [to])
        return narrow if narrow is None or to in (oracle.F32, oracle.I32) else self.add(
            op, [narrow], [oracle.F32])

    def gen_scalar(self, op):
        return self.add(op, [], [round(self.rng.uniform(-3, 3), 3)] if op == "constant" else [])

    def again(self):
        """An op that is there already: an equal expression is another handle."""
        nodes = [s for s in self.steps if "op" in s and s["op"] != "cast"]
        return self.add(**{"op": (s := self.rng.choice(nodes))["op"], "operands": s["in"],
                           "numbers": s["numbers"]}) if nodes else None


GENERATORS = {
    **{op: Builder.gen_binary for op in ("add", "subtract", "multiply", "divide", "maximum",
                                         "minimum", "pow")},
    **{op: Builder.gen_unary for op in ("negative", "abs", "square", "exp", "log", "sqrt", "tanh",
                                        "sigmoid", "relu", "leaky_relu", "gelu", "activate",
                                        "rsqrt", "log1p", "expm1", "sin", "cos", "erf", "sign",
                                        "floor", "round", "softplus", "silu", "hard_silu",
                                        "hard_sigmoid", "mish", "elu", "selu",
                                        "flatten", "softmax", "log_softmax", "argmax", "argmin",
                                        "cumsum", "global_avg_pool2d", "stop_gradient", "dropout")},
    "matmul": Builder.gen_matmul, "einsum": Builder.gen_einsum, "bias_add": Builder.gen_bias_add,
    "conv2d": Builder.gen_conv2d,
    "conv2d_transpose": Builder.gen_conv2d_transpose,
    "max_pool2d": Builder.gen_pool, "avg_pool2d": Builder.gen_pool,
    "upsample2d": Builder.gen_upsample, "resize2d": Builder.gen_resize,
    "depth_to_space": Builder.gen_blocks, "space_to_depth": Builder.gen_blocks,
    "reshape": Builder.gen_reshape, "transpose": Builder.gen_transpose,
    "pad": Builder.gen_pad, "tile": Builder.gen_tile, "reverse": Builder.gen_reverse,
    "compare": Builder.gen_compare, "where": Builder.gen_where, "clip": Builder.gen_clip,
    "slice": Builder.gen_slice, "slice_update": Builder.gen_slice_update,
    "concat": Builder.gen_join, "stack": Builder.gen_join, "split": Builder.gen_split,
    "expand_dims": Builder.gen_axis, "squeeze": Builder.gen_axis,
    "layer_norm": Builder.gen_norm, "rms_norm": Builder.gen_norm,
    "group_norm": Builder.gen_group_norm,
    "gather": Builder.gen_gather, "gather_positions": Builder.gen_gather_positions,
    **{op: Builder.gen_reduce for op in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min")},
    "moments": Builder.gen_moments,
    "one_hot": Builder.gen_one_hot,
    "sparse_categorical_crossentropy": Builder.gen_sparse,
    "categorical_crossentropy": Builder.gen_dense,
    "ctc_loss": Builder.gen_ctc,
    "mean_squared_error": Builder.gen_mean_squared_error,
    "mean_absolute_error": Builder.gen_mean_absolute_error, "huber": Builder.gen_huber,
    "kl_divergence": Builder.gen_kl_divergence,
    "binary_crossentropy": Builder.gen_binary_crossentropy, "attention": Builder.gen_attention,
    "cast": Builder.gen_cast, "top_k": Builder.gen_top_k, "sort": Builder.gen_sort,
    "cumprod": Builder.gen_cumprod, "rnn": Builder.gen_rnn,
    "constant": Builder.gen_scalar, "global_batch_size": Builder.gen_scalar,
}
assert set(GENERATORS) == set(oracle.OPS)
HEAVY = ["matmul", "conv2d", "conv2d_transpose", "max_pool2d", "avg_pool2d", "bias_add", "softmax",
         "reduce_sum", "reduce_mean", "add", "multiply", "relu"]


def add_loss(b):
    """The sum of some values, each element weighted: those that nothing else reads, and some
    others."""
    floats = [i for i in range(len(b.values)) if b.is_float(i)]
    ends = [i for i in floats if i not in b.read and "op" in b.steps[i]]
    chosen = b.rng.sample(ends, min(len(ends), 3)) or [floats[-1]]
    total = None
    for i in chosen:
        weights = b.leaf(b.shape(i), "uniform", (-1, 1))
        part = b.force("reduce_sum", [b.force("multiply", [i, weights])], [0])
        total = part if total is None else b.force("add", [total, part])
    return total, chosen


def passed_over(steps):
    """Probabilities whose crossentropy the library computes from the logits: it refuses them as
    targets."""
    moving = ["reshape", "reshape_like", "expand_dims", "squeeze", "transpose", "slice",
              "stop_gradient", "cast", "flatten", "activate", "softmax", "sigmoid"]
    found = set()
    for step in steps:
        if step.get("op", "").endswith("crossentropy") and not step["numbers"][0]:
            at = step["in"][1]
            while steps[at].get("op") in moving:
                found.add(at)
                at = steps[at]["in"][0]
    return found


def finish(b):
    before = len(b.values)
    loss, chosen = add_loss(b)
    floats = [i for i in range(before) if b.is_float(i)]
    inputs = [i for i in floats if "leaf" in b.steps[i]]
    inner = [i for i in floats if "op" in b.steps[i]]
    whole = [i for i in range(before) if b.is_whole(i) and "op" in b.steps[i]]
    inner = sorted(set(inner) - passed_over(b.steps))
    targets = inputs + b.rng.sample(inner, min(len(inner), 2))
    results = chosen[:1] + b.rng.sample(whole, min(len(whole), 1)) + [loss]
    return {"steps": b.steps, "loss": loss, "targets": targets, "results": results}


def single(rng, op):
    while True:
        b = Builder(rng, 1 << 18 if rng.random() < 0.1 else MAX_ELEMENTS)
        if GENERATORS[op](b, op) is not None:
            return finish(b)


def graph(rng):
    while True:
        b = Builder(rng, 1 << 13, alone=False)
        for _ in range(rng.randint(1, 2)):
            b.leaf(b.dims(rng.choice([1, 2, 2, 3, 4])))
        wanted, tries = rng.randint(5, 20), 0
        while len([s for s in b.steps if "op" in s]) < wanted and tries < 200:
            tries += 1
            if rng.random() < 0.08:
                b.again()
                continue
            op = rng.choice(HEAVY) if rng.random() < 0.4 else rng.choice(list(GENERATORS))
            GENERATORS[op](b, op)
        if tries < 200:
            return finish(b)


def case(seed, number):
    """Case `number` of a run: by turns a single operation, one after the other, and a graph."""
    rng = random.Random("%d/%d" % (seed, number))
    ops = list(GENERATORS)
    return single(rng, ops[number // 2 % len(ops)]) if number % 2 == 0 else graph(rng)
