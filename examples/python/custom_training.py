# SPDX-License-Identifier: Apache-2.0
"""Custom training loop: a CNN on Fashion-MNIST on all devices at once, as TensorFlow's tutorial
"Custom training with tf.distribute.Strategy" has it. The step is the user's; the strategy runs it
on every device, sums gradients and keeps the variables identical."""
import argparse
import os

import numpy as np
import ringfire as rf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=64, help="of each replica")
parser.add_argument("--devices", help="as RINGFIRE_DEVICES has them; all GPUs by default")
parser.add_argument("--data", help="directory with the four IDX files")
parser.add_argument("--checkpoints", default="./training_checkpoints")
parser.add_argument("--seed", type=int, default=1, help="of initial weights and order")
parser.add_argument("--limit", type=int, help="so many examples of each part only")
arguments = parser.parse_args()

(train_images, train_labels), (test_images, test_labels) = \
    rf.keras.datasets.fashion_mnist.load_data(arguments.data)
if arguments.limit:
    train_images, train_labels, test_images, test_labels = (
        a[:arguments.limit] for a in (train_images, train_labels, test_images, test_labels))

# Adding a dimension to the array -> new shape == (28, 28, 1)
# We are doing this because the first layer in our model is a convolutional
# layer and it requires a 4D input (batch_size, height, width, channels).
# batch_size dimension will be added later on.
train_images = train_images[..., None]
test_images = test_images[..., None]

# Getting the images in [0, 1] range.
train_images = train_images / np.float32(255)
test_images = test_images / np.float32(255)

# If the list of devices is not specified in the
# `rf.distribute.MirroredStrategy` constructor, it will be auto-detected.
strategy = rf.distribute.MirroredStrategy(arguments.devices)
strategy.set_seed(arguments.seed)

print('Number of devices: {}'.format(strategy.num_replicas_in_sync))

BUFFER_SIZE = len(train_images)

BATCH_SIZE_PER_REPLICA = arguments.batch_size
GLOBAL_BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync

EPOCHS = arguments.epochs

train_dataset = rf.data.Dataset.from_tensor_slices((train_images, train_labels)).shuffle(
    BUFFER_SIZE, seed=arguments.seed).batch(GLOBAL_BATCH_SIZE)
test_dataset = rf.data.Dataset.from_tensor_slices((test_images, test_labels)).batch(
    GLOBAL_BATCH_SIZE)

train_dist_dataset = strategy.experimental_distribute_dataset(train_dataset)
test_dist_dataset = strategy.experimental_distribute_dataset(test_dataset)


def create_model():
    model = rf.keras.Sequential([
        rf.keras.layers.Conv2D(32, 3, activation='relu'),
        rf.keras.layers.MaxPooling2D(),
        rf.keras.layers.Conv2D(64, 3, activation='relu'),
        rf.keras.layers.MaxPooling2D(),
        rf.keras.layers.Flatten(),
        rf.keras.layers.Dense(64, activation='relu'),
        rf.keras.layers.Dense(10)
    ])

    return model


# Create a checkpoint directory to store the checkpoints.
checkpoint_dir = arguments.checkpoints
checkpoint_prefix = os.path.join(checkpoint_dir, "ckpt")

with strategy.scope():
    # Set reduction to `none` so we can do the reduction afterwards and divide by
    # global batch size.
    loss_object = rf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True,
        reduction=rf.keras.losses.Reduction.NONE)

    def compute_loss(labels, predictions):
        per_example_loss = loss_object(labels, predictions)
        return rf.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH_SIZE)

with strategy.scope():
    test_loss = rf.keras.metrics.Mean(name='test_loss')

    train_accuracy = rf.keras.metrics.SparseCategoricalAccuracy(
        name='train_accuracy')
    test_accuracy = rf.keras.metrics.SparseCategoricalAccuracy(
        name='test_accuracy')

# model and optimizer must be created under `strategy.scope`.
with strategy.scope():
    model = create_model()

    optimizer = rf.keras.optimizers.Adam()

    checkpoint = rf.train.Checkpoint(optimizer=optimizer, model=model)

