# SPDX-License-Identifier: Apache-2.0
"""Fails on an #include that the layer table of docs/internals/map.md does not allow. Usage:
check_layers.py ROOT"""
import pathlib
import re
import sys

ALLOWED = {
    "include/ringfire": {"ringfire"},
    "src/base": {"ringfire", "base", "zstd"},
    "src/gpu": {"ringfire", "base", "gpu", "vulkan"},
    "src/graph": {"ringfire", "base", "graph"},
    "src/ops": {"ringfire", "base", "graph", "ops", "shaders"},
    "src/exec": {"ringfire", "base", "graph", "ops", "gpu", "exec", "jansson", "shaders"},
    "src/replica": {"ringfire", "base", "graph", "exec", "gpu", "replica", "transport"},
    "src/step": {"ringfire", "base", "graph", "exec", "gpu", "replica", "step"},
    "src/trace": {"ringfire", "base", "graph", "ops", "replica", "step", "trace"},
    "src/server": {"ringfire", "base", "graph", "exec", "gpu", "replica", "server", "transport"},
    "src/data": {"ringfire", "base", "data", "zlib", "png", "jpeg", "archive",
                 "protobuf"},
    "src/text": {"ringfire", "base", "data", "persist", "text", "jansson", "utf8proc", "pcre2"},
    "src/persist": {"ringfire", "base", "graph", "data", "persist", "zstd", "msgpack", "jansson",
                    "protobuf"},
    "src/train": {"ringfire", "base", "graph", "ops", "replica", "step", "trace", "data",
                  "persist", "server", "train", "jansson"},
    "src/pretrained": {"ringfire", "base", "replica", "persist", "text", "train", "pretrained",
                       "jansson"},
    "transport": {"ringfire", "base", "transport", "rdma", "openssl", "jansson", "pmix"},
    "tools": {"ringfire", "jansson", "cairo", "ckpt", "plot", "report", "run", "top", "own"},
    "tools/bench": {"ringfire", "base", "graph", "ops", "exec", "gpu", "replica", "step",
                    "shaders", "jansson", "bench", "tests", "own"},
    "examples": {"ringfire", "png", "own"},
}
# Rooms of a layer, and which of its rooms each may include; what stands above them
# (src/replica/*.h) all may.
ROOMS = {
    "src/replica": {"store": set(), "exchange": {"store"}, "balance": set(),
                    "schedule": {"store", "exchange", "balance"},
                    "update": {"store", "exchange", "balance", "schedule"}},
    "src/train": {"layers": set(), "checkpoint": set(), "optimizer": {"checkpoint"},
                  "metrics": {"checkpoint"},
                  "model": {"layers", "checkpoint", "optimizer"},
                  "fit": {"layers", "optimizer", "metrics", "model", "callbacks"}},
}
# Families of kernels in a room of src/ops: those for software and those for GPUs know nothing of
# each other, and what every device runs knows their lists alone. Kernels know no op: their data
# says what they are for.
FAMILIES = {"common": {"common"}, "cpu": {"common", "cpu"}, "gpu": {"common", "gpu"}}
FAMILY_LISTS = {"cpu/cpu.h", "gpu/gpu.h"}
FENCED_ROOMS = {"linear", "pointwise", "reduction"}
LIBRARIES = {"vulkan/vulkan.h": "vulkan", "jansson.h": "jansson", "utf8proc.h": "utf8proc",
             "pcre2.h": "pcre2",
             "zlib.h": "zlib", "zstd.h": "zstd", "zstd_errors.h": "zstd",
             "msgpack.h": "msgpack", "png.h": "png", "jpeglib.h": "jpeg", "jerror.h": "jpeg",
             "archive.h": "archive", "archive_entry.h": "archive",
             "cairo.h": "cairo", "rf_shaders.h": "shaders", "params_structs.h": "base",
             "pmix.h": "pmix"}
