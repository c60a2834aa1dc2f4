"""What the numbers of the file format stand for."""

import numpy as np
import tflite

DTYPES = {
    tflite.TensorType.FLOAT32: np.dtype(np.float32),
    tflite.TensorType.FLOAT16: np.dtype(np.float16),
    tflite.TensorType.FLOAT64: np.dtype(np.float64),
    tflite.TensorType.INT8: np.dtype(np.int8),
    tflite.TensorType.UINT8: np.dtype(np.uint8),
    tflite.TensorType.INT16: np.dtype(np.int16),
    tflite.TensorType.INT32: np.dtype(np.int32),
    tflite.TensorType.INT64: np.dtype(np.int64),
    tflite.TensorType.BOOL: np.dtype(np.bool_),
}
OPERATORS = {code: name for name, code in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
