# SPDX-License-Identifier: Apache-2.0
"""Training with parameter servers, in the form of TensorFlow's tutorial of that name: a coordinator
schedules steps on workers, and servers hold the variables. Every task runs this program, with
TF_CONFIG; examples/run_parameter_server.sh starts them all on one machine."""
import argparse

import ringfire as rf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--devices", help="as RINGFIRE_DEVICES has them; all GPUs by default")
parser.add_argument("--data", help="directory with the four IDX files; Fashion-MNIST by default")
parser.add_argument("--limit", type=int, help="so many examples of each part only")
parser.add_argument("--synchronous", action="store_true", help="all workers share each step")
arguments = parser.parse_args()

BATCH_SIZE = 64

cluster_resolver = rf.distribute.TFConfigClusterResolver()
if cluster_resolver.task_type == 'ps':
    rf.distribute.Server(arguments.devices).join()
    raise SystemExit

strategy = rf.distribute.ParameterServerStrategy(cluster_resolver, arguments.devices)

with strategy.scope():
    model = rf.keras.Sequential([
        rf.keras.layers.Flatten(input_shape=(28, 28, 1)),
        rf.keras.layers.Dense(128, activation='relu'),
        rf.keras.layers.Dense(10)
    ])
    optimizer = rf.keras.optimizers.Adam()
    model.compile(optimizer=optimizer, metrics=['accuracy'],
                  loss=rf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def scale(image, label):
    return rf.cast(image, rf.float32) / 255, label


def images(split):
    dataset = rf.datasets.fashion_mnist.dataset(split, arguments.data)
    return dataset.take(arguments.limit or -1).map(scale)


def dataset_fn():
    return images('train').shuffle(10000, seed=1).batch(BATCH_SIZE)


coordinator = rf.distribute.ClusterCoordinator(strategy, synchronous=arguments.synchronous)
per_worker_dataset = coordinator.create_per_worker_dataset(dataset_fn)
per_worker_iterator = iter(per_worker_dataset)


@rf.function
def step_fn(iterator):

    def replica_fn(batch, labels):
        with rf.GradientTape() as tape:
            logits = model(batch, training=True)
            losses = rf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = rf.nn.compute_average_loss(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    losses = strategy.run(replica_fn, args=next(iterator))
    return strategy.reduce(rf.ReduceOp.SUM, losses, axis=None)


# A synchronous step takes a batch of every worker.
steps_per_epoch = len(per_worker_dataset.dataset)
if arguments.synchronous:
    steps_per_epoch //= strategy.num_workers
test_dataset = images('test').batch(100)

for epoch in range(arguments.epochs):
    for _ in range(steps_per_epoch):
        loss = coordinator.schedule(step_fn, args=(per_worker_iterator, ))
    coordinator.join()  # a worker does the work here, and ends with the job
    _, accuracy = model.evaluate(test_dataset, verbose=0)
    print('Epoch %d: loss of the last step %.3f, test accuracy %.3f' %
          (epoch + 1, loss.fetch(), accuracy), flush=True)
