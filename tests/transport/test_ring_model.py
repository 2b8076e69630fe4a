# SPDX-License-Identifier: Apache-2.0
"""The ring in shared memory on processors that reorder: all executions of a small model of it.

Two threads pass three messages through a ring of two, as transport/shared does: data is copied,
counts are published, a side that finds nothing to do wishes to be woken, looks again and sleeps.
How each access is ordered is read from the sources. A load sees any store that is not older than
what the thread knows; an acquiring load learns what a releasing store knew; sequentially consistent
ones see the newest of their kind. Who overwrites bytes must know that they have been read. These
are the rules of C11, which Arm's stay within.

No execution may read the wrong bytes, overwrite what may still be read, or leave a side asleep. And
each order that the sources ask for must matter: a model in which it is missing has to fail.

Usage: test_ring_model.py ROOT"""
import pathlib
import re
import sys
import unittest

MESSAGES, CAPACITY = 3, 2
RELAXED, ACQUIRE, RELEASE, SEQ_CST = "relaxed", "acquire", "release", "seq_cst"
RING, SHARED = "transport/shared/ring.c", "transport/shared/shared.c"
# The accesses: function, how it names the place.
ACCESSES = {
    "publish": (RING, "rf_ring_write", "store", r"&ring->counts->written"),
    "release": (RING, "rf_ring_release", "store", r"&ring->counts->read"),
    "read": (RING, "rf_ring_read", "load", r"&ring->counts->written"),
    "look": (RING, "reader_look", "load", r"&ring->counts->read"),
    "has_message": (RING, "rf_ring_has_message", "load", r"&ring->counts->written"),
    "has_room": (RING, "rf_ring_has_room", "load", r"&ring->counts->read"),
    "wish": (SHARED, "rf_shared_lie_down", "store",
             r"&pair->segment\.head->sides\[side_of\(s, pair\)\]\.wish"),
    "see_wish": (SHARED, "pair_wake", "load", r"wish"),
}
SLOTS = ["slot%d" % i for i in range(CAPACITY)]
# "used": how many messages the reader has taken out, which is nowhere in memory.
PLACES = [*SLOTS, "used", "written", "read", "wish0", "wish1", "bell0", "bell1"]
AT = {name: i for i, name in enumerate(PLACES)}


def function_text(source, name):
    """The body of a function that begins in the first column and ends with a brace there."""
    begin = re.search(r"(?m)^\w[^;\n]*\b%s\(" % name, source).start()
    return source[begin:source.index("\n}\n", begin)]


def orders_of(root):
    """How the sources order each access."""
    found = {}
    for access, (path, function, kind, place) in ACCESSES.items():
        body = function_text((root / path).read_text(), function)
        match = re.search(r"atomic_%s(_explicit)?\(%s(?:, [^;]*?memory_order_(\w+)\)|[,)])"
                          % (kind, place), body)
        if not match or bool(match[1]) != bool(match[2]):
            raise ValueError("%s: %s has no such access to %s" % (path, function, place))
        found[access] = match[2] or SEQ_CST
    return found


class Wrong(Exception):
    """What an execution did wrong."""


class Memory:
    """Of each place all stores, in order: what was stored, what one learns who acquires it, and
    whether it was sequentially consistent. Views are the newest stores that a thread knows."""

    def __init__(self, stores, views):
        self.stores, self.views = stores, views

    @classmethod
    def fresh(cls):
        zero = (0,) * len(PLACES)
        return cls(tuple(((0, zero, True),) for _ in PLACES), (zero, zero))

    def key(self):
        return self.stores, self.views

    def with_view(self, thread, view):
        views = list(self.views)
        views[thread] = view
        return Memory(self.stores, tuple(views))

    def store(self, thread, name, value, order):
        place, view = AT[name], list(self.views[thread])
        view[place] = len(self.stores[place])
        view = tuple(view)
        given = view if order in (RELEASE, SEQ_CST) else (0,) * len(PLACES)
        stores = list(self.stores)
        stores[place] += ((value, given, order == SEQ_CST),)
        return Memory(tuple(stores), self.views).with_view(thread, view)

    def loads(self, thread, name, order):
        """Each value that the load may see, and the memory then."""
        place, stores = AT[name], self.stores[AT[name]]
        oldest = self.views[thread][place]
        if order == SEQ_CST:
            oldest = max([oldest] + [i for i, s in enumerate(stores) if s[2]])
        for i in range(oldest, len(stores)):
            value, given, _ = stores[i]
            view = list(self.views[thread])
            view[place] = i
            if order in (ACQUIRE, SEQ_CST):
                view = [max(a, b) for a, b in zip(view, given)]
            yield value, self.with_view(thread, tuple(view))


