# SPDX-License-Identifier: Apache-2.0
"""compile and fit on several workers: a network of two layers on MNIST's pictures. Every worker
runs this program, with TF_CONFIG, which lists the workers and says which one it is, or under
`ringfire run -n 2`. Alone it trains on the devices of one process."""
import argparse

import ringfire as rf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--devices", help="as RINGFIRE_DEVICES has them; all GPUs by default")
parser.add_argument("--data", help="directory with the four IDX files; Fashion-MNIST by default")
parser.add_argument("--limit", type=int, help="so many examples of each part only")
arguments = parser.parse_args()

# Specify which strategy to use based on the environment.
strategy = rf.distribute.MultiWorkerMirroredStrategy(devices=arguments.devices)
print('Number of devices: {}'.format(strategy.num_replicas_in_sync))

with strategy.scope():
    # Define a simple Keras model.
    model = rf.keras.Sequential([
        rf.keras.layers.Dense(128, activation='relu', input_shape=(784,)),
        rf.keras.layers.Dense(10, activation='softmax')
    ])

    optimizer = rf.keras.optimizers.Adam()
    loss_fn = rf.keras.losses.CategoricalCrossentropy()

model.compile(optimizer=optimizer, loss=loss_fn, metrics=['accuracy'])

# Sample dataset
(x_train, y_train), (x_test, y_test) = rf.keras.datasets.mnist.load_data(arguments.data)
x_train = x_train.reshape(60000, 784).astype("float32") / 255.0
y_train = rf.keras.utils.to_categorical(y_train, num_classes=10)

x_test = x_test.reshape(10000, 784).astype("float32") / 255.0
y_test = rf.keras.utils.to_categorical(y_test, num_classes=10)

limit = arguments.limit
dataset = rf.data.Dataset.from_tensor_slices((x_train[:limit], y_train[:limit])).batch(64)
dataset_test = rf.data.Dataset.from_tensor_slices((x_test[:limit], y_test[:limit])).batch(64)

model.fit(dataset, epochs=arguments.epochs, validation_data=dataset_test)
