# SPDX-License-Identifier: Apache-2.0
"""Manifests in packaging/kubernetes name variables and programs that there are. With CRDs, which
hold an operator's schemas, they have to follow these.

Usage: check_manifests.py SOURCE_ROOT [CRD...]"""
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

ROOT = pathlib.Path(sys.argv[1])
# Variables that an operator gives to its containers.
OPERATORS = {"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
         "number": (int, float)}


def faults(value, schema, path):
    """What of a value does not follow a schema; a field that it does not know is one, because the
    operator would never see it."""
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, (int, str)):
            yield "%s is neither a number nor text" % path
        return
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind])
                 or isinstance(value, bool) and kind != "boolean"):
        yield "%s is no %s: %r" % (path, kind, value)
        return
    if value not in schema.get("enum", [value]):
        yield "%s is %r, none of %s" % (path, value, schema["enum"])
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield "%s is %r, which %s does not match" % (path, value, schema["pattern"])
    if isinstance(value, (int, float)) and not (schema.get("minimum", value) <= value
                                                <= schema.get("maximum", value)):
        yield "%s is %r, out of its range" % (path, value)
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from faults(item, schema.get("items", {}), "%s[%d]" % (path, i))
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                yield "%s lacks %s" % (path, name)
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        free = schema.get("x-kubernetes-preserve-unknown-fields") or path == "metadata"
        for name, item in value.items():
            if name in known or isinstance(others, dict):
                yield from faults(item, known.get(name, others), (path + "." + name).lstrip("."))
            elif not (others or free):
                yield "%s.%s is unknown" % (path, name)


def schemas(paths):
    """The schemas of CRDs, by apiVersion and kind."""
    for path in paths:
        for crd in yaml.safe_load_all(path.read_text()):
            if not crd or crd.get("kind") != "CustomResourceDefinition":
                continue
            for version in crd["spec"]["versions"]:
                name = "%s/%s" % (crd["spec"]["group"], version["name"])
                yield (name, crd["spec"]["names"]["kind"]), version["schema"]["openAPIV3Schema"]


def strange_words(text):
    """Variables and programs in a manifest that nothing else knows of."""
    environment = (ROOT / "src/base/environment.c").read_text()
    for name in sorted(set(re.findall(r"\b(?:RINGFIRE|PET)_\w+|\$(?:\w+)", text))):
        name = name.lstrip("$")
        if name not in OPERATORS and '"%s"' % name not in environment:
            yield "the variable %s is unknown" % name
    for name in re.findall(r"/usr/libexec/ringfire/examples/(\w+)", text):
        if not (ROOT / "examples" / (name + ".c")).is_file():
            yield "there is no example %s" % name


def main():
    known = dict(schemas(map(pathlib.Path, sys.argv[2:])))
    found = []
    manifests = sorted((ROOT / "packaging/kubernetes").glob("*.yaml"))
    for path in manifests:
        found += ["%s: %s" % (path.name, word) for word in strange_words(path.read_text())]
        for document in yaml.safe_load_all(path.read_text()):
            key = (document["apiVersion"], document["kind"])
            if key in known:
                print("%s: %s of %s" % (path.name, key[1], key[0]))
                found += ["%s: %s" % (path.name, f) for f in faults(document, known[key], "")]
            elif known:
                print("%s: no schema of %s of %s was given" % (path.name, key[1], key[0]))
    print("\n".join(found) or "%d manifests are right" % len(manifests))
    return 1 if found or not manifests else 0


if __name__ == "__main__":
    sys.exit(main())
