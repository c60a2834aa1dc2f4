"""Small networks that most rules have something to do with: where fuse rules, which have no pattern, find their sites.

They are written as a framework's exporter would write them: normalisations and activations in pieces, weights constant.
"""

from __future__ import annotations

import functools

from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text
from autofusion.ir.verify import verify

_TEXTS = """
graph @residual(%x: f32[2, 4, 6, 5]) -> (y: f32[2, 4, 6, 5]) {
  %w1 = constant dense<sha256:00000001> : f32[4, 4, 3, 3]
  %b1 = constant dense<sha256:00000002> : f32[4]
  %s = constant dense<[1.5, 0.5, 1.0, 2.0]> : f32[4]
  %t = constant dense<sha256:00000003> : f32[4]
  %m = constant dense<sha256:00000004> : f32[4]
  %v = constant dense<[1.0, 0.5, 2.0, 1.5]> : f32[4]
  %w2 = constant dense<sha256:00000005> : f32[4, 4, 1, 1]
  %0 = Conv(%x, %w1, %b1) {pads = [1, 1, 1, 1]}
  %1 = BatchNormalization(%0, %s, %t, %m, %v)
  %2 = Relu(%1)
  %3 = Conv(%2, %w2)
  %4 = Add(%3, %x)
  %5 = Relu(%4)
  return %5
}
graph @swish_gate(%x: f32[1, 8, 5, 5]) -> (y: f32[1, 8, 5, 5]) {
  %w1 = constant dense<sha256:00000001> : f32[8, 1, 3, 3]
  %w2 = constant dense<sha256:00000002> : f32[4, 8, 1, 1]
  %w3 = constant dense<sha256:00000003> : f32[8, 4, 1, 1]
  %0 = Conv(%x, %w1) {group = 8, pads = [1, 1, 1, 1]}
  %1 = Sigmoid(%0)
  %2 = Mul(%0, %1)
  %3 = GlobalAveragePool(%2)
  %4 = Conv(%3, %w2)
  %5 = Relu(%4)
  %6 = Conv(%5, %w3)
  %7 = HardSigmoid(%6)
  %8 = Mul(%2, %7)
  return %8
}
graph @encoder(%x: f32[2, 5, 8], %mask: f32[2, 1, 1, 5]) -> (y: f32[2, 5, 8]) {
  %wq = constant dense<sha256:00000001> : f32[8, 8]
  %wk = constant dense<sha256:00000002> : f32[8, 8]
  %wv = constant dense<sha256:00000003> : f32[8, 8]
  %bq = constant dense<sha256:00000004> : f32[8]
  %heads = constant dense<[2, 5, 2, 4]> : i64[4]
  %flat = constant dense<[2, 5, 8]> : i64[3]
  %scale = constant dense<0.5> : f32[]
  %g = constant dense<sha256:00000005> : f32[8]
  %b = constant dense<sha256:00000006> : f32[8]
  %q0 = MatMul(%x, %wq)
  %q1 = Add(%q0, %bq)
  %q2 = Reshape(%q1, %heads)
  %q3 = Transpose(%q2) {perm = [0, 2, 1, 3]}
  %k0 = MatMul(%x, %wk)
  %k1 = Reshape(%k0, %heads)
  %k2 = Transpose(%k1) {perm = [0, 2, 3, 1]}
  %v0 = MatMul(%x, %wv)
  %v1 = Reshape(%v0, %heads)
  %v2 = Transpose(%v1) {perm = [0, 2, 1, 3]}
  %s0 = MatMul(%q3, %k2)
  %s1 = Mul(%s0, %scale)
  %s2 = Add(%s1, %mask)
  %s3 = Softmax(%s2) {axis = -1}
  %a0 = MatMul(%s3, %v2)
  %a1 = Transpose(%a0) {perm = [0, 2, 1, 3]}
  %a2 = Reshape(%a1, %flat)
  %r = Add(%a2, %x)
  %y = LayerNormalization(%r, %g, %b) {axis = -1}
  return %y
}
graph @perceptron(%x: f32[3, 6]) -> (y: f32[3, 4]) {
  %w1 = constant dense<sha256:00000001> : f32[6, 7]
  %b1 = constant dense<sha256:00000002> : f32[7]
  %w2 = constant dense<sha256:00000003> : f32[4, 7]
  %b2 = constant dense<sha256:00000004> : f32[4]
  %0 = MatMul(%x, %w1)
  %1 = Add(%0, %b1)
  %2 = Gelu(%1)
  %3 = Gemm(%2, %w2, %b2) {transB = 1}
  %4 = Softmax(%3) {axis = -1}
  return %4
}
graph @layer_norm(%x: f32[2, 5, 8]) -> (y: f32[2, 5, 8]) {
  %axes = constant dense<[-1]> : i64[1]
  %two = constant dense<2.0> : f32[]
  %eps = constant dense<1e-5> : f32[]
  %g = constant dense<sha256:00000001> : f32[8]
  %b = constant dense<sha256:00000002> : f32[8]
  %0 = ReduceMean(%x, %axes) {keepdims = 1}
  %1 = Sub(%x, %0)
  %2 = Pow(%1, %two)
  %3 = ReduceMean(%2, %axes) {keepdims = 1}
  %4 = Add(%3, %eps)
  %5 = Sqrt(%4)
  %6 = Div(%1, %5)
  %7 = Mul(%6, %g)
  %8 = Add(%7, %b)
  return %8
}
graph @rms_norm(%x: f32[2, 5, 8]) -> (y: f32[2, 5, 8]) {
  %axes = constant dense<[-1]> : i64[1]
  %two = constant dense<2.0> : f32[]
  %eps = constant dense<1e-6> : f32[]
  %g = constant dense<sha256:00000001> : f32[8]
  %0 = Pow(%x, %two)
  %1 = ReduceMean(%0, %axes) {keepdims = 1}
  %2 = Add(%1, %eps)
  %3 = Sqrt(%2)
  %4 = Div(%x, %3)
  %5 = Mul(%4, %g)
  return %5
}
graph @softmax(%x: f32[2, 3, 7]) -> (y: f32[2, 3, 7], z: f32[2, 3, 7]) {
  %axes = constant dense<[-1]> : i64[1]
  %0 = ReduceMax(%x, %axes) {keepdims = 1}
  %1 = Sub(%x, %0)
  %2 = Exp(%1)
  %3 = ReduceSum(%2, %axes) {keepdims = 1}
  %4 = Div(%2, %3)
  %5 = Softmax(%x) {axis = -1}
  %6 = Log(%5)
  return %4, %6
}
graph @channels_last(%x: f32[1, 6, 5, 3]) -> (y: f32[1, 6, 5, 4]) {
  %w = constant dense<sha256:00000001> : f32[4, 3, 3, 3]
  %b = constant dense<sha256:00000002> : f32[4]
  %0 = Transpose(%x) {perm = [0, 3, 1, 2]}
  %1 = Conv(%0, %w) {pads = [1, 1, 1, 1]}
  %2 = Transpose(%1) {perm = [0, 2, 3, 1]}
  %3 = Add(%2, %b)
  %4 = Relu(%3)
  %5 = Transpose(%4) {perm = [0, 3, 1, 2]}
  %6 = Sigmoid(%5)
  %7 = Transpose(%6) {perm = [0, 2, 3, 1]}
  return %7
}
graph @padded(%x: f32[1, 3, 6, 6]) -> (y: f32[1, 4, 6, 6], z: f32[1, 3, 3, 3]) {
  %p = constant dense<[0, 0, 1, 1, 0, 0, 1, 1]> : i64[8]
  %w = constant dense<sha256:00000001> : f32[4, 3, 3, 3]
  %0 = Pad(%x, %p)
  %1 = Conv(%0, %w)
  %2 = AveragePool(%x) {kernel_shape = [2, 2], strides = [2, 2]}
  return %1, %2
}
graph @arithmetic(%x: f32[3, 4, 5], %y: f32[3, 4, 5], %z: f32[5]) -> (a: f32[3, 4, 5], b: f32[3, 4, 1]) {
  %half = constant dense<0.5> : f32[]
  %axes = constant dense<[2]> : i64[1]
  %0 = Mul(%x, %half)
  %1 = Add(%0, %z)
  %2 = Tanh(%1)
  %3 = Sub(%2, %y)
  %4 = Abs(%3)
  %5 = Mul(%3, %3)
  %6 = ReduceSum(%5, %axes) {keepdims = 1}
  %7 = Sqrt(%6)
  return %4, %7
}
graph @upsampling(%x: f32[1, 4, 3, 3]) -> (y: f32[1, 4, 6, 6]) {
  %w = constant dense<sha256:00000001> : f32[4, 4, 2, 2]
  %b = constant dense<sha256:00000002> : f32[4]
  %0 = ConvTranspose(%x, %w, %b) {strides = [2, 2]}
  %1 = LeakyRelu(%0)
  return %1
}
graph @quantised(%x: f32[2, 3, 4]) -> (y: f32[2, 3, 4]) {
  %s = constant dense<0.05> : f32[]
  %z = constant dense<7> : u8[]
  %s2 = constant dense<0.02> : f32[]
  %z2 = constant dense<3> : u8[]
  %0 = QuantizeLinear(%x, %s, %z)
  %1 = DequantizeLinear(%0, %s, %z)
  %2 = HardSwish(%1)
  %3 = QuantizeLinear(%2, %s2, %z2)
  %4 = DequantizeLinear(%3, %s2, %z2)
  return %4
}
graph @dynamic_quantisation(%x: f32[2, 3, 8]) -> (y: f32[2, 3, 5], z: u8[2, 3, 5]) {
  %w = constant dense<sha256:00000001> : i8[8, 5]
  %wz = constant dense<0> : i8[]
  %ws = constant dense<0.02> : f32[]
  %b = constant dense<sha256:00000002> : f32[5]
  %u = constant dense<sha256:00000003> : u8[5, 5]
  %uz = constant dense<128> : u8[]
  %s = constant dense<0.01> : f32[]
  %one = constant dense<1.0> : f32[]
  %0, %1, %2 = DynamicQuantizeLinear(%x)
  %3 = MatMulInteger(%0, %w, %2, %wz)
  %4 = Cast(%3) {to = f32}
  %5 = Mul(%1, %ws)
  %6 = Mul(%4, %5)
  %7 = Add(%6, %b)
  %8 = Relu(%7)
  %9, %10, %11 = DynamicQuantizeLinear(%8)
  %12 = MatMulInteger(%9, %u, %11, %uz)
  %13 = Cast(%12) {to = f32}
  %14 = Mul(%13, %s)
  %15 = QuantizeLinear(%14, %one, %uz)
  return %8, %15
}
"""


@functools.cache
def _parsed() -> tuple[Graph, ...]:
    found = []
    for text in _TEXTS.strip().split("\ngraph @"):
        graph = from_text("graph @" + text.removeprefix("graph @"), SeededConstants())
        infer_graph(graph)
        verify(graph)
        for node in graph.nodes:
            node.origin = (f"{graph.name}/{node.name}",)
        found.append(graph)
    return tuple(found)


def corpus() -> list[Graph]:
    """The networks; copies, to do with as a test likes."""
    return [graph.copy() for graph in _parsed()]
