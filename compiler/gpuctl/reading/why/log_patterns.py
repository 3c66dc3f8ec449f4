"""Patterns of errors in logs, in the words of the libraries that raise them.

Those of GPUs, shared memory and NCCL match anywhere in a line. Those of program errors match at its beginning, after
the prefixes of loggers and launchers: a line that only mentions an error, such as a warning, does not match.
"""

from __future__ import annotations

import re

# PyTorch (c10/cuda/CUDACachingAllocator.cpp and its ports to other vendors), CUDA, TensorFlow, JAX, vLLM.
GPU_MEMORY = re.compile(
    r"(?:CUDA|HIP|NPU|MUSA|XPU) out of memory|torch(?:\.cuda)?\.OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CUDA error: out of memory|cudaErrorMemoryAllocation|cuda runtime error \(2\)"
    r"|RESOURCE_EXHAUSTED: Out of memory|No available memory for the cache blocks|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED"
    r"|ResourceExhaustedError\b.*\bOOM when allocating|OOM when allocating tensor|hipErrorOutOfMemory",
    re.IGNORECASE,
)
# nvidia-smi and the kernel (NVRM: Xid (PCI:0000:3b:00): 79), CUDA (cudaErrorECCUncorrectable), PyTorch.
GPU_HARDWARE = re.compile(
    r"NVRM: Xid|\bXid (?:error )?(?:\(PCI|\d)|uncorrectable (?:NVLink|ECC) error|CUDA_ERROR_ECC_UNCORRECTABLE"
    r"|cudaErrorECCUncorrectable|CUDA error: .*\bECC\b|GPU has fallen off the bus|GPU is lost",
    re.IGNORECASE,
)
# CUDA, PyTorch (torch/cuda/__init__.py), TensorFlow, nvidia-container-toolkit.
GPU_DRIVER = re.compile(
    r"CUDA driver version is insufficient|no CUDA-capable device|nvidia-container-cli: initialization error"
    r"|CUDA_ERROR_NO_DEVICE|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|CUDA_ERROR_COMPAT_NOT_SUPPORTED|cudaErrorInsufficientDriver"
    r"|Driver/library version mismatch|Found no NVIDIA driver|NVIDIA driver on your system is too old"
    r"|unsupported display driver|PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion",
    re.IGNORECASE,
)
# Exceptions of PyTorch, vLLM, TensorFlow and JAX on a machine without a GPU. Their warnings do not match.
NO_GPU = re.compile(
    r"(?:[a-z_]\w*\.)*\w*(?:error|exception): .*?(?:No (?:CUDA|HIP|NPU|XPU) GPUs are available"
    r"|(?:is_available|cuda)\(\) is False|Failed to infer device type|no supported devices found for platform CUDA"
    r"|Unable to initialize backend '(?:cuda|gpu|rocm)'|No (?:supported )?GPU (?:was |is )?(?:found|available))",
    re.IGNORECASE,
)
# NCCL's result codes (nccl.h) and PyTorch's watchdog (ProcessGroupNCCL.cpp).
NCCL = re.compile(
    r"NCCL error|unhandled system error|unhandled cuda error|NCCL watchdog|Watchdog caught collective operation timeout"
    r"|\bnccl(?:System|Remote|Internal|UnhandledCuda)Error\b",
    re.IGNORECASE,
)
# SIGBUS as glibc and shells print it, PyTorch (torch/utils/data/_utils/signal_handling.py), NCCL.
SHARED_MEMORY = re.compile(
    r"\bbus error\b|SIGBUS|insufficient shared memory|out of shared memory|Error while creating shared memory segment"
    r"|unable to (?:open|mmap|write to|resize)[^<]*</torch_"
    r"|/dev/shm.*no space left|no space left on device.*(?:/dev/shm|torch_)",
    re.IGNORECASE,
)
# Messages of launchers and other ranks after a worker died: not the cause.
AFTERMATH = re.compile(
    r"ChildFailedError|CalledProcessError|Process(?:Raised|Exited)Exception|RayTaskError|Dist(?:Backend|Network)Error"
    r"|DataLoader worker \(pid|torch\.distributed\.elastic|BrokenPipeError|ConnectionResetError|BrokenProcessPool"
    r"|See root cause above|Engine (?:core|process) (?:initialization )?failed|EngineDeadError|WorkerProc init"
)

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>])")
_HEADS = (
    r"\[?(?:rank|default)\s?\d+\]?:?",  # torchrun
    r"\d+:(?= )",  # srun, mpirun
    r"\([^()]*pid=\d+[^()]*\)",  # Ray, vLLM
    r"\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?",
    r"\d\d-\d\d \d\d:\d\d:\d\d",
    r"\d\d:\d\d:\d\d\S*",
    r"[EF]\d{4} [\d:.]+\s+\d+ \S+?:\d+\]",  # glog, absl
    r"\[?(?:ERROR|CRITICAL|FATAL)\b\]?",
    r"what\(\):",  # C++
    r"\[\d[^\]]*\]|\[[\w./-]+:\d+\]",
    r"[\w./-]+\.(?:py|cc|cpp|cu|rs):\d+\]?",
    r"[|:>-]",
)
_HEAD = re.compile(rf"(?:{'|'.join(_HEADS)})\s*", re.IGNORECASE)
_EXCEPTION = r"(?:[a-z_]\w*\.)*\w*(?:error|exception|failure|timeout)\b\s?"
_ERRNO = r"\[Errno \d+\] "
_TOOLS = r"\w*sh|cp|mv|mkdir|touch|tee|cat|rm|ln|tar|rsync|ch(?:mod|own)|dd|unzip|git|python[\d.]*|\S+\.sh"
_TOOL = rf"(?:/\S*/)?(?:{_TOOLS}): "
_PYTHON = r"(?:/\S*/)?python[\d.]*: "

