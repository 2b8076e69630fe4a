# SPDX-License-Identifier: Apache-2.0
"""Custom training loop of several workers: a CNN on MNIST, as TensorFlow's tutorial "Custom
training loop with Keras and MultiWorkerMirroredStrategy" has it. Started again, it goes on from its
latest checkpoint. Every worker runs this program: with TF_CONFIG, or under `ringfire run -n 2`."""
import argparse
import os
import shutil

import numpy as np
import ringfire as rf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--steps", type=int, default=70, help="of an epoch")
parser.add_argument("--batch-size", type=int, default=64, help="of each worker")
parser.add_argument("--devices", help="as RINGFIRE_DEVICES has them; all GPUs by default")
parser.add_argument("--data", help="directory with the four IDX files")
parser.add_argument("--checkpoints", default="./training_checkpoints")
arguments = parser.parse_args()


def mnist_dataset(batch_size):
    (x_train, y_train), _ = rf.keras.datasets.mnist.load_data(arguments.data)
    # The `x` arrays are in uint8 and have values in the range [0, 255].
    # You need to convert them to float32 with values in the range [0, 1]
    x_train = x_train / np.float32(255)
    y_train = y_train.astype(np.int64)
    train_dataset = rf.data.Dataset.from_tensor_slices(
        (x_train, y_train)).shuffle(len(x_train))
    return train_dataset


def dataset_fn(global_batch_size, input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    dataset = mnist_dataset(batch_size)
    dataset = dataset.shard(input_context.num_input_pipelines,
                            input_context.input_pipeline_id)
    dataset = dataset.batch(batch_size)
    return dataset


def build_cnn_model():
    return rf.keras.Sequential([
        rf.keras.layers.Input(shape=(28, 28)),
        rf.keras.layers.Reshape(target_shape=(28, 28, 1)),
        rf.keras.layers.Conv2D(32, 3, activation='relu'),
        rf.keras.layers.Flatten(),
        rf.keras.layers.Dense(128, activation='relu'),
        rf.keras.layers.Dense(10)
    ])


strategy = rf.distribute.MultiWorkerMirroredStrategy(devices=arguments.devices)

num_epochs = arguments.epochs
num_steps_per_epoch = arguments.steps
global_batch_size = arguments.batch_size * strategy.num_replicas_in_sync

# Checkpoint saving and restoring
def _is_chief(task_type, task_id, cluster_spec):
    return (task_type is None
            or task_type == 'chief'
            or (task_type == 'worker'
                and task_id == 0
                and 'chief' not in cluster_spec.as_dict()))


def _get_temp_dir(dirpath, task_id):
    base_dirpath = 'workertemp_' + str(task_id)
    temp_dir = os.path.join(dirpath, base_dirpath)
    os.makedirs(temp_dir, exist_ok=True)
    return temp_dir


def write_filepath(filepath, task_type, task_id, cluster_spec):
    dirpath = os.path.dirname(filepath)
    base = os.path.basename(filepath)
    if not _is_chief(task_type, task_id, cluster_spec):
        dirpath = _get_temp_dir(dirpath, task_id)
    return os.path.join(dirpath, base)


checkpoint_dir = os.path.join(arguments.checkpoints, 'ckpt')

# Define Strategy
with strategy.scope():
    # Model building/compiling need to be within `strategy.scope()`.
    multi_worker_model = build_cnn_model()

    multi_worker_dataset = strategy.distribute_datasets_from_function(
        lambda input_context: dataset_fn(global_batch_size, input_context))
    optimizer = rf.keras.optimizers.RMSprop(learning_rate=0.001)
    train_accuracy = rf.keras.metrics.SparseCategoricalAccuracy(
        name='train_accuracy')


@rf.function
def train_step(iterator):
    """Training step function."""

    def step_fn(inputs):
        """Per-Replica step function."""
        x, y = inputs
        with rf.GradientTape() as tape:
            predictions = multi_worker_model(x, training=True)
            per_example_loss = rf.keras.losses.SparseCategoricalCrossentropy(
                from_logits=True,
                reduction=rf.keras.losses.Reduction.NONE)(y, predictions)
            loss = rf.nn.compute_average_loss(per_example_loss)
            model_losses = multi_worker_model.losses
            if model_losses:
                loss += rf.nn.scale_regularization_loss(rf.add_n(model_losses))

        grads = tape.gradient(loss, multi_worker_model.trainable_variables)
        optimizer.apply_gradients(
            zip(grads, multi_worker_model.trainable_variables))
        train_accuracy.update_state(y, predictions)
        return loss

    per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(
        rf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


# Create checkpoint to save/restore model states
epoch = rf.Variable(
    initial_value=rf.constant(0, dtype=rf.dtypes.int64), name='epoch')
step_in_epoch = rf.Variable(
    initial_value=rf.constant(0, dtype=rf.dtypes.int64),
    name='step_in_epoch')

task_type, task_id, cluster_spec = (strategy.cluster_resolver.task_type,
                                    strategy.cluster_resolver.task_id,
                                    strategy.cluster_resolver.cluster_spec())

checkpoint = rf.train.Checkpoint(
    model=multi_worker_model, epoch=epoch, step_in_epoch=step_in_epoch)

write_checkpoint_dir = write_filepath(checkpoint_dir, task_type, task_id,
                                      cluster_spec)
checkpoint_manager = rf.train.CheckpointManager(
    checkpoint, directory=write_checkpoint_dir, max_to_keep=1)

# Restoring a checkpoint
latest_checkpoint = rf.train.latest_checkpoint(checkpoint_dir)
if latest_checkpoint:
    checkpoint.restore(latest_checkpoint)

# Resume our CTL training
while epoch.numpy() < num_epochs:
    iterator = iter(multi_worker_dataset)
    total_loss = 0.0
    num_batches = 0

    while step_in_epoch.numpy() < num_steps_per_epoch:
        total_loss += train_step(iterator)
        num_batches += 1
        step_in_epoch.assign_add(1)

    train_loss = total_loss / num_batches
    print('Epoch: %d, accuracy: %f, train_loss: %f.'
          % (epoch.numpy(), train_accuracy.result(), train_loss))

    train_accuracy.reset_states()

    epoch.assign_add(1)
    step_in_epoch.assign(0)

    # Once the `CheckpointManager` is set up, you're now ready to save, and remove
    # the checkpoints non-chief workers saved.
    checkpoint_manager.save()
    if not _is_chief(task_type, task_id, cluster_spec):
        shutil.rmtree(write_checkpoint_dir, ignore_errors=True)
