# SPDX-License-Identifier: Apache-2.0
"""Steps of the Python package: what they take and return, when they are traced, what they refuse,
and how long their results and objects live."""
import functools
import gc
import inspect
import signal
import unittest
import weakref

import numpy as np
import ringfire as rf
from ringfire import _lib, _values

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def line():
    """Where the caller is."""
    frame = inspect.stack()[1]
    return "test_steps.py:%d" % frame.lineno


class Structures(unittest.TestCase):
    def test_results_have_the_structure_that_the_step_returned(self):
        @rf.function
        def step(batch, names):
            return {"sum": batch["x"] + batch["y"][0], "names": names}, (batch["x"], None, 3)

        made = step({"x": X, "y": [X, X]}, ("a", "b"))
        self.assertEqual(made[0]["names"], ("a", "b"))
        np.testing.assert_array_equal(made[0]["sum"].numpy(), 2 * X)
        np.testing.assert_array_equal(made[1][0].numpy(), X)
        self.assertEqual(made[1][1:], (None, 3))

    def test_no_results_and_no_arguments(self):
        self.assertIsNone(rf.function(lambda x: None)(X))
        self.assertEqual(float(rf.function(lambda: rf.constant(2.0) * 3)()), 6.0)

    def test_variables_and_constants_are_results(self):
        v = rf.Variable([1.0, 2.0])
        made = rf.function(lambda x: (v, X, rf.constant(1.5)))(X)
        np.testing.assert_array_equal(made[0].numpy(), [1, 2])
        np.testing.assert_array_equal(made[1].numpy(), X)
        self.assertEqual(float(made[2]), 1.5)

    def test_arrays_that_numpy_alone_has_are_narrowed(self):
        double = rf.function(lambda x: x * 2.0)
        np.testing.assert_array_equal(double(X.astype(np.float64)).numpy(), 2 * X)
        np.testing.assert_array_equal(double(X[::-1]).numpy(), 2 * X[::-1])
        np.testing.assert_array_equal(double(X.T).numpy(), 2 * X.T)
        number = rf.function(lambda x: rf.cast(x, rf.float32))
        np.testing.assert_array_equal(number(np.array([1, 2])).numpy(), [1, 2])
        with self.assertRaisesRegex(rf.InvalidArgumentError, "do not fit int32"):
            number(np.array([1, 2**40]))
        with self.assertRaisesRegex(rf.InvalidArgumentError, "complex128 are not supported"):
            number(np.array([1j]))

    def test_dlpack(self):
        class Capsule:
            def __dlpack__(self, **keywords):
                return X.__dlpack__()

            def __dlpack_device__(self):
                return X.__dlpack_device__()

        made = rf.function(lambda x: x + 1.0)(Capsule())
        np.testing.assert_array_equal(made.numpy(), X + 1)
        np.testing.assert_array_equal(np.from_dlpack(made), X + 1)

    def test_too_many(self):
        with self.assertRaisesRegex(rf.InvalidArgumentError, "at most 8 arrays, not 9"):
            rf.function(lambda *x: None)(*[X] * 9)
        with self.assertRaisesRegex(rf.TraceError, "returns 9 tensors; at most 8"):
            rf.function(lambda x: [x] * 9)(X)


