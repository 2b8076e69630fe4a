# SPDX-License-Identifier: Apache-2.0
"""How errors enter the operations of oracle.py.

Every operand of an operation carries a relative error of EDGE (four unit roundoffs) at
most, and so does every gradient on its way back; a sum of n terms t_i adds sqrt(n) unit roundoffs
of sum |t_i|, the probabilistic bound of Higham & Mary, "A new approach to probabilistic rounding
error analysis" (2019), wherever the library adds: products of matrices, convolutions, means, scans,
broadcast operands' gradients. Functions that Vulkan allows absolute errors (logarithms near 1) or
that are approximated (the normal distribution function) add theirs. SAMPLES evaluations with errors
drawn at random within these limits, forwards and backwards, show what they come to in each element
of each result, cancellation and ill-conditioned steps included; a result may be FACTOR times the
root of the mean square of that away from the undisturbed one. What the model cannot see is a sample
where a discontinuity is crossed by the library but by no disturbed evaluation: it takes an operand
within rounding of the jump."""
import math

import torch

ROUNDOFF = 2.0 ** -24
EDGE = 4 * ROUNDOFF
TINY = 2.0 ** -126  # below this, numbers may be flushed to zero
LOG_NEAR_ONE = 2.0 ** -21  # Vulkan: absolute error of log between 0.5 and 2
NORMAL_CDF = 1.5e-7  # of erf, in Abramowitz & Stegun's formula 7.1.26
SAMPLES = 8
FACTOR = 16

VALID, SAME, EXPLICIT = range(3)
F32, F16, BF16, I32, U8 = 1, 2, 3, 4, 5
ROUNDED = {F16: torch.float16, BF16: torch.bfloat16}


class Errors:
    """Draws errors; without a generator there are none."""

    def __init__(self, generator=None):
        self.generator = generator

    def within(self, limit):
        """A tensor of errors, each of at most this size."""
        return limit * (2 * torch.rand(limit.shape, generator=self.generator,
                                       dtype=torch.float64) - 1)

    def disturb(self, x, more=0.0):
        if self.generator is None:
            return x
        limit = torch.nan_to_num(x.abs() * EDGE, nan=0.0, posinf=0.0)
        return x + self.within(limit + (limit > 0) * TINY + more)

    def sums(self, terms, sizes):
        """Of sums of so many terms, whose sizes add up to this."""
        limit = torch.nan_to_num(ROUNDOFF * terms.sqrt() * sizes, nan=0.0, posinf=0.0)
        return self.within(limit + (limit > 0) * TINY)


class Edge(torch.autograd.Function):
    """A value on its way to an operation, its gradient on the way back."""

    @staticmethod
    def forward(ctx, x, errors, more):
        ctx.errors = errors
        return errors.disturb(x, more)

    @staticmethod
    def backward(ctx, g):
        return ctx.errors.disturb(g), None, None


class Sums(torch.autograd.Function):
    """A function that is linear in each operand with coefficients 0 and 1: each element of the
    result, and of each gradient, is a sum of products. The function of ones counts the terms, that
    of absolute values adds their sizes."""

    @staticmethod
    def forward(ctx, function, errors, *operands):
        ctx.function, ctx.errors = function, errors
        ctx.save_for_backward(*operands)
        y = function(*operands)
        if errors.generator is None:
            return y
        terms = function(*[torch.ones_like(x) for x in operands])
        return y + errors.sums(terms, function(*[x.abs() for x in operands]))

    @staticmethod
    def backward(ctx, g):
        def pulled(operands, g):
            with torch.enable_grad():
                leaves = [x.detach().requires_grad_() for x in operands]
                return torch.autograd.grad(ctx.function(*leaves), leaves, g)

        operands = ctx.saved_tensors
        grads = pulled(operands, g)
        if ctx.errors.generator is not None:
            terms = pulled([torch.ones_like(x) for x in operands], torch.ones_like(g))
            sizes = pulled([x.abs() for x in operands], g.abs())
            grads = [x + ctx.errors.sums(n, s) for x, n, s in zip(grads, terms, sizes)]
        return (None, None, *grads)


