#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce with torch.distributed's gloo backend among forked ranks on loopback, in turns with
`ringfire-bench allreduce`, whose ranks share
memory. gloo allocates for each call: it runs with memory that glibc gives back and with memory that
it keeps, and the faster counts for each size. Prints the medians of the rounds and of their ratios,
and which won. Needs Debian's python3-torch.

Usage: tests/transport/gloo_allreduce.py [--ringfire PATH] [--ranks N] [--rounds N] [MIB...]
(default: 4 ranks, 3 rounds, 1 16 64)"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import kept_memory  # noqa: E402

SETTINGS = {"memory given back": None, "memory kept": kept_memory.ENVIRONMENT}
ROUND_SECONDS = 120


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def rank_main(rank, world, port, sizes, out):
    """One rank of gloo; rank 0 writes a line of milliseconds for each size."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    for mib in sizes:
        data = torch.zeros(mib * 262144)
        dist.all_reduce(data)
        times = []
        for _ in range(7):
            dist.barrier()
            start = time.perf_counter()
            repeats = max(1, 32 // mib)
            for _ in range(repeats):
                dist.all_reduce(data)
            slowest = torch.tensor([(time.perf_counter() - start) / repeats], dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            times.append(slowest.item())
        if rank == 0:
            os.write(out, b"%.9f\n" % statistics.median(times))
    dist.destroy_process_group()


def gloo(world, sizes):
    """Seconds for each size."""
    port, (read, write) = free_port(), os.pipe()
    children = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            try:
                rank_main(rank, world, port, sizes, write)
            except BaseException as error:  # the child must not go on as the parent
                print("rank %d: %s" % (rank, error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(pid)
    os.close(write)
    with os.fdopen(read) as lines:
        seconds = [float(line) for line in lines]
    if sum(os.waitpid(pid, 0)[1] != 0 for pid in children):
        sys.exit("gloo: a rank failed")
    return seconds


def best_gloo(world, sizes):
    """For each size seconds and the name of the setting."""
    found = []
    for name, environment in SETTINGS.items():
        command = [sys.executable, __file__, "--gloo", "--ranks", str(world), *map(str, sizes)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=ROUND_SECONDS,
                              env=environment)
        found.append([(seconds, name) for seconds in json.loads(done.stdout)])
    return list(map(min, *found))


def ringfire(program, world, sizes):
    """The same of the library."""
    command = [str(program), "allreduce", "--ranks", str(world), "--seconds", "0.5", "--json"]
    for mib in sizes:
        command += ["--size", "%dM" % mib]
    results = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE,
                                        timeout=ROUND_SECONDS).stdout)["results"]
    return [next(r["seconds"] for r in results if r["bytes"] == mib << 20
                 and r["algorithm"] == "auto") for mib in sizes]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--ringfire", type=pathlib.Path,
                        default=ROOT / "build/release/tools/ringfire-bench")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("sizes", type=int, nargs="*", default=[1, 16, 64], metavar="MIB")
    parser.add_argument("--gloo", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.gloo:
        return print(json.dumps(gloo(o.ranks, o.sizes)))
    rounds = [(ringfire(o.ringfire, o.ranks, o.sizes), best_gloo(o.ranks, o.sizes))
              for _ in range(o.rounds)]
    for i, mib in enumerate(o.sizes):
        own, (other, names) = [r[0][i] for r in rounds], zip(*(r[1][i] for r in rounds))
        ratios = sorted(b / a for a, b in zip(own, other))
        own, other = statistics.median(own), statistics.median(other)
        print("%d ranks, %d MiB: %.3f ms, %.2f GB/s; gloo %.3f ms, %.2f GB/s (%s); %.2f times as "
              "fast (%.2f to %.2f)" % (
            o.ranks, mib, own * 1e3, mib * 1.048576e-3 / own, other * 1e3,
            mib * 1.048576e-3 / other, statistics.mode(names),
            statistics.median(ratios), ratios[0], ratios[-1]))


main()
