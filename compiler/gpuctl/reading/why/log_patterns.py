"""Patterns of program errors with a cause of their own, in the words of the libraries that raise them.

A pattern matches at the beginning of a line, after the prefixes of loggers and launchers. A line that only mentions an
error, such as a warning, does not match.
"""

from __future__ import annotations

import re

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


def cause_of(line: str) -> str:
    """Return the cause that a log line names, or "". The first matching pattern of the table counts."""
    text = message_of(line)
    return next((cause for cause, pattern in _COMPILED if pattern.match(text)), "")
