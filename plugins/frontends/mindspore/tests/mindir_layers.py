"""Layers of mindspore.nn, and two whole networks of them: an OCR recogniser and an encoder of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from plugins.frontends.mindspore.tests.mindir_nets import Each, cell, floats, ints, net

cell(
    "convolutions",
    lambda: Each(
        nn.Conv2d(4, 6, 3, has_bias=True),
        nn.Conv2d(4, 6, 3, 2),
        nn.Conv2d(4, 6, (3, 5), (2, 1), "valid"),
        nn.Conv2d(4, 6, 3, 1, "pad", (0, 1, 2, 3), has_bias=True),
        nn.Conv2d(4, 8, 3, 1, "same", group=4),
        nn.Conv2d(4, 8, 3, 1, "pad", 2, 2, 2),
        nn.Conv2d(4, 6, 4, 3, "same", has_bias=True),
        nn.Conv2d(4, 6, 1),
    ),
    floats(2, 4, 9, 8),
)
cell(
    "transposed_convolutions",
    lambda: Each(
        nn.Conv2dTranspose(4, 6, 3, 2, "same", has_bias=True),
        nn.Conv2dTranspose(4, 6, 3, 2, "valid"),
        nn.Conv2dTranspose(4, 6, 4, 2, "pad", 1),
        nn.Conv2dTranspose(4, 4, 2, 2, "pad", 0, group=2),
        nn.Conv2dTranspose(4, 6, 3, 2, "pad", 1, output_padding=1),
    ),
    floats(2, 4, 5, 6),
)
cell(
    "convolutions_1d",
    lambda: Each(
        nn.Conv1d(4, 6, 3, has_bias=True),
        nn.Conv1d(4, 6, 5, 2, "pad", 2),
        nn.Conv1dTranspose(4, 6, 3, 2, "valid"),
        nn.MaxPool1d(3, 2),
        nn.AvgPool1d(2, 2),
    ),
    floats(2, 4, 11),
)
cell(
    "convolutions_3d",
    lambda: Each(
        nn.Conv3d(3, 4, 3, has_bias=True),
        nn.Conv3d(3, 4, (1, 3, 3), 2, "pad", (0, 0, 1, 2, 0, 1)),
        nn.MaxPool3d(2, 2),
        nn.AvgPool3d(2, 2),
    ),
    floats(1, 3, 5, 6, 7),
)
cell(
    "poolings",
    lambda: Each(
        nn.MaxPool2d(3, 2),
        nn.MaxPool2d(3, 2, "same"),
        nn.MaxPool2d(3, 2, "pad", 1),
        nn.MaxPool2d((2, 3), (1, 2), "pad", (1, 1), ceil_mode=True),
        nn.AvgPool2d(3, 2),
        nn.AvgPool2d(3, 2, "same"),
        nn.AvgPool2d(3, 2, "pad", 1),
        nn.AvgPool2d(3, 2, "pad", 1, count_include_pad=False),
        nn.AvgPool2d(3, 2, "pad", 1, ceil_mode=True),
        nn.AdaptiveAvgPool2d(1),
        nn.AdaptiveAvgPool2d((3, 2)),
        nn.AdaptiveAvgPool2d((None, 4)),
        nn.AdaptiveMaxPool2d((3, 4)),
        nn.MaxPool2d(2, 2, "pad", 0, 2, return_indices=True),
        nn.AvgPool2d(3, 2, "pad", 1, divisor_override=5),
    ),
    floats(2, 3, 9, 8),
)
cell(
    "normalisations",
    lambda: Each(
        nn.BatchNorm2d(6, eps=1e-3),
        nn.BatchNorm2d(6, affine=False),
        nn.GroupNorm(3, 6),
        nn.LayerNorm((5, 4), 2, 2),
        nn.LayerNorm((4,), epsilon=1e-5),
        nn.LayerNorm((6, 5, 4), 1, 1),
    ),
    floats(2, 6, 5, 4),
)
cell(
    "batch_norm_1d",
    lambda: nn.SequentialCell(nn.Dense(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dense(6, 3, has_bias=False)),
    floats(5, 4),
)
cell("batch_norm_3d", lambda: nn.SequentialCell(nn.Conv3d(3, 4, 3), nn.BatchNorm3d(4)), floats(1, 3, 4, 5, 6))
cell(
    "dense_3d",
    lambda: Each(nn.Dense(4, 6, activation="relu"), nn.Dense(4, 2), nn.Dropout(p=0.5), nn.Flatten(), nn.Identity()),
    floats(2, 3, 4),
)
cell("training_batch_norm", lambda: nn.BatchNorm2d(6, use_batch_statistics=True), floats(4, 6, 5, 4))


def places(x):
    return ops.DepthToSpace(2)(x), ops.SpaceToDepth(2)(x)


net(places, floats(1, 4, 4, 6))
cell(
    "windows",
    lambda: Each(nn.PixelShuffle(2), nn.Upsample(size=(9, 5), mode="bilinear")),
    floats(1, 4, 4, 6),
)


class Embedding(nn.Cell):
    """Tables."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.hot = nn.Embedding(10, 4, use_one_hot=True)

    def construct(self, ids):
        return self.table(ids), self.hot(ids)