class Tracing(unittest.TestCase):
    def count(self, function, calls):
        traced = []

        def step(*arguments):
            traced.append(1)
            return function(*arguments)

        for arguments in calls:
            rf.distribute.get_strategy().run(step, arguments)
        return len(traced)

    def test_once_for_each_kind_of_arguments(self):
        self.assertEqual(self.count(lambda x: x, [(X, ), (X[:2], ), (X + 1, )]), 1)
        self.assertEqual(self.count(lambda x: x, [(X, ), (X.astype(np.int32), ), (X[:, :1], )]), 3)
        self.assertEqual(
            self.count(lambda x, n: x * n, [(X, 1.0), (X, 2.0), (X, 1.0), (X, 1), (X, True)]), 4)

    def test_once_more_where_it_returns_another_number_of_tensors(self):
        self.assertEqual(self.count(lambda x: (x, x), [(X, ), (X, )]), 2)
        self.assertEqual(self.count(lambda x: None, [(X, ), (X, )]), 2)

    def test_functions_that_are_made_anew(self):
        traced = []
        factor = rf.Variable([2.0])

        def call(n):
            def step(x):
                traced.append(n)
                return x * factor * n

            return rf.distribute.get_strategy().run(step, (X, ))

        for n in (1.0, 1.0, 3.0, 1.0):
            np.testing.assert_array_equal(call(n).numpy(), 2 * n * X)
        self.assertEqual(traced, [1.0, 3.0])

    def test_methods_and_partials(self):
        class Model:
            def __init__(self, factor):
                self.factor, self.traced = factor, 0

            @rf.function
            def call(self, x):
                self.traced += 1
                return x * self.factor

        one, two = Model(1.0), Model(2.0)
        for model in (one, two, one):
            np.testing.assert_array_equal(model.call(X).numpy(), model.factor * X)
        self.assertEqual((one.traced, two.traced), (1, 1))
        run = rf.distribute.get_strategy().run
        for model in (one, two):
            made = run(functools.partial(Model.call.python_function, model), (X, ))
            np.testing.assert_array_equal(made.numpy(), model.factor * X)

    def test_functions_within_steps_are_part_of_them(self):
        inner = rf.function(lambda x: x + 1.0)
        made = rf.function(lambda x: inner(x) * 2.0)(X)
        np.testing.assert_array_equal(made.numpy(), 2 * (X + 1))

    def test_functions_that_run_steps(self):
        strategy = rf.distribute.get_strategy()
        calls = []

        @rf.function
        def train(x):
            calls.append(1)
            return strategy.reduce("SUM", strategy.run(lambda y: rf.reduce_sum(y), (x, )))

        self.assertEqual(float(train(X)), X.sum())
        self.assertEqual(float(train(X)), X.sum())
        self.assertEqual(len(calls), 3)  # of the first call two: it might have been a step

    def test_input_signature(self):
        @rf.function(input_signature=[rf.TensorSpec([None, 2], rf.float32)])
        def step(x):
            return x + 1.0

        np.testing.assert_array_equal(step(X.astype(np.int32)).numpy(), X + 1)
        with self.assertRaisesRegex(rf.InvalidArgumentError, r"shape \(3,\) does not fit"):
            step(X[:, 0])
        with self.assertRaisesRegex(rf.InvalidArgumentError, "takes 1 arguments"):
            step(X, X)
        with self.assertRaisesRegex(rf.InvalidArgumentError, "no setting jit"):
            rf.function(lambda x: x, jit=True)


class Refusals(unittest.TestCase):
    """What cannot be traced names its line."""

    def refused(self, function, message, kind=rf.TraceError):
        first = function.__code__.co_firstlineno
        with self.assertRaisesRegex(kind, r"^test_steps.py:%d: .*%s" % (first, message)) as caught:
            rf.distribute.get_strategy().run(function, (X, ))
        return caught.exception

    def test_numbers_of_tensors(self):
        self.refused(lambda x: 1 if x > 0 else 2, r"use rf.where|choose elements with rf.where")
        self.refused(lambda x: float(x), "return the tensor")
        self.refused(lambda x: int(x), "return the tensor")
        self.refused(lambda x: x.numpy(), "return the tensor")
        self.refused(lambda x: np.exp(x), "numpy.exp.. needs a number")
        self.refused(lambda x: np.asarray(x), "function of this package")
        self.refused(lambda x: [y for y in x], "loop over a tensor")
        self.refused(lambda x: x[x > 0, 1], "cannot be indexed by Tensor")
        self.refused(lambda x: x["a"], "cannot be indexed by str")

    def test_shapes(self):
        self.refused(lambda x: rf.matmul(x, x), "inner dimensions differ", rf.InvalidArgumentError)
        self.refused(lambda x: x + np.ones(5, np.float32), "rf_add", rf.InvalidArgumentError)
        self.refused(lambda x: rf.reshape(x, (7, -1)), "rf_reshape", rf.InvalidArgumentError)

    def test_variables(self):
        v, n = rf.Variable([1.0]), rf.Variable(3)
        self.refused(lambda x: v.numpy(), "compute with the variable")
        self.refused(lambda x: np.asarray(v), "function of this package")
        self.refused(lambda x: x * n, "whole number of the program")

    def test_tensors_of_other_steps(self):
        kept = []
        rf.function(lambda x: kept.append(x))(X)
        self.refused(lambda x: x + kept[-1], "tensor of another step")

    def test_steps_in_steps(self):
        strategy = rf.distribute.get_strategy()
        self.refused(lambda x: strategy.run(lambda y: y, (x, )), "call the function itself")
        self.refused(lambda x: strategy.reduce("SUM", x), "all_reduce")

    def test_outside_of_steps(self):
        where = line()
        with self.assertRaisesRegex(rf.TraceError, "a GradientTape records steps") as caught:
            with rf.GradientTape():
                pass
        number = int(where.rpartition(":")[2])
        self.assertTrue(str(caught.exception).startswith("test_steps.py:%d:" % (number + 2)))

    def test_exceptions_of_the_user_come_as_they_are(self):
        class Mine(Exception):
            pass

        def step(x):
            raise Mine("of the user")

        for _ in range(2):
            with self.assertRaisesRegex(Mine, "of the user"):
                rf.distribute.get_strategy().run(step, (X, ))
        # A later step works.
        np.testing.assert_array_equal(rf.function(lambda x: x)(X).numpy(), X)

    def test_interrupts(self):
        """Ctrl-C while a step is traced, and between steps."""
        strategy = rf.distribute.get_strategy()

        def step(x):
            signal.raise_signal(signal.SIGINT)
            return x

        for rows in (3, 1):
            with self.assertRaises(KeyboardInterrupt):
                strategy.run(step, (X[:rows], ))
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(3):
                made = strategy.run(lambda x: x + 1.0, (X, ))
                signal.raise_signal(signal.SIGINT)
        np.testing.assert_array_equal(made.numpy(), X + 1)