# A thread: where it is, which message, what it knows of the other's count, and the last bell that
# it has heard.
WRITER, READER = 0, 1


def ring_bell(memory, thread, other):
    """A system call: the kernel orders it."""
    rings = len(memory.stores[AT["bell%d" % other]])
    return memory.store(thread, "bell%d" % other, rings, SEQ_CST)


def wake(orders, memory, thread, then):
    """The other side, where its wish is seen."""
    other = 1 - thread
    for wish, m in memory.loads(thread, "wish%d" % other, orders["see_wish"]):
        if wish:
            m = ring_bell(m.store(thread, "wish%d" % other, 0, RELAXED), thread, other)
        yield then, m


def count_of(thread):
    """What the thread looks for: the other side's count, and its names for looking."""
    return ("read", "look", "has_room") if thread == WRITER else ("written", "read", "has_message")


def steps(orders, thread, state, memory):
    """What the thread may do next: its state and the memory then."""
    at, k, seen, heard = state
    name, look, look_again = count_of(thread)

    def missing(count):
        return k - count >= CAPACITY if thread == WRITER else count <= k

    if at == "begin" and k < MESSAGES:
        if not missing(seen):
            yield ("data", k, seen, heard), memory
            return
        for count, m in memory.loads(thread, name, orders[look]):
            yield ("wish" if missing(count) else "data", k, count, heard), m
    elif at == "data" and thread == WRITER:
        if memory.views[thread][AT["used"]] <= k - CAPACITY:
            raise Wrong("message %d overwrites one that may still be read" % (k + 1))
        yield ("publish", k, seen, heard), memory.store(thread, SLOTS[k % CAPACITY], k + 1, RELAXED)
    elif at == "data":
        for value, m in memory.loads(thread, SLOTS[k % CAPACITY], RELAXED):
            if value != k + 1:
                raise Wrong("message %d was read as %d" % (k + 1, value))
            yield ("publish", k, seen, heard), m.store(thread, "used", k + 1, RELAXED)
    elif at == "publish":
        access, count = ("publish", "written") if thread == WRITER else ("release", "read")
        yield ("wake", k + 1, seen, heard), memory.store(thread, count, k + 1, orders[access])
    elif at == "wake":
        yield from wake(orders, memory, thread, ("begin", k, seen, heard))
    elif at == "wish":
        yield ("again", k, seen, heard), memory.store(thread, "wish%d" % thread, 1, orders["wish"])
    elif at == "again":
        for count, m in memory.loads(thread, name, orders[look_again]):
            yield ("sleep" if missing(count) else "up", k, seen, heard), m
    elif at == "sleep":
        rings = len(memory.stores[AT["bell%d" % thread]]) - 1
        if rings > heard:
            for value, m in memory.loads(thread, "bell%d" % thread, SEQ_CST):
                yield ("up", k, seen, value), m
    elif at == "up":
        yield ("begin", k, seen, heard), memory.store(thread, "wish%d" % thread, 0, RELAXED)


def explore(orders):
    """Goes through all executions: the number of their states. Wrong: one of them fails."""
    start = ("begin", 0, 0, 0)
    stack, known = [((start, start), Memory.fresh())], set()
    while stack:
        threads, memory = stack.pop()
        key = threads, memory.key()
        if key in known:
            continue
        known.add(key)
        moved = False
        for thread in (WRITER, READER):
            for state, after in steps(orders, thread, threads[thread], memory):
                moved = True
                both = list(threads)
                both[thread] = state
                stack.append((tuple(both), after))
        if not moved and any(t[1] < MESSAGES for t in threads):
            raise Wrong("%s sleeps for ever" % " and ".join(
                name for name, t in zip(("the writer", "the reader"), threads) if t[1] < MESSAGES))
    return len(known)


class Ring(unittest.TestCase):
    def test_sources_hold(self):
        self.assertGreater(explore(ORDERS), 100)

    def test_each_order_matters(self):
        for access, order in ORDERS.items():
            with self.subTest(access=access, order=order):
                with self.assertRaises(Wrong):
                    explore({**ORDERS, access: RELAXED})

    def test_release_and_acquire_lose_a_wake_up(self):
        for access, weaker in (("publish", RELEASE), ("wish", RELEASE), ("has_message", ACQUIRE),
                               ("see_wish", ACQUIRE)):
            with self.subTest(access=access):
                with self.assertRaisesRegex(Wrong, "sleeps for ever"):
                    explore({**ORDERS, access: weaker})


if __name__ == "__main__":
    ORDERS = orders_of(pathlib.Path(sys.argv.pop(1)))
    unittest.main(verbosity=2)
