"""What makes a tiny model fast on a GPU: kernels, one recorded step, and many runs as one piece of work.

Importing it hands the kernels and the recorded step over to :mod:`rlnotes.lm`, which knows nothing of this room: from
then on a model on a GPU is read by these kernels, and ``TrainConfig(cuda_graph=True)`` has somebody who records.
"""

from rlnotes.gpu.operations import GPUOperations
from rlnotes.lm.operations import use

use(GPUOperations())