# Cause -> messages of exceptions, system calls and tools, and beginnings of lines in other forms.
_SAID: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # vLLM (v1/core/kv_cache_utils.py), SGLang (model_executor), text-generation-inference.
    "kv-cache-too-small": (
        (
            r"the model's max seq len .*larger than the maximum number of tokens",
            r"max seq len .*KV cache is needed, which is larger than the available KV cache",
            r"not enough memory\. please try to increase --mem-fraction-static",
            r"not enough memory to handle \d+ prefill tokens",
        ),
        (),
    ),
    # CUDA and HIP through PyTorch, Triton's compiler, flash-attn, vLLM's checks.
    "gpu-unsupported": (
        (
            r"no kernel image is available",
            r"CUDA_ERROR_NO_BINARY_FOR_GPU|cudaErrorNoKernelImageForDevice|hipErrorNoBinaryForGpu",
            r"invalid device function",
            r"FlashAttention only supports",
            r"is only supported on GPUs with compute capability",
        ),
        (r"ptxas fatal\s*: Value 'sm_",),
    ),
    # Python, Rust (safetensors), TensorFlow, shells; PyTorch's archives, which hide why a write failed.
    "disk-full": (
        (
            r"No space left on device",
            r"Disk quota exceeded",
            r"\[enforce fail at inline_container\.cc.*(?:file write failed|unexpected pos \d+ vs \d+)",
        ),
        (),
    ),
    # Python's sockets, PyTorch's TCPStore, gRPC; gunicorn, TensorBoard, Jupyter.
    "address-in-use": (
        (r"address already in use", r"\bEADDRINUSE\b", r"address .* is already in use"),
        (
            r"connection in use: ",
            r"TensorBoard could not bind to port \d+",
            r"(?:the )?\w+ server could not be started because port \d+",
        ),
    ),
    # torch.distributed (TCPStore, rendezvous, store based barrier), the coordination service of JAX and TensorFlow.
    "rendezvous-failed": (
        (
            r"client socket has (?:timed out|failed to connect)",
            r"timed out after \d+ seconds waiting for clients",
            r"timed out initializing process group",
            r"IPv[46] network addresses of .* cannot be retrieved",
            r"(?:DEADLINE_EXCEEDED|UNAVAILABLE): .*(?:coordination service|distributed JAX|RegisterTask|barrier)",
            r"failed to connect to (?:distributed JAX controller|coordination service)",
        ),
        (r"(?:[a-z_]\w*\.)*Rendezvous(?:Connection|Timeout|Closed|State)Error\b",),
    ),
    # transformers, huggingface_hub, datasets, ModelScope; requests and urllib3; curl, wget.
    "hub-unreachable": (
        (
            r"we couldn't connect to",
            r"(?:could not|couldn't|cannot|failed to) (?:connect to|reach) .*(?:the hub|https?://)",
            r"HTTPS?ConnectionPool\(host=",
            r"trying to locate the files? on the hub",
            r"(?:could not resolve host|unable to resolve host|failed to connect to \S+ port)",
        ),
        (
            r"(?:[a-z_]\w*\.)*(?:OfflineModeIsEnabled|LocalEntryNotFoundError)\b",
            r"curl: \((?:6|7|28|35)\) ",
            r"wget: unable to resolve host",
        ),
    ),
    # Python, Rust, TensorFlow, shells.
    "permission-denied": ((r"Permission denied\b(?! \(publickey)", r"Read-only file system"), ()),
    # Python's imports and launcher, the dynamic loader.
    "module-missing": (
        (r"cannot open shared object file",),
        (
            r"(?:ModuleNotFoundError|ImportError): No module named ",
            rf"{_PYTHON}No module named ",
            rf"{_PYTHON}Error while finding module specification",
        ),
    ),
    # Python's launcher, open(), transformers for a missing model path, shells.
    "file-missing": (
        (r"No such file or directory", r"Repo id must be in the form .*: '/", r"Incorrect path_or_model_id: '/"),
        (rf"{_PYTHON}can't open file",),
    ),
}
_COMPILED = [
    (
        cause,
        re.compile(
            "|".join(
                [rf"(?:{_EXCEPTION}[:(\[]|{_ERRNO}|{_TOOL})(?:.*?)(?:{'|'.join(said)})", *begins],
            ),
            re.IGNORECASE,
        ),
    )
    for cause, (said, begins) in _SAID.items()
]
PROGRAM_CAUSES = frozenset(_SAID)
_LONGEST = 2000


def without_colours(line: str) -> str:
    """Return a line without ANSI colour sequences."""
    return _ANSI.sub("", line)


def message_of(line: str) -> str:
    """Return a line without the prefixes of loggers and launchers."""
    text = line.strip()[:_LONGEST]
    while (head := _HEAD.match(text)) is not None:
        text = text[head.end() :]
    return text


def cause_in_line(line: str) -> str:
    """Return the cause that a log line names, or "". The first matching pattern of the table counts."""
    text = message_of(line)
    return next((cause for cause, pattern in _COMPILED if pattern.match(text)), "")