cell("embedding", Embedding, ints(2, 5, low=0, high=10))


class Recurrent(nn.Cell):
    """One kind of recurrent layer, from a zero state."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def construct(self, x):
        y, state = self.layer(x)
        return y, state


cell("lstm", lambda: Recurrent(nn.LSTM(5, 4, 1)), floats(6, 2, 5))
cell("lstm_deep", lambda: Recurrent(nn.LSTM(5, 4, 2, bidirectional=True, batch_first=True)), floats(2, 6, 5))
cell("lstm_no_bias", lambda: Recurrent(nn.LSTM(5, 4, 1, has_bias=False)), floats(6, 2, 5))
cell("gru", lambda: Recurrent(nn.GRU(5, 4, 1, bidirectional=True)), floats(6, 2, 5))
cell("rnn", lambda: Recurrent(nn.RNN(5, 4, 1)), floats(6, 2, 5))


class Crnn(nn.Cell):
    """An OCR recogniser: convolutions, two bidirectional LSTMs over the columns, and a dense layer for each."""

    def __init__(self, classes: int = 37, hidden: int = 32) -> None:
        super().__init__()

        def block(inputs: int, outputs: int, pool: Any) -> list[Any]:
            layers = [nn.Conv2d(inputs, outputs, 3, has_bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            return layers if pool is None else [*layers, nn.MaxPool2d(pool, pool)]

        self.features = nn.SequentialCell(
            *block(1, 16, 2),
            *block(16, 32, 2),
            *block(32, 48, None),
            *block(48, 48, (2, 1)),
            *block(48, 64, (2, 1)),
            nn.Conv2d(64, 64, 2, 1, "valid"),
            nn.BatchNorm2d(64),
            nn.ReLU(),
        )
        self.first = nn.LSTM(64, hidden, bidirectional=True)
        self.second = nn.LSTM(2 * hidden, hidden, bidirectional=True)
        self.head = nn.Dense(2 * hidden, classes)

    def construct(self, image):
        columns = ops.transpose(ops.squeeze(self.features(image), 2), (2, 0, 1))
        hidden, _ = self.first(columns)
        hidden, _ = self.second(hidden)
        return ops.log_softmax(self.head(hidden), -1)


cell("crnn", Crnn, floats(1, 1, 32, 100))


class Attention(nn.Cell):
    """Multi-head self-attention with a mask."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Dense(width, width) for _ in range(4))

    def split(self, x):
        return ops.transpose(ops.reshape(x, (x.shape[0], x.shape[1], self.heads, self.size)), (0, 2, 1, 3))

    def construct(self, x, mask):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) / (self.size**0.5) + mask
        mixed = ops.matmul(ops.softmax(scores, -1), value)
        return self.out(ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), x.shape))


