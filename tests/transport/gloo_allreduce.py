#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce with torch.distributed's gloo backend among forked ranks on loopback, for comparison with
`ringfire bench allreduce`. Needs Debian's python3-torch. Usage: gloo_allreduce.py [RANKS [MIB...]] (default: 4 ranks, 1 16 64)"""
import os
import socket
import sys
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def rank_main(rank, world, port, sizes):
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
            median = sorted(times)[len(times) // 2]
            print("gloo, %d ranks, %d MiB: %.3f ms, %.3f GB/s" % (world, mib, median * 1e3, mib * 1.048576e-3 / median), flush=True)
    dist.destroy_process_group()


def main():
    world = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    sizes = [int(a) for a in sys.argv[2:]] or [1, 16, 64]
    port = free_port()
    children = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            try:
                rank_main(rank, world, port, sizes)
            except BaseException as error:  # the child must not go on as the parent
                print("rank %d: %s" % (rank, error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(pid)
    failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in children)
    sys.exit(1 if failed else 0)


main()
