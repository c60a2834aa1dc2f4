"""Whole small models of common families, as they are frozen, at every level against TensorFlow.

Detection with its post-processing, segmentation, speech, transformers, decoding, mixtures of experts, graph networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_graphs import check, frozen, specs_of  # noqa: E402  (after the skip)

pytestmark = pytest.mark.tensorflow

raw, nn = tf.raw_ops, tf.nn
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def weight(*shape: int) -> np.ndarray:
    return (normal(*shape) / np.sqrt(max(1, np.prod(shape[:-1])))).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Model:
    """A function, what it is run on, and the axes of that whose sizes are open."""

    function: Callable[..., Any]
    arrays: Sequence[np.ndarray]
    free: Sequence[int] = ()
    lower: bool = False
    tolerance: float = 2e-5


MODELS: dict[str, Model] = {}


def model(*arrays: np.ndarray, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        MODELS[function.__name__] = Model(function, arrays, **options)
        return function

    return decorate


FIRST, SECOND, BOXES, LABELS = weight(3, 3, 3, 8), weight(3, 3, 8, 16), weight(3, 3, 16, 12), weight(3, 3, 16, 15)
ANCHORS = np.float32(RNG.uniform(0.1, 0.9, (192, 4)))
PIXELS = RNG.integers(0, 255, (2, 32, 32, 3)).astype(np.uint8)


def heads(x: Any) -> tuple[Any, Any]:
    """Boxes [n, 192, 4] and scores [n, 192, 5] of images [n, 32, 32, 3]."""
    y = nn.relu6(nn.conv2d(nn.relu6(nn.conv2d(x, FIRST, 2, "SAME")), SECOND, 2, "SAME"))
    boxes, labels = nn.conv2d(y, BOXES, 1, "SAME"), nn.conv2d(y, LABELS, 1, "SAME")
    return tf.reshape(boxes, [tf.shape(x)[0], -1, 4]), tf.reshape(labels, [tf.shape(x)[0], -1, 5])


@model(PIXELS, free=(0,))
def ssd(x: Any) -> Any:
    boxes, labels = heads((tf.cast(x, tf.float32) - 127.5) / 127.5)
    y, x, h, w = tf.unstack(boxes, axis=-1)
    half_h, half_w = tf.exp(h / 5) * ANCHORS[:, 2] / 2, tf.exp(w / 5) * ANCHORS[:, 3] / 2
    y, x = y / 10 * ANCHORS[:, 2] + ANCHORS[:, 0], x / 10 * ANCHORS[:, 3] + ANCHORS[:, 1]
    boxes = tf.stack([y - half_h, x - half_w, y + half_h, x + half_w], -1)[:, :, tf.newaxis]
    return list(tf.image.combined_non_max_suppression(boxes, tf.sigmoid(labels)[:, :, 1:], 10, 20, 0.5, 0.55))


@model(PIXELS, free=(0, 1, 2), tolerance=1e-4)
def ssd_image_by_image(x: Any) -> Any:
    size = tf.TensorSpec([32, 32, 3], tf.float32)
    resized = tf.map_fn(lambda i: tf.image.resize(i[tf.newaxis], [32, 32])[0], x, fn_output_signature=size)
    boxes, labels = heads(resized / 127.5 - 1)

    def chosen(one: Any) -> Any:
        corners, scores = one[0] + ANCHORS, tf.sigmoid(one[1])
        found = []
        for label in range(1, 5):
            picked, _, count = raw.NonMaxSuppressionV5(
                boxes=corners,
                scores=scores[:, label],
                max_output_size=10,
                iou_threshold=0.5,
                score_threshold=0.45,
                soft_nms_sigma=0.0,
                pad_to_max_output_size=True,
            )
            values = tf.where(tf.range(10) < count, tf.gather(scores[:, label], picked), -1.0)
            found.append((tf.gather(corners, picked), values, tf.fill([10], label)))
        places, values, names = (tf.concat(parts, 0) for parts in zip(*found, strict=True))
        best, at = tf.math.top_k(values, 12)
        return tf.gather(places, at), best, tf.gather(names, at)

    return tf.map_fn(chosen, (boxes, labels), fn_output_signature=(tf.float32, tf.float32, tf.int32))


@model(normal(1, 64, 64, 3), tolerance=1e-4)
def efficientdet(x: Any) -> Any:
    small = nn.swish(nn.conv2d(nn.swish(nn.conv2d(x, FIRST, 2, "SAME")), weight(3, 3, 8, 8), 2, "SAME"))
    levels = [small, nn.max_pool2d(small, 3, 2, "SAME")]

    def doubled(v: Any) -> Any:
        n = v.shape[1]
        return tf.reshape(tf.tile(tf.reshape(v, [1, n, 1, n, 1, 8]), [1, 1, 2, 1, 2, 1]), [1, 2 * n, 2 * n, 8])

    def fused(*values: Any) -> Any:
        shares = [nn.relu(tf.constant(np.float32(RNG.uniform()))) for _ in values]
        total = tf.add_n([v * s / (tf.add_n(shares) + 1e-4) for v, s in zip(values, shares, strict=True)])
        deep = nn.depthwise_conv2d(nn.swish(total), weight(3, 3, 8, 1), [1, 1, 1, 1], "SAME")
        return nn.conv2d(deep, weight(1, 1, 8, 8), 1, "SAME")

    top = fused(levels[0], doubled(levels[1]))
    levels = [top, fused(levels[1], nn.max_pool2d(top, 3, 2, "SAME"))]
    labels, boxes = weight(1, 1, 8, 36), weight(1, 1, 8, 36)
    scores = tf.concat([tf.reshape(nn.conv2d(v, labels, 1, "SAME"), [1, -1]) for v in levels], 1)
    corners = tf.concat([tf.reshape(nn.conv2d(v, boxes, 1, "SAME"), [1, -1, 4]) for v in levels], 1)
    best, at = tf.math.top_k(scores, 100)
    y, x, h, w = tf.unstack(tf.gather(corners, at // 4, batch_dims=1)[0], axis=-1)
    picked, lowered, count = raw.NonMaxSuppressionV5(
        boxes=tf.stack([y, x, y + tf.exp(h), x + tf.exp(w)], 1),
        scores=tf.sigmoid(best[0]),
        max_output_size=20,
        iou_threshold=0.5,
        score_threshold=0.1,
        soft_nms_sigma=0.25,
        pad_to_max_output_size=True,
    )
    return lowered, tf.gather(at[0] % 4, picked), count


@model(normal(2, 32, 32, 3), free=(0,))
def centernet(x: Any) -> Any:
    y = nn.relu(nn.conv2d(x, weight(7, 7, 3, 8), 4, "SAME"))
    y = nn.relu(nn.conv2d_transpose(y, weight(4, 4, 8, 8), [tf.shape(x)[0], 16, 16, 8], 2, "SAME"))
    heat = tf.sigmoid(nn.conv2d(y, weight(3, 3, 8, 4), 1, "SAME"))
    size = nn.conv2d(y, weight(3, 3, 8, 2), 1, "SAME")
    peaks = tf.where(tf.abs(heat - nn.max_pool2d(heat, 3, 1, "SAME")) < 1e-6, heat, 0.0)
    best, at = tf.math.top_k(tf.reshape(peaks, [tf.shape(x)[0], -1]), 10)
    rows, columns = at // 4 // 16, at // 4 % 16
    image = tf.tile(tf.range(tf.shape(x)[0])[:, tf.newaxis], [1, 10])
    half = tf.gather_nd(size, tf.stack([image, rows, columns], -1)) / 2
    centre = tf.cast(tf.stack([rows, columns], -1), tf.float32)
    return tf.clip_by_value(tf.concat([centre - half, centre + half], -1), 0.0, 16.0), best, at % 4


@model(normal(1, 33, 33, 3), free=(0, 1, 2), tolerance=1e-4)
def deeplab(x: Any) -> Any:
    y = nn.relu(nn.conv2d(x, FIRST, 2, "SAME"))
    parts = [nn.relu(nn.conv2d(y, weight(1, 1, 8, 8), 1, "SAME"))]
    parts += [nn.relu(nn.atrous_conv2d(y, weight(3, 3, 8, 8), rate, "SAME")) for rate in (2, 4)]
    parts.append(nn.depthwise_conv2d(y, weight(3, 3, 8, 1), [1] * 4, "SAME", dilations=[6, 6]))
    pooled = nn.relu(nn.conv2d(tf.reduce_mean(y, [1, 2], keepdims=True), weight(1, 1, 8, 8), 1, "SAME"))
    parts.append(raw.ResizeBilinear(images=pooled, size=tf.shape(y)[1:3], align_corners=True))
    z = nn.conv2d(tf.concat(parts, 3), weight(1, 1, 40, 5), 1, "SAME")
    z = raw.ResizeBilinear(images=z, size=tf.shape(x)[1:3], align_corners=True)
    return tf.argmax(z, 3, output_type=tf.int32), nn.softmax(z)


GATES, OFFSETS, WORDS = weight(12, 32), weight(32), weight(8, 11)
SPEECH = (normal(3, 7, 4), np.int32([7, 3, 5]))


@model(*SPEECH, free=(0, 1))
def speech(x: Any, lengths: Any) -> Any:
    """An LSTM over arrays of tensors, which stands still behind the end of each sequence."""
    batch, steps = tf.shape(x)[0], tf.shape(x)[1]
    frames = tf.TensorArray(tf.float32, steps).unstack(tf.transpose(x, [1, 0, 2]))
    made = tf.TensorArray(tf.float32, steps, element_shape=[None, 8])

    def step(t: Any, h: Any, c: Any, made: Any) -> Any:
        i, f, g, o = tf.split(tf.matmul(tf.concat([frames.read(t), h], 1), GATES) + OFFSETS, 4, 1)
        cell = tf.sigmoid(f + 1) * c + tf.sigmoid(i) * tf.tanh(g)
        state = tf.sigmoid(o) * tf.tanh(cell)
        going = (t < lengths)[:, tf.newaxis]
        cell, state = tf.where(going, cell, c), tf.where(going, state, h)
        return t + 1, state, cell, made.write(t, state)

    start = (tf.constant(0), tf.zeros([batch, 8]), tf.zeros([batch, 8]), made)
    _, h, _, made = tf.while_loop(lambda t, *_: t < steps, step, start)
    return nn.log_softmax(tf.einsum("tbd,dv->btv", made.stack(), WORDS)), h


MODELS["speech_lowered"] = Model(speech, SPEECH, (0, 1), lower=True)


@model(normal(2, 9, 6), free=(0, 1))
def greedy_transcription(x: Any) -> Any:
    best = tf.argmax(x, -1)
    before = tf.concat([tf.fill([tf.shape(best)[0], 1], tf.constant(-1, tf.int64)), best[:, :-1]], 1)
    keep = (best != before) & (best != 5)
    place = tf.cumsum(tf.cast(keep, tf.int32), axis=1, exclusive=True)
    at = tf.where(keep)
    to = tf.stack([tf.cast(at[:, 0], tf.int32), tf.gather_nd(place, at)], 1)
    return tf.scatter_nd(to, tf.gather_nd(best, at) + 1, tf.shape(best)) - 1


@model(normal(2, 5, 16), np.int32([[1, 1, 1, 0, 0], [1] * 5]), free=(0, 1))
def bert(x: Any, mask: Any) -> Any:
    batch, length = tf.shape(x)[0], tf.shape(x)[1]
    seen = tf.ones([batch, length, 1]) * tf.cast(tf.reshape(mask, [batch, 1, length]), tf.float32)
    flat, parts = tf.reshape(x, [-1, 16]), []
    for _ in range(3):
        part = tf.reshape(tf.matmul(flat, weight(16, 16)) + weight(16), [batch, length, 4, 4])
        parts.append(tf.transpose(part, [0, 2, 1, 3]))
    scores = tf.matmul(parts[0], parts[1], transpose_b=True) * 0.5 + (1.0 - seen[:, tf.newaxis]) * -10000.0
    mixed = tf.transpose(tf.matmul(nn.softmax(scores), parts[2]), [0, 2, 1, 3])
    y = flat + tf.matmul(tf.reshape(mixed, [batch * length, 16]), weight(16, 16))
    y = nn.batch_normalization(y, *nn.moments(y, -1, keepdims=True), weight(16), weight(16), 1e-12)
    h = tf.matmul(y, weight(16, 32))
    h = 0.5 * h * (1.0 + tf.tanh(np.float32(np.sqrt(2 / np.pi)) * (h + 0.044715 * tf.pow(h, 3))))
    y = tf.reshape(y + tf.matmul(h, weight(32, 16)), [batch, length, 16])
    return y, tf.squeeze(y[:, 0:1, :], 1)


@model(RNG.integers(0, 30, (2, 5)), free=(0, 1))
def relative_positions(words: Any) -> Any:
    x, length = tf.gather(weight(30, 16), words), tf.shape(words)[1]
    distance = tf.abs(tf.range(length)[tf.newaxis] - tf.range(length)[:, tf.newaxis])
    far = 4 + tf.cast(tf.math.log(tf.cast(distance, tf.float32) / 4 + 1e-6) / np.log(4.0) * 4, tf.int32)
    bias = tf.transpose(tf.gather(weight(8, 4), tf.where(distance < 4, distance, tf.minimum(far, 7))), [2, 0, 1])
    y = x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6)
    q, k, v = (tf.einsum("bsd,dhe->bhse", y, weight(16, 4, 4)) for _ in range(3))
    past = tf.where(tf.linalg.band_part(tf.ones([length, length]), -1, 0) > 0, 0.0, -1e9)
    scores = nn.softmax(tf.einsum("bhqe,bhke->bhqk", q, k) + bias + past)
    return tf.einsum("bhqk,bhke,hed->bqd", scores, v, weight(4, 4, 16)) + x


@model(RNG.integers(0, 12, (2, 4)).astype(np.int32))
def greedy_decoding(words: Any) -> Any:
    table, mixing = weight(12, 8), weight(8, 8)

    def step(i: Any, words: Any, done: Any) -> Any:
        state = tf.tanh(tf.matmul(tf.reduce_mean(tf.gather(table, words), 1), mixing))
        word = tf.argmax(tf.matmul(state, table, transpose_b=True), -1, output_type=tf.int32)
        word = tf.where(done, 0, word)
        return i + 1, tf.concat([words[:, 1:], word[:, tf.newaxis]], 1), done | (word == 3)

    start = (0, words, tf.zeros([2], tf.bool))
    return tf.while_loop(lambda i, _, done: (i < 6) & ~tf.reduce_all(done), step, start)[1:]


@model(normal(5, 6), np.int32([0, 2, 1, 0, 2]), free=(0,))
def mixture_of_experts(x: Any, expert: Any) -> Any:
    parts, places = tf.dynamic_partition(x, expert, 3), tf.dynamic_partition(tf.range(tf.shape(x)[0]), expert, 3)
    return tf.dynamic_stitch(places, [tf.matmul(part, weight(6, 6)) for part in parts])


@model(normal(6, 4), np.int32([[0, 1], [1, 2], [2, 0], [4, 1], [3, 3]]), free=(0,))
def graph_network(nodes: Any, edges: Any) -> Any:
    count = tf.shape(nodes)[0]
    sent = nn.relu(tf.matmul(tf.gather(nodes, edges[:, 0]), weight(4, 4)))
    mean = tf.math.unsorted_segment_mean(sent, edges[:, 1], count)
    most = tf.math.unsorted_segment_max(sent, edges[:, 1], count)
    return nodes + tf.matmul(tf.concat([mean, tf.maximum(most, -9.0)], 1), weight(8, 4))


@model(normal(2, 6, 4), RNG.integers(0, 6, (2, 3)).astype(np.int32))
def recommendation(x: Any, chosen: Any) -> Any:
    rows = tf.gather(x, chosen, batch_dims=1)
    pairs = tf.matmul(rows, rows, transpose_b=True)
    pairs = tf.linalg.set_diag(pairs, tf.zeros([2, 3]))
    return tf.boolean_mask(pairs, np.tril(np.ones((3, 3), bool), -1), axis=1), tf.linalg.diag_part(pairs)


@pytest.mark.parametrize("name", MODELS)
def test_pipeline(name: str, tmp_path: Path) -> None:
    each = MODELS[name]
    path = frozen(tmp_path / "model.pb", each.function, specs_of(each.arrays, each.free), lower=each.lower)
    feeds = {f"x{i}": x for i, x in enumerate(each.arrays)}
    check(path, feeds, levels=("off", "basic", "full"), rtol=each.tolerance, atol=each.tolerance)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("layer", ["GRU", "LSTM", "SimpleRNN"])
def test_masked_recurrent_layer_keeps_its_last_state(layer: str, lower: bool, tmp_path: Path) -> None:
    # Its list has one element, written anew in every step, and nothing says of what shape.
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(1)
    steps = [keras.layers.Masking(), keras.layers.LSTM(6, return_sequences=True), getattr(keras.layers, layer)(5)]
    network = keras.Sequential([keras.Input((None, 4)), *steps])
    x = normal(2, 6, 4)
    x[1, 3:] = 0
    path = frozen(tmp_path / "m.pb", lambda x: network(x, training=False), specs_of([x], (0, 1)), lower=lower)
    check(path, {"x0": x})