class Lifetimes(unittest.TestCase):
    def test_results_outlive_later_runs(self):
        step = rf.function(lambda x: x + 1.0)
        results = [step(X + i) for i in range(6)]
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result.numpy(), X + i + 1)

    def test_results_outlive_another_number_of_results(self):
        step = rf.function(lambda x: [x[:, i] for i in range(x.shape[1])])
        first = step(X)
        second = step(X[:, :1])
        self.assertEqual((len(first), len(second)), (2, 1))
        np.testing.assert_array_equal(first[1].numpy(), X[:, 1])
        np.testing.assert_array_equal(second[0].numpy(), X[:, 0])

    def test_steps_go_with_what_they_use(self):
        model = train_model()
        gc.collect()
        self.assertIsNone(model())

    def test_children_go_before_parents(self):
        order = []

        class Thing(_lib.Handle):
            def __init__(self, name, *parents):
                pointer = _lib.ffi.cast("rf_strategy *", 1)
                self.adopt(pointer, lambda p: order.append(name), *parents)

        parent = Thing("parent")
        child = Thing("child", parent)
        cycle = [parent, child]
        cycle.append(cycle)
        parent.cycle = child.cycle = cycle
        del parent, child, cycle
        gc.collect()
        self.assertEqual(order, ["child", "parent"])

    def test_closed_things(self):
        v = rf.Variable([1.0])
        v.close()
        with self.assertRaisesRegex(rf.InvalidArgumentError, "Variable was closed"):
            v.numpy()


def train_model():
    class Model:
        pass

    model = Model()
    model.weights = rf.Variable(np.ones((2, 2)))

    def step(x):
        return x @ model.weights

    for _ in range(2):
        rf.distribute.get_strategy().run(step, (X, ))
    return weakref.ref(model)


class Batches(unittest.TestCase):
    """Values that borrow the memory of an iterator."""

    def batch(self):
        memory = X.copy()
        elements = _values.Elements()
        batch = _values.Batch(elements.of([memory]), [2])
        return memory, elements, batch, batch.values[0]

    def test_no_copy(self):
        memory, elements, batch, value = self.batch()
        memory[0, 0] = 7
        self.assertEqual(value.view[0, 0], 7)
        array, dense = rf._arrays.array_in(X)
        self.assertIs(dense, X)

    def test_kept_values_get_memory_of_their_own(self):
        memory, elements, batch, value = self.batch()
        batch.expire()
        memory[:] = 0
        np.testing.assert_array_equal(value.numpy(), X)

    def test_a_batch_that_a_step_has_had_is_not_copied(self):
        memory, elements, batch, value = self.batch()
        np.testing.assert_array_equal(rf.function(lambda x: x + 1.0)(value).numpy(), X + 1)
        batch.expire()
        with self.assertRaisesRegex(rf.InvalidArgumentError, "call numpy.. before the loop"):
            value.numpy()

    def test_the_last_batch_of_an_iterator_outlives_it(self):
        dataset = rf.data.Dataset.from_tensor_slices(X).batch(3)
        batch = next(iter(dataset))
        for _ in range(3):
            made = rf.function(lambda x: x + 1.0)(batch)
            np.testing.assert_array_equal(made.numpy(), X + 1)
        iterator = iter(dataset)
        batch = next(iterator)
        rf.function(lambda x: x)(batch)
        del iterator
        np.testing.assert_array_equal(batch.numpy(), X)
        self.assertEqual([b.shape for b in list(dataset.batch(1))], [(1, 3, 2)])

    def test_values_are_numbers(self):
        value = rf.constant(2.5)
        self.assertEqual(float(value + 1), 3.5)
        self.assertEqual("{:.3f} {}".format(value, rf.constant([1.0])), "2.500 [1.]")
        self.assertEqual(float(1.0 + value), 3.5)
        total = 0.0
        total += value
        total += 1
        self.assertEqual((float(total), float(value)), (3.5, 2.5))
        self.assertEqual(float(np.sqrt(value * 10)), 5.0)
        self.assertEqual(int(rf.constant(3)), 3)
        self.assertTrue(value > 2)
        self.assertEqual([int(v) for v in rf.constant([1, 2])], [1, 2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
