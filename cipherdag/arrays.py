"""Types of numpy arrays by what they hold; a docstring gives the shape.

A name says vector, matrix or array for the reader: the type checker sees the element type alone.
"""

import numpy as np
from numpy.typing import NDArray

FloatVector = NDArray[np.float64]
FloatMatrix = NDArray[np.float64]
FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]
IntegerVector = NDArray[np.int64]
IntegerMatrix = NDArray[np.int64]
BoolVector = NDArray[np.bool_]
BoolMatrix = NDArray[np.bool_]
PositionRows = NDArray[np.uint16]  # positions of variables, a row per test or set
WordVector = NDArray[np.uint64]
WordMatrix = NDArray[np.uint64]