LIBC = {"argp", "assert", "ctype", "dirent", "dlfcn", "errno", "fcntl", "float", "fnmatch", "ftw",
        "grp", "immintrin", "inttypes", "limits", "linux/if_tun", "locale", "malloc", "math",
        "pthread", "sched", "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stddef",
        "stdint", "stdio", "stdlib", "string", "strings", "arpa/inet", "ifaddrs", "net/if", "netdb",
        "netinet/in", "netinet/tcp", "poll", "pwd", "setjmp", "sys/epoll", "sys/eventfd",
        "sys/ioctl", "sys/mman", "sys/prctl", "sys/random", "sys/resource", "sys/socket",
        "sys/stat", "sys/syscall", "sys/types", "sys/uio", "sys/un", "sys/wait", "termios", "time",
        "unistd"}


def origin(path, name, quoted):
    """Where an included file comes from, in the table's words; None for libc."""
    if not quoted and name.endswith(".h") and name[:-2] in LIBC:
        return None
    if name in LIBRARIES:
        return LIBRARIES[name]
    if "shaders/" in name:
        return "shaders"
    if quoted and "/" not in name or (quoted and (path.parent / name).exists()):
        return "own"
    return name.split("/")[0]


def layer_of(path):
    """The innermost layer that a file stands in."""
    return max((layer for layer in ALLOWED if path.startswith(layer + "/")), key=len)


def room_of(layer, name):
    """The room of `layer` that an included file is in; None where it is in none."""
    parts = name.split("/") if name.startswith(layer[4:] + "/") else ()
    return parts[1] if len(parts) > 2 else None


def enters_wrong_room(layer, path, name):
    rooms = ROOMS.get(layer, {})
    mine, theirs = path.parent.name, room_of(layer, name)
    return (mine in rooms and theirs is not None and theirs != mine
            and theirs not in rooms[mine])


def family_of(name):
    """The family that an included file is in, and its name from there on; None: in none."""
    m = re.match(r"ops/\w+/((\w+)/\w+\.h)$", name)
    return (m.group(2), m.group(1)) if m and m.group(2) in FAMILIES else None


def enters_wrong_family(layer, path, name):
    mine, theirs = path.parent.name, family_of(name)
    if layer != "src/ops" or path.parent.parent.name not in FENCED_ROOMS or mine not in FAMILIES:
        return False
    if theirs is None or theirs[0] in FAMILIES[mine]:
        return False
    return mine != "common" or theirs[1] not in FAMILY_LISTS


def main():
    root = pathlib.Path(sys.argv[1])
    wrong, checked = [], 0
    for layer, allowed in ALLOWED.items():
        for path in sorted((root / layer).rglob("*.[ch]")):
            if layer_of(path.relative_to(root).as_posix()) != layer:
                continue
            checked += 1
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(r"pthread_cond(_timedwait|attr_)", line) and layer != "src/base":
                    wrong.append("%s:%d: conditions with deadlines are base/condition.h's"
                                 % (path.relative_to(root), number))
                if (layer == "src/ops" and path.parent.name in ("cpu", "gpu")
                        and re.search(r"&rf_op_\w", line)):
                    wrong.append("%s:%d: a kernel knows no op; its data says what it is for"
                                 % (path.relative_to(root), number))
                m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
                if not m:
                    continue
                # Such a name also counts from the -I directories, of which one is the build
                # directory: found there by chance.
                if m.group(2).startswith("../") and not (path.parent / m.group(2)).exists():
                    wrong.append("%s:%d: there is no %s beside this file"
                                 % (path.relative_to(root), number, m.group(2)))
                source = origin(path, m.group(2), m.group(1) == '"')
                if source is not None and source not in allowed:
                    wrong.append("%s:%d: %s may not include %s"
                                 % (path.relative_to(root), number, layer, m.group(2)))
                if enters_wrong_family(layer, path, m.group(2)):
                    wrong.append("%s:%d: the family %s may not include %s"
                                 % (path.relative_to(root), number, path.parent.name, m.group(2)))
                if enters_wrong_room(layer, path, m.group(2)):
                    wrong.append("%s:%d: the room %s may not include %s"
                                 % (path.relative_to(root), number, path.parent.name, m.group(2)))
    for line in wrong:
        print(line)
    print("%d files checked" % checked)
    sys.exit(1 if wrong or checked < 20 else 0)


main()
