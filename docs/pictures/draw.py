#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the concepts. Their colours are those of the page that they stand in.

Usage: draw.py            writes the pictures beside this file
       draw.py --check    fails where one is not what this file draws"""
import html
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
WIDTH = 720
TEXT = "var(--color-foreground-primary, #777)"
LINE = "var(--color-foreground-muted, #888)"
FRAMES = {
    "plain": "var(--color-foreground-muted, #888)",
    "device": "var(--color-brand-primary, #2a7ae2)",
    "host": "#2e9e5b",
    "stop": "#d1495b",
}


class Picture:
    def __init__(self, height):
        self.height, self.parts = height, []

    def box(self, x, y, width, text, frame="plain", height=None):
        """A box with a line of bold text, and lines below it. Returns its middle points."""
        head, *lines = text.split("\n")
        height = height or 30 + 18 * len(lines)
        self.parts.append('<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="none" '
                          'stroke="%s" stroke-width="2"/>' % (x, y, width, height, FRAMES[frame]))
        self.note(x + width / 2, y + 20, head, bold=True)
        for i, line in enumerate(lines):
            self.note(x + width / 2, y + 38 + 18 * i, line)
        return {"left": (x, y + height / 2), "right": (x + width, y + height / 2),
                "top": (x + width / 2, y), "bottom": (x + width / 2, y + height)}

    def note(self, x, y, text, bold=False, anchor="middle"):
        self.parts.append('<text x="%g" y="%g" text-anchor="%s"%s>%s</text>' % (
            x, y, anchor, ' font-weight="bold"' * bold, html.escape(text)))

    def arrow(self, begin, end, text=""):
        self.parts.append('<path d="M%g,%g L%g,%g" stroke="%s" stroke-width="1.5" fill="none" '
                          'marker-end="url(#tip)"/>' % (*begin, *end, LINE))
        if text:
            self.note((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2 - 6, text)

    def svg(self):
        return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" '
                'font-family="sans-serif" font-size="13" fill="%s">\n'
                '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
                'markerHeight="7" orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="%s"/>'
                '</marker></defs>\n%s\n</svg>\n' % (WIDTH, self.height, WIDTH, TEXT, LINE,
                                                    "\n".join(self.parts)))


def devices():
    p = Picture(250)
    program = p.box(10, 100, 130, "program\nyours")
    library = p.box(180, 100, 130, "Ringfire\none library")
    loader = p.box(350, 100, 130, "Vulkan loader\nof the system")
    p.arrow(program["right"], library["left"])
    p.arrow(library["right"], loader["left"])
    for y, text, frame in ((10, "vendor A's driver\nGPU", "device"),
                           (75, "vendor B's driver\nGPU", "device"),
                           (140, "Mesa's lavapipe\nthe processor", "host"),
                           (200, "SwiftShader\nthe processor", "host")):
        p.arrow(loader["right"], p.box(550, y, 160, text, frame, 46)["left"])
    return p


def traces():
    p = Picture(230)
    step = p.box(10, 20, 150, "step\na function in C\ncalled once")
    trace = p.box(210, 20, 150, "trace\noperations and\ntheir gradients")
    p.arrow(step["right"], trace["left"])
    for y, name in ((10, "device 0"), (120, "device 1")):
        program = p.box(420, y, 130, "%s\nfused, planned,\nrecorded" % name, "device")
        p.arrow(trace["right"], program["left"])
        run = p.box(600, y + 10, 110, "run\nrun, run ...", "device")
        p.arrow(program["right"], run["left"])
    p.note(85, 120, "at the first batch")
    p.note(485, 220, "once for each device")
    p.note(655, 220, "for every batch")
    return p


def variables():
    p = Picture(270)
    for i, y in enumerate((20, 160)):
        p.box(10, y, 160, "device %d\ncomputes gradients\nfor its examples" % i, "device")
        p.box(270, y, 170, "part %d of all sums\nadded in the order\nof the devices" % i, "host")
        p.box(540, y, 170, "device %d\nupdates its part\nof the variables" % i, "device")
    for begin, end in ((55, 50), (195, 190), (55, 180), (195, 65)):
        p.arrow((170, begin), (270, end))
    for y in (53, 193):
        p.arrow((440, y), (540, y))
    p.arrow((625, 88), (625, 157), "")
    p.arrow((600, 160), (600, 91), "")
    p.note(520, 128, "then both copy", anchor="middle")
    p.note(520, 146, "the other's part", anchor="middle")
    p.note(360, 256, "Each number is computed on one device: the copies are equal to the last bit.")
    return p


def strategies():
    p = Picture(240)
    p.box(10, 10, 700, "job: one strategy", "plain", 220)
    for w, x in enumerate((30, 375)):
        p.box(x, 45, 315, "worker %d%s" % (w, " (the chief)" if w == 0 else ""), "host", 165)
        count = 2 if w == 0 else 1
        for i in range(count):
            p.box(x + 20 + 145 * i, 85, 130, "replica %d\nGPU\na copy of the\nvariables" %
                  (2 * w + i), "device")
    p.note(530, 195, "a process, here on another machine")
    p.note(185, 195, "a process on one machine")
    return p


def batch():
    p = Picture(220)
    whole = p.box(10, 80, 130, "global batch\n96 examples")
    losses = []
    for y, name, part in ((15, "device 0", "64 examples"), (140, "device 1", "32 examples")):
        share = p.box(200, y, 120, "%s\n%s" % (name, part), "device")
        p.arrow(whole["right"], share["left"])
        loss = p.box(370, y, 150, "sum of losses / 96\nnot / %s" % part.split()[0], "device")
        p.arrow(share["right"], loss["left"])
        losses.append(loss)
    total = p.box(580, 80, 130, "added\nthe mean of 96", "host")
    for loss in losses:
        p.arrow(loss["right"], total["left"])
    return p


def datasets():
    p = Picture(200)
    before = None
    for i, text in enumerate(("source\nfiles, arrays", "map\neach element", "cache\nkept in memory",
                              "shuffle\na new order")):
        box = p.box(10 + 180 * i, 20, 145, text, "host")
        if before:
            p.arrow(before["right"], box["left"])
        before = box
    last = p.box(550, 120, 145, "batch\nrows together", "host")
    p.arrow(before["bottom"], last["top"])
    fetch = p.box(370, 120, 145, "prefetch\nin threads", "host")
    p.arrow(last["left"], fetch["right"])
    iterator = p.box(190, 120, 145, "iterator\none pass")
    p.arrow(fetch["left"], iterator["right"])
    step = p.box(10, 120, 145, "fit, or your loop")
    p.arrow(iterator["left"], step["right"])
    return p


def models():
    p = Picture(230)
    model = p.box(250, 10, 200, "model\nowns its layers", "plain")
    for i, text in enumerate(("conv2d\nkernel, bias", "max_pool2d\nno variables",
                              "flatten\nno variables", "dense\nkernel, bias")):
        layer = p.box(10 + 182 * i, 110, 150, text)
        p.arrow(model["bottom"], layer["top"])
        if i in (0, 3):
            p.arrow(layer["bottom"], (layer["bottom"][0], 185))
            p.note(layer["bottom"][0], 205, "variables on every device")
    return p


def checkpoints():
    p = Picture(240)
    training = p.box(10, 95, 140, "training\na running job")
    for y, text, reader in (
            (5, "checkpoint\nall that goes on", "the same program"),
            (65, "model\nlayers and weights", "any program with Ringfire"),
            (125, "weights\nnumbers alone", "a program with the layers"),
            (185, "ONNX, safetensors\nfor others", "other programs")):
        file = p.box(230, y, 190, text, "host")
        p.arrow(training["right"], file["left"])
        box = p.box(500, y + 8, 210, reader, "plain")
        p.arrow(file["right"], box["left"])
    return p


def determinism():
    p = Picture(210)
    for y, text, result, frame in (
            (10, "same program, seed and devices\nany threads, any number of runs",
             "the same bits", "host"),
            (80, "interrupted, then resumed\nfrom a checkpoint of all",
             "the same bits", "host"),
            (150, "other devices, drivers or workers\nother rounding or order of sums",
             "the same but for the last digits", "stop")):
        begin = p.box(10, y, 330, text)
        end = p.box(440, y + 9, 270, result, frame)
        p.arrow(begin["right"], end["left"])
    return p


def errors():
    p = Picture(200)
    before = None
    for x, text, frame in ((10, "driver\nVK_ERROR_...", "device"),
                           (195, "library\nadds what it did", "host"),
                           (380, "call\nreturns a code", "host"),
                           (565, "program\nprints the line", "plain")):
        box = p.box(x, 30, 145, text, frame)
        if before:
            p.arrow(before["right"], box["left"])
        before = box
    p.note(360, 130, "loading dataset 'x': train-images-idx3-ubyte: 12 of 47040016 bytes;")
    p.note(360, 150, "the file is truncated, copy it again")
    p.note(360, 185, "where it happened first, the cause last, then the fix")
    return p


PICTURES = (devices, traces, variables, strategies, batch, datasets, models, checkpoints,
            determinism, errors)


def main():
    wrong = 0
    for draw in PICTURES:
        path, svg = HERE / (draw.__name__ + ".svg"), draw().svg()
        if "--check" not in sys.argv:
            path.write_text(svg)
        elif not path.exists() or path.read_text() != svg:
            wrong += 1
            print("%s is not what draw.py draws: start it without options" % path)
    print("%d pictures" % len(PICTURES))
    sys.exit(1 if wrong else 0)


main()
