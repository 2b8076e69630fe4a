# SPDX-License-Identifier: Apache-2.0
"""compile and fit: a CNN on MNIST's pictures on all devices at once, as TensorFlow's tutorial
"Distributed training with Keras" has it: callbacks, checkpoints, evaluation, and a saved model that
is loaded with and without a strategy."""
import argparse
import os

import ringfire as rf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--devices", help="as RINGFIRE_DEVICES has them; all GPUs by default")
parser.add_argument("--data", help="directory with the four IDX files; Fashion-MNIST by default")
parser.add_argument("--directory", default=".", help="for checkpoints, logs and the model")
parser.add_argument("--seed", type=int, default=0, help="of initial weights")
parser.add_argument("--limit", type=int, help="so many examples of each part only")
arguments = parser.parse_args()

# Download the dataset
mnist_train, mnist_test = (rf.datasets.mnist.dataset(split, arguments.data).take(
    arguments.limit or -1) for split in ('train', 'test'))

# Define the distribution strategy
strategy = rf.distribute.MirroredStrategy(arguments.devices)
strategy.set_seed(arguments.seed)

print('Number of devices: {}'.format(strategy.num_replicas_in_sync))

# Set up the input pipeline
num_train_examples = len(mnist_train)
num_test_examples = len(mnist_test)

BUFFER_SIZE = 10000

BATCH_SIZE_PER_REPLICA = 64
BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync


def scale(image, label):
    image = rf.cast(image, rf.float32)
    image /= 255

    return image, label


train_dataset = mnist_train.map(scale).cache().shuffle(BUFFER_SIZE).batch(BATCH_SIZE)
eval_dataset = mnist_test.map(scale).batch(BATCH_SIZE)

# Create the model and instantiate the optimizer
with strategy.scope():
    model = rf.keras.Sequential([
        rf.keras.layers.Conv2D(32, 3, activation='relu', input_shape=(28, 28, 1)),
        rf.keras.layers.MaxPooling2D(),
        rf.keras.layers.Flatten(),
        rf.keras.layers.Dense(64, activation='relu'),
        rf.keras.layers.Dense(10)
    ])

    model.compile(loss=rf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  optimizer=rf.keras.optimizers.Adam(learning_rate=0.001),
                  metrics=['accuracy'])

# Define the checkpoint directory to store the checkpoints.
checkpoint_dir = os.path.join(arguments.directory, 'training_checkpoints')
# Define the name of the checkpoint files.
checkpoint_prefix = os.path.join(checkpoint_dir, "ckpt_{epoch}")


# Define a function for decaying the learning rate.
# You can define any decay function you need.
def decay(epoch):
    if epoch < 3:
        return 1e-3
    elif epoch >= 3 and epoch < 7:
        return 1e-4
    else:
        return 1e-5


# Define a callback for printing the learning rate at the end of each epoch.
class PrintLR(rf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print('\nLearning rate for epoch {} is {}'.format(
            epoch + 1, model.optimizer.lr.numpy()))


# Put all the callbacks together.
callbacks = [
    rf.keras.callbacks.TensorBoard(log_dir=os.path.join(arguments.directory, 'logs')),
    rf.keras.callbacks.ModelCheckpoint(filepath=checkpoint_prefix,
                                       save_weights_only=True),
    rf.keras.callbacks.LearningRateScheduler(decay),
    PrintLR()
]

# Train and evaluate
EPOCHS = arguments.epochs

model.fit(train_dataset, epochs=EPOCHS, callbacks=callbacks)

model.load_weights(rf.train.latest_checkpoint(checkpoint_dir))

eval_loss, eval_acc = model.evaluate(eval_dataset)

print('Eval loss: {}, Eval accuracy: {}'.format(eval_loss, eval_acc))

# Save the model
path = os.path.join(arguments.directory, 'my_model.keras')
model.save(path)

# Load the model without `strategy.scope`.
unreplicated_model = rf.keras.models.load_model(path)

eval_loss, eval_acc = unreplicated_model.evaluate(eval_dataset)

print('Eval loss: {}, Eval Accuracy: {}'.format(eval_loss, eval_acc))

# Load the model with `strategy.scope`.
with strategy.scope():
    replicated_model = rf.keras.models.load_model(path)

    eval_loss, eval_acc = replicated_model.evaluate(eval_dataset)
    print('Eval loss: {}, Eval Accuracy: {}'.format(eval_loss, eval_acc))