with strategy.scope():
    def train_step(inputs):
        images, labels = inputs

        with rf.GradientTape() as tape:
            predictions = model(images, training=True)
            loss = compute_loss(labels, predictions)

        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        train_accuracy.update_state(labels, predictions)
        return loss

    def test_step(inputs):
        images, labels = inputs

        predictions = model(images, training=False)
        t_loss = loss_object(labels, predictions)

        test_loss.update_state(t_loss)
        test_accuracy.update_state(labels, predictions)

with strategy.scope():
    # `run` replicates the provided computation and runs it
    # with the distributed input.
    @rf.function
    def distributed_train_step(dataset_inputs):
        per_replica_losses = strategy.run(train_step, args=(dataset_inputs,))
        return strategy.reduce(rf.distribute.ReduceOp.SUM, per_replica_losses,
                               axis=None)

    @rf.function
    def distributed_test_step(dataset_inputs):
        return strategy.run(test_step, args=(dataset_inputs,))

    for epoch in range(EPOCHS):
        # TRAIN LOOP
        total_loss = 0.0
        num_batches = 0
        for x in train_dist_dataset:
            total_loss += distributed_train_step(x)
            num_batches += 1
        train_loss = total_loss / num_batches

        # TEST LOOP
        for x in test_dist_dataset:
            distributed_test_step(x)

        if epoch % 2 == 0 or epoch == EPOCHS - 1:
            checkpoint.save(checkpoint_prefix)

        template = ("Epoch {}, Loss: {}, Accuracy: {}, Test Loss: {}, "
                    "Test Accuracy: {}")
        print(template.format(epoch + 1, train_loss,
                              train_accuracy.result() * 100, test_loss.result(),
                              test_accuracy.result() * 100))

        test_loss.reset_states()
        train_accuracy.reset_states()
        test_accuracy.reset_states()

# A model checkpointed with a strategy can be restored with or without one.
eval_accuracy = rf.keras.metrics.SparseCategoricalAccuracy(
    name='eval_accuracy')

new_model = create_model()
new_optimizer = rf.keras.optimizers.Adam()

test_dataset = rf.data.Dataset.from_tensor_slices((test_images, test_labels)).batch(
    GLOBAL_BATCH_SIZE)


@rf.function
def eval_step(images, labels):
    predictions = new_model(images, training=False)
    eval_accuracy(labels, predictions)


checkpoint = rf.train.Checkpoint(optimizer=new_optimizer, model=new_model)
checkpoint.restore(rf.train.latest_checkpoint(checkpoint_dir))

for images, labels in test_dataset:
    eval_step(images, labels)

print('Accuracy after restoring the saved model without strategy: {}'.format(
    eval_accuracy.result() * 100))

# Iterators: so many steps, and not the entire dataset.
for _ in range(EPOCHS):
    total_loss = 0.0
    num_batches = 0
    train_iter = iter(train_dist_dataset)

    for _ in range(10):
        total_loss += distributed_train_step(next(train_iter))
        num_batches += 1
    average_train_loss = total_loss / num_batches

    template = ("Epoch {}, Loss: {}, Accuracy: {}")
    print(template.format(epoch + 1, average_train_loss, train_accuracy.result() * 100))
    train_accuracy.reset_states()


# Iterating inside of a function.
with strategy.scope():
    @rf.function
    def distributed_train_epoch(dataset):
        total_loss = 0.0
        num_batches = 0
        for x in dataset:
            per_replica_losses = strategy.run(train_step, args=(x,))
            total_loss += strategy.reduce(
                rf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)
            num_batches += 1
        return total_loss / rf.cast(num_batches, dtype=rf.float32)

    for epoch in range(EPOCHS):
        train_loss = distributed_train_epoch(train_dist_dataset)

        template = ("Epoch {}, Loss: {}, Accuracy: {}")
        print(template.format(epoch + 1, train_loss, train_accuracy.result() * 100))

        train_accuracy.reset_states()