class FromResult(torch.autograd.Function):
    """A function whose slope is computed from its result, as is usual: where that is near 1, its
    rounding is most of 1 - y."""

    @staticmethod
    def forward(ctx, function, slope, errors, x):
        ctx.slope = slope
        y = errors.disturb(function(x))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return None, None, None, g * ctx.slope(*ctx.saved_tensors)


class Gelu(torch.autograd.Function):
    """Its slope is a sum of two terms, which cancel for negative x: the distribution function, and
    x times the density, in which the exponential function has errors that grow with its operand."""

    @staticmethod
    def forward(ctx, x, errors, form):
        ctx.errors, ctx.form = errors, form
        ctx.save_for_backward(x)
        return torch.nn.functional.gelu(x, approximate=form)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            slope, = torch.autograd.grad(torch.nn.functional.gelu(leaf, approximate=ctx.form).sum(),
                                         leaf)
        if ctx.errors.generator is not None:
            density = (-0.5 * x * x).exp() * 0.4
            distribution = 0.5 * torch.erfc(-x * math.sqrt(0.5))
            slope = slope + ctx.errors.within(
                EDGE * (distribution + (1 + x * x) * x.abs() * density) + NORMAL_CDF)
        return g * slope, None, None


class Ctc(torch.autograd.Function):
    """Losses of connectionist temporal classification by logarithms of probabilities. Each step
    multiplies probabilities, which are positive, by one with an error; what a class has in the
    labels at a step is a quotient of such sums. PyTorch's gradient is that by logits."""

    @staticmethod
    def forward(ctx, logs, labels, lengths, blank, zero_infinity, errors):
        counts = (labels >= 0).long().cumprod(1).sum(1)
        with torch.enable_grad():
            leaf = logs.detach().requires_grad_()
            losses = torch.nn.functional.ctc_loss(
                leaf.transpose(0, 1), labels.clamp(min=0).long(), lengths.long(), counts, blank,
                "none", zero_infinity)
            by_logits, = torch.autograd.grad(losses.sum(), leaf)
        plain = torch.nn.functional.ctc_loss(logs.transpose(0, 1), labels.clamp(min=0).long(),
                                             lengths.long(), counts, blank, "none")
        walked = torch.arange(logs.shape[1]) < lengths[:, None]
        parts = torch.where(walked[..., None], logs.exp() - by_logits, 0)
        if zero_infinity:
            parts = torch.where(plain.isinf()[:, None, None], 0, parts)
        ctx.errors, ctx.limit = errors, 8 * EDGE * math.sqrt(logs.shape[1])
        ctx.save_for_backward(parts)
        return errors.disturb(losses.detach(), ctx.limit + LOG_NEAR_ONE)

    @staticmethod
    def backward(ctx, g):
        parts, = ctx.saved_tensors
        if ctx.errors.generator is not None:
            parts = parts + ctx.errors.within(torch.nan_to_num(parts.abs()) * ctx.limit)
        return -parts * g[:, None, None], None, None, None, None, None


class Rounded(torch.autograd.Function):
    """To a type of 16 bits and back, and so the gradient."""

    @staticmethod
    def forward(ctx, x, dtype):
        ctx.dtype = dtype
        return x.float().to(dtype).double()

    @staticmethod
    def backward(ctx, g):
        return g.float().to(ctx.dtype).double(), None


class Power(torch.autograd.Function):
    """a^b with the slopes that src/ops/elementwise_table.c states."""

    @staticmethod
    def forward(ctx, a, b):
        y = a ** b
        ctx.save_for_backward(a, b, y)
        return y

    @staticmethod
    def backward(ctx, g):
        a, b, y = ctx.saved_tensors
        zero = torch.zeros_like(g)
        return (torch.where(b == 0, zero, g * b * a ** (b - 1)),
                torch.where((a == 0) & (b >= 0), zero, g * y * a.log()))
