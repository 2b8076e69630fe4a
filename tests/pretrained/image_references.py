# SPDX-License-Identifier: Apache-2.0
"""The architectures of images, as references.py has those of texts. In training, batch["training"],
batch normalization takes the batch's mean and variance; batch["moved"] gets the averages that
follow."""
import math

import torch
import torch.nn.functional as F

from activations import ACTIVATIONS, KINKS


def image_of(batch):
    """Channels first, as PyTorch has them."""
    return batch["pixel_values"].double().permute(0, 3, 1, 2)


def classes_of(c):
    return c["num_classes"] if "num_classes" in c else len(c.get("id2label", "ab"))


def norm_shapes(name, width):
    return {"%s.%s" % (name, part): (width,)
            for part in ("weight", "bias", "running_mean", "running_var")}


def batch_norm(v, batch, x, name, momentum=0.1, epsilon=1e-5):
    mean, variance = v[name + ".running_mean"], v[name + ".running_var"]
    if batch.get("training"):
        state = mean.clone(), variance.clone()  # which PyTorch's own function moves
        F.batch_norm(x.detach(), *state, training=True, momentum=momentum)
        batch["moved"].update(zip((name + ".running_mean", name + ".running_var"), state))
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    scale = v[name + ".weight"] / (variance + epsilon).sqrt()
    return (x - mean[:, None, None]) * scale[:, None, None] + v[name + ".bias"][:, None, None]


# ---- ResNet ----

NAMED = {"resnet18": ("basic", (2, 2, 2, 2)), "resnet34": ("basic", (3, 4, 6, 3)),
         "resnet50": ("bottleneck", (3, 4, 6, 3)), "resnet101": ("bottleneck", (3, 4, 23, 3)),
         "resnet152": ("bottleneck", (3, 8, 36, 3))}


def resnet_config(c):
    """A named network as the hub describes it."""
    if "architecture" not in c:
        return c
    kind, depths = NAMED[c["architecture"]]
    widths = [(256 if kind == "bottleneck" else 64) << i for i in range(4)]
    return {"layer_type": kind, "depths": depths, "hidden_sizes": widths, "num_channels": 3,
            "embedding_size": 64}