class Layer(nn.Cell):
    """One layer of an encoder, with the normalisation after the sum."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm((width,), epsilon=1e-12), nn.LayerNorm((width,), epsilon=1e-12)
        self.up, self.act, self.down = (
            nn.Dense(width, 4 * width),
            nn.GELU(approximate=False),
            nn.Dense(4 * width, width),
        )
        self.dropout = nn.Dropout(p=0.1)

    def construct(self, x, mask):
        x = self.first(x + self.dropout(self.attention(x, mask)))
        return self.second(x + self.dropout(self.down(self.act(self.up(x)))))


class Bert(nn.Cell):
    """An encoder of texts: three embeddings, layers, and a pooled first token."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(200, width), nn.Embedding(2, width)
        self.places = Parameter(Tensor(floats(1, 64, width) * 0.02), name="places")
        self.norm = nn.LayerNorm((width,), epsilon=1e-12)
        self.layers = nn.CellList([Layer(width, heads) for _ in range(depth)])
        self.pool, self.tanh = nn.Dense(width, width), nn.Tanh()

    def construct(self, ids, kinds, mask):
        x = self.norm(self.words(ids) + self.kinds(kinds) + self.places[:, : ids.shape[1]])
        bias = (1.0 - ops.cast(ops.expand_dims(ops.expand_dims(mask, 1), 1), x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x, self.tanh(self.pool(x[:, 0]))


_MASK = np.ones((2, 16), np.int32)
_MASK[1, 11:] = 0
cell("bert", Bert, ints(2, 16, low=0, high=200), ints(2, 16, low=0, high=2), _MASK)


class Lengths(nn.Cell):
    """A bidirectional LSTM over sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(5, 4, 1, bidirectional=True)

    def construct(self, x, lengths):
        y, _ = self.layer(x, None, lengths)
        return y


cell("lstm_lengths", Lengths, floats(6, 2, 5), np.array([6, 3], np.int32))


class Cells(nn.Cell):
    """Single steps of recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(5, 4), nn.GRUCell(5, 4)

    def construct(self, x, h):
        return self.lstm(x, (h, h)), self.gru(x, h)


cell("recurrent_cells", Cells, floats(2, 5), floats(2, 4))


class SelfAttention(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)

    def construct(self, x):
        return self.attention(x, x, x), self.encoder(x)


cell("attention", SelfAttention, floats(2, 6, 8))


class Standardised(nn.Cell):
    """A convolution whose weights are computed in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(floats(4, 3, 3, 3)), name="weight")

    def construct(self, x):
        w = self.weight
        w = (w - ops.mean(w, (1, 2, 3), True)) / (w.std((1, 2, 3), keepdims=True) + 1e-5)
        return ops.conv2d(x, w, None, 1, "pad", 1)


cell("standardised_weights", Standardised, floats(1, 3, 8, 8))


class Detector(nn.Cell):
    """A detector in the manner of YOLO: pyramid pooling, upsampling, a head for each of two sizes, boxes on grids."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()

        def block(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> Any:
            convolution = nn.Conv2d(inputs, outputs, kernel, stride, "pad", kernel // 2, has_bias=False)
            return nn.SequentialCell(convolution, nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.97), nn.SiLU())

        self.stem, self.down = block(3, 8, 3, 2), block(8, 16, 3, 2)
        self.deep, self.squeeze, self.join = block(16, 32, 3, 2), block(32, 16, 1), block(64, 32, 1)
        self.pool = nn.MaxPool2d(5, 1, "same")
        self.lateral, self.merged = block(32, 16, 1), block(32, 16)
        self.heads = nn.CellList(
            [nn.Conv2d(16, classes + 5, 1, has_bias=True), nn.Conv2d(32, classes + 5, 1, has_bias=True)]
        )
        self.strides = (4, 8)

    def construct(self, image):
        fine = self.down(self.stem(image))
        deep = self.squeeze(self.deep(fine))
        one = self.pool(deep)
        two = self.pool(one)
        coarse = self.join(ops.concat((deep, one, two, self.pool(two)), 1))
        up = ops.interpolate(self.lateral(coarse), size=(fine.shape[2], fine.shape[3]), mode="nearest")
        fine = self.merged(ops.concat((fine, up), 1))
        results = ()
        for i, features in enumerate((fine, coarse)):
            y = ops.sigmoid(self.heads[i](features))
            batch, channels, rows, columns = y.shape
            y = ops.transpose(ops.reshape(y, (batch, channels, rows * columns)), (0, 2, 1))
            down, along = ops.meshgrid(ops.arange(rows), ops.arange(columns), indexing="ij")
            grid = ops.reshape(ops.stack((along, down), 2), (1, -1, 2)).astype(y.dtype)
            centre = (y[..., :2] * 2.0 - 0.5 + grid) * self.strides[i]
            size = (y[..., 2:4] * 2.0) ** 2 * self.strides[i]
            results += (ops.concat((centre - size / 2, centre + size / 2, y[..., 4:]), -1),)
        return ops.concat(results, 1)


cell("detector", Detector, floats(1, 3, 64, 96))


class Segmenter(nn.Cell):
    """A detector of text in the manner of DBNet: a feature pyramid, and maps by transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.CellList(
            [
                nn.SequentialCell(nn.Conv2d(i, o, 3, 2, has_bias=False), nn.BatchNorm2d(o), nn.ReLU())
                for i, o in ((3, 8), (8, 16), (16, 32))
            ]
        )
        self.sides = nn.CellList([nn.Conv2d(i, 8, 1) for i in (8, 16, 32)])
        self.smooth = nn.CellList([nn.Conv2d(8, 4, 3) for _ in range(3)])
        self.head = nn.SequentialCell(
            nn.Conv2d(12, 8, 3, pad_mode="pad", padding=1, has_bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2dTranspose(8, 8, 2, 2, "valid", has_bias=True), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2dTranspose(8, 1, 2, 2, "valid", has_bias=True), nn.Sigmoid(),
        )  # fmt: skip

    def construct(self, image):
        features = []
        x = image
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        sides = []
        for i in range(3):
            sides.append(self.sides[i](features[i]))
        second = sides[1] + ops.ResizeNearestNeighbor((16, 24))(sides[2])
        first = sides[0] + ops.ResizeNearestNeighbor((32, 48))(second)
        parts = [self.smooth[0](first), self.smooth[1](second), self.smooth[2](sides[2])]
        for i in range(3):
            parts[i] = ops.ResizeNearestNeighbor((32, 48))(parts[i])
        return self.head(ops.concat(parts, 1))


cell("segmenter", Segmenter, floats(1, 3, 64, 96))
