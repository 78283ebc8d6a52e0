"""Keras with the torch backend: fit with a validation split"""
NEEDS = ["keras"]
EXPECT = {"steps": 2 * 5, "phases": {"train": 10, "validation": 2 * 2}}
WHY = "Keras tries the model on meta tensors first: nothing is computed, and the counter counts it"

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(2)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x = numpy.random.default_rng(0).standard_normal((112, 20), dtype=numpy.float32)
model.fit(x, (x[:, 0] > 0).astype("int64"), batch_size=16, epochs=2, validation_split=0.285, verbose=0)