def resnet_units(c):
    """[[(names of convolution and normalization, channels in and out, size, stride), ...] of each
    block], and those of the shortcuts or None, in the names of torchvision, or of the hub."""
    c = resnet_config(c)
    blocks, before = [], c["embedding_size"]
    for s, (depth, width) in enumerate(zip(c["depths"], c["hidden_sizes"])):
        for i in range(depth):
            stride = 2 if i == 0 and (s > 0 or c.get("downsample_in_first_stage")) else 1
            if c["layer_type"] == "basic":
                shapes = [(before, width, 3, stride), (width, width, 3, 1)]
            else:
                inner, early = width // 4, stride if c.get("downsample_in_bottleneck") else 1
                shapes = [(before, inner, 1, early), (inner, inner, 3, stride // early),
                          (inner, width, 1, 1)]
            shortcut = (before, width, 1, stride) if before != width or stride > 1 else None
            blocks.append((s, i, shapes, shortcut))
            before = width
    return blocks


def resnet_names(c):
    """Functions that give the names of convolution and normalization."""
    if c.get("names") == "torchvision" or "architecture" in c:
        return (("conv1", "bn1"),
                lambda s, i, k: ("layer%d.%d.conv%d" % (s + 1, i, k + 1),
                                 "layer%d.%d.bn%d" % (s + 1, i, k + 1)),
                lambda s, i: ("layer%d.%d.downsample.0" % (s + 1, i),
                              "layer%d.%d.downsample.1" % (s + 1, i)), "fc")
    root = "resnet." if c["architectures"] == ["ResNetForImageClassification"] else ""

    def both(name):
        return root + name + ".convolution", root + name + ".normalization"

    return (both("embedder.embedder"),
            lambda s, i, k: both("encoder.stages.%d.layers.%d.layer.%d" % (s, i, k)),
            lambda s, i: both("encoder.stages.%d.layers.%d.shortcut" % (s, i)), "classifier.1")


def resnet_shapes(c):
    sizes, shapes = resnet_config(c), {}
    stem, unit, shortcut_of, head = resnet_names(c)

    def add(names, before, width, size):
        shapes[names[0] + ".weight"] = (width, before, size, size)
        shapes.update(norm_shapes(names[1], width))

    add(stem, sizes["num_channels"], sizes["embedding_size"], 7)
    for s, i, convs, shortcut in resnet_units(c):
        for k, (before, width, size, _) in enumerate(convs):
            add(unit(s, i, k), before, width, size)
        if shortcut:
            add(shortcut_of(s, i), *shortcut[:3])
    if c.get("architectures") != ["ResNetModel"]:
        shapes[head + ".weight"] = (classes_of(c), sizes["hidden_sizes"][-1])
        shapes[head + ".bias"] = (classes_of(c),)
    return shapes


def resnet(v, c, batch):
    stem, unit_names, shortcut_of, head = resnet_names(c)
    activation = ACTIVATIONS[c.get("hidden_act", "relu")]

    def unit(x, names, size, stride):
        x = F.conv2d(x, v[names[0] + ".weight"], stride=stride, padding=size // 2)
        return batch_norm(v, batch, x, names[1])

    x = activation(unit(image_of(batch), stem, 7, 2))
    x = F.max_pool2d(x, 3, 2, 1)
    for s, i, convs, shortcut in resnet_units(c):
        y = x
        for k, (_, _, size, stride) in enumerate(convs):
            y = unit(activation(y) if k else y, unit_names(s, i, k), size, stride)
        x = activation(y + (unit(x, shortcut_of(s, i), 1, shortcut[3]) if shortcut else x))
    mean = x.mean((2, 3))
    if c.get("architectures") == ["ResNetModel"]:
        return {"last_hidden_state": x.permute(0, 2, 3, 1), "pooler_output": mean}
    return {"logits": mean @ v[head + ".weight"].T + v[head + ".bias"]}


# ---- ViT ----

VIT_NORMS, VIT_PRODUCTS = ("layernorm_before", "layernorm_after"), {
    "attention.attention.query": (1, 1), "attention.attention.key": (1, 1),
    "attention.attention.value": (1, 1), "attention.output.dense": (1, 1),
    "intermediate.dense": (0, 1), "output.dense": (1, 0)}


def vit_root(c):
    return "vit." if c["architectures"] == ["ViTForImageClassification"] else ""


def vit_shapes(c):
    root, width, patch = vit_root(c), c["hidden_size"], c["patch_size"]
    sizes = (c["intermediate_size"], width)
    places = (c["image_size"] // patch)**2 + 1
    embeddings = root + "embeddings."
    shapes = {embeddings + "cls_token": (1, 1, width),
              embeddings + "position_embeddings": (1, places, width)}

    def add(name, *shape):
        shapes[name + ".weight"] = shape
        shapes[name + ".bias"] = shape[:1]

    add(embeddings + "patch_embeddings.projection", width, c["num_channels"], patch, patch)
    for i in range(c["num_hidden_layers"]):
        layer = root + "encoder.layer.%d." % i
        for name, kinds in VIT_PRODUCTS.items():
            add(layer + name, *(sizes[k] for k in kinds))
        for name in VIT_NORMS:
            add(layer + name, width)
    add(root + "layernorm", width)
    if root:
        add("classifier", classes_of(c), width)
    else:
        add("pooler.dense", c.get("pooler_output_size", width), width)
    return shapes


def vit(v, c, batch):
    root, width, heads = vit_root(c), c["hidden_size"], c["num_attention_heads"]

    def norm(x, name):
        return F.layer_norm(x, (width,), v[name + ".weight"], v[name + ".bias"],
                            c.get("layer_norm_eps", 1e-12))

    def product(x, name):
        return x @ v[name + ".weight"].T + v[name + ".bias"]

    embeddings = root + "embeddings."
    projection = embeddings + "patch_embeddings.projection"
    x = F.conv2d(image_of(batch), v[projection + ".weight"], v[projection + ".bias"],
                 stride=c["patch_size"]).flatten(2).transpose(1, 2)
    token = v[embeddings + "cls_token"].expand(len(x), 1, width)
    x = torch.cat([token, x], 1) + v[embeddings + "position_embeddings"]
    for i in range(c["num_hidden_layers"]):
        layer = root + "encoder.layer.%d." % i
        y = norm(x, layer + "layernorm_before")
        query, key, value = (product(y, layer + "attention.attention." + part).unflatten(
            2, (heads, -1)).transpose(1, 2) for part in ("query", "key", "value"))
        seen = (query @ key.transpose(2, 3) / math.sqrt(width // heads)).softmax(3) @ value
        x = x + product(seen.transpose(1, 2).flatten(2), layer + "attention.output.dense")
        y = ACTIVATIONS[c.get("hidden_act", "gelu")](product(norm(x, layer + "layernorm_after"),
                                                             layer + "intermediate.dense"))
        x = x + product(y, layer + "output.dense")
    x = norm(x, root + "layernorm")
    if root:
        return {"logits": product(x[:, 0], "classifier")}
    pooled = ACTIVATIONS[c.get("pooler_act", "tanh")](product(x[:, 0], "pooler.dense"))
    return {"last_hidden_state": x, "pooler_output": pooled}


# ---- MobileNetV3 ----

# Channels before, size of the kernel, channels inside and behind, weighs channels, activation,
# stride; the paper's tables 1 and 2. The last blocks are the tail.
LARGE = [(16, 3, 16, 16, 0, "relu", 1), (16, 3, 64, 24, 0, "relu", 2),
         (24, 3, 72, 24, 0, "relu", 1), (24, 5, 72, 40, 1, "relu", 2),
         (40, 5, 120, 40, 1, "relu", 1), (40, 5, 120, 40, 1, "relu", 1),
         (40, 3, 240, 80, 0, "hs", 2), (80, 3, 200, 80, 0, "hs", 1), (80, 3, 184, 80, 0, "hs", 1),
         (80, 3, 184, 80, 0, "hs", 1), (80, 3, 480, 112, 1, "hs", 1),
         (112, 3, 672, 112, 1, "hs", 1), (112, 5, 672, "160", 1, "hs", 2),
         ("160", 5, "960", "160", 1, "hs", 1), ("160", 5, "960", "160", 1, "hs", 1), "1280"]
SMALL = [(16, 3, 16, 16, 1, "relu", 2), (16, 3, 72, 24, 0, "relu", 2),
         (24, 3, 88, 24, 0, "relu", 1), (24, 5, 96, 40, 1, "hs", 2), (40, 5, 240, 40, 1, "hs", 1),
         (40, 5, 240, 40, 1, "hs", 1), (40, 5, 120, 48, 1, "hs", 1), (48, 5, 144, 48, 1, "hs", 1),
         (48, 5, 288, "96", 1, "hs", 2), ("96", 5, "576", "96", 1, "hs", 1),
         ("96", 5, "576", "96", 1, "hs", 1), "1024"]
MOBILE = {"relu": KINKS["relu"], "hs": KINKS["hardswish"], None: lambda x: x}


def divisible(x):
    rounded = max(8, int(x + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * x else rounded


def mobile_width(c, channels):
    """Texts are those that a reduced tail has half of."""
    if isinstance(channels, str):
        channels = int(channels) // (2 if c.get("reduced_tail") else 1)
    return divisible(channels * c.get("width_mult", 1.0))


def mobile_parts(c):
    """For each of the features its convolutions: (name, channels in and out, size, stride,
    dilation, groups, activation), or (name, channels, squeezed); and whether the input is added."""
    *rows, last = LARGE if c["architecture"].endswith("large") else SMALL
    stem, features = mobile_width(c, rows[0][0]), []
    features.append(([("features.0", 3, stem, 3, 2, 1, 1, "hs")], False))
    for i, (before, size, inner, out, weighs, activation, stride) in enumerate(rows):
        before, inner, width = (mobile_width(c, n) for n in (before, inner, out))
        dilation = 2 if c.get("dilated") and isinstance(out, str) else 1
        block, parts = "features.%d.block." % (i + 1), []
        if inner != before:
            parts.append((before, inner, 1, 1, 1, 1, activation))
        parts.append((inner, inner, size, stride if dilation == 1 else 1, dilation, inner,
                      activation))
        if weighs:
            parts.append((inner, divisible(inner // 4)))
        parts.append((inner, width, 1, 1, 1, 1, None))
        features.append(([(block + str(k), *part) for k, part in enumerate(parts)],
                         stride == 1 and before == width))
    features.append(([("features.%d" % (len(rows) + 1), width, 6 * width, 1, 1, 1, 1, "hs")],
                     False))
    return features, (6 * width, mobile_width(c, last), c.get("num_classes", 1000))


def mobilenet_shapes(c):
    shapes = {}
    features, sizes = mobile_parts(c)

    def add(name, *shape):
        shapes[name + ".weight"] = shape
        shapes[name + ".bias"] = shape[:1]

    for parts, _ in features:
        for name, before, width, *rest in parts:
            if rest:
                shapes[name + ".0.weight"] = (width, before // rest[3], rest[0], rest[0])
                shapes.update(norm_shapes(name + ".1", width))
            else:
                add(name + ".fc1", width, before, 1, 1)
                add(name + ".fc2", before, width, 1, 1)
    add("classifier.0", sizes[1], sizes[0])
    add("classifier.3", sizes[2], sizes[1])
    return shapes


def mobilenet(v, c, batch):
    def conv(x, name):
        return F.conv2d(x, v[name + ".weight"], v[name + ".bias"])

    def product(x, name):
        return x @ v[name + ".weight"].T + v[name + ".bias"]

    x = image_of(batch)
    for parts, adds in mobile_parts(c)[0]:
        y = x
        for name, _, _, *rest in parts:
            if not rest:
                squeezed = KINKS["relu"](conv(y.mean((2, 3), keepdim=True), name + ".fc1"))
                y = y * KINKS["hardsigmoid"](conv(squeezed, name + ".fc2"))
                continue
            size, stride, dilation, groups, activation = rest
            y = F.conv2d(y, v[name + ".0.weight"], stride=stride, dilation=dilation, groups=groups,
                         padding=size // 2 * dilation)
            y = MOBILE[activation](batch_norm(v, batch, y, name + ".1", 0.01, 1e-3))
        x = x + y if adds else y
    x = KINKS["hardswish"](product(x.mean((2, 3)), "classifier.0"))
    return {"logits": product(x, "classifier.3")}


NETWORKS = {"resnet": (resnet_shapes, resnet), "vit": (vit_shapes, vit)}
NETWORKS.update({"mobilenet_v3_" + size: (mobilenet_shapes, mobilenet)
                 for size in ("large", "small")})
NETWORKS.update({name: (resnet_shapes, resnet) for name in NAMED})
