"""What the last lines of a log say about the end of a program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.language.display_text import visible
from gpuctl.reading.why.log_patterns import cause_of, message_of, without_colours

_LONGEST = 240
_LINE_END = re.compile("\r\n|\n|\r")
# PyTorch's (c10/cuda/CUDACachingAllocator.cpp, and its kin for other vendors), CUDA's, TensorFlow's, JAX's, vLLM's.
_GPU_MEMORY = re.compile(
    r"(?:CUDA|HIP|NPU|MUSA|XPU) out of memory|torch(?:\.cuda)?\.OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CUDA error: out of memory|cudaErrorMemoryAllocation|cuda runtime error \(2\)"
    r"|RESOURCE_EXHAUSTED: Out of memory|No available memory for the cache blocks|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED"
    r"|ResourceExhaustedError\b.*\bOOM when allocating|OOM when allocating tensor|hipErrorOutOfMemory",
    re.IGNORECASE,
)
# nvidia-smi's and the kernel's (NVRM: Xid (PCI:0000:3b:00): 79), CUDA's (cudaErrorECCUncorrectable), PyTorch's.
_GPU_HARDWARE = re.compile(
    r"NVRM: Xid|\bXid (?:error )?(?:\(PCI|\d)|uncorrectable (?:NVLink|ECC) error|CUDA_ERROR_ECC_UNCORRECTABLE"
    r"|cudaErrorECCUncorrectable|CUDA error: .*\bECC\b|GPU has fallen off the bus|GPU is lost",
    re.IGNORECASE,
)
# CUDA's, PyTorch's (torch/cuda/__init__.py), TensorFlow's, nvidia-container-toolkit's.
_GPU_DRIVER = re.compile(
    r"CUDA driver version is insufficient|no CUDA-capable device|nvidia-container-cli: initialization error"
    r"|CUDA_ERROR_NO_DEVICE|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|CUDA_ERROR_COMPAT_NOT_SUPPORTED|cudaErrorInsufficientDriver"
    r"|Driver/library version mismatch|Found no NVIDIA driver|NVIDIA driver on your system is too old"
    r"|unsupported display driver|PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion",
    re.IGNORECASE,
)
# What PyTorch, vLLM, TensorFlow and JAX raise on a machine without a GPU; their warnings are no errors.
_NO_GPU = re.compile(
    r"(?:[a-z_]\w*\.)*\w*(?:error|exception): .*?(?:No (?:CUDA|HIP|NPU|XPU) GPUs are available"
    r"|(?:is_available|cuda)\(\) is False|Failed to infer device type|no supported devices found for platform CUDA"
    r"|Unable to initialize backend '(?:cuda|gpu|rocm)'|No (?:supported )?GPU (?:was |is )?(?:found|available))",
    re.IGNORECASE,
)
_VERSION = re.compile(r"insufficient|mismatch|NOT_SUPPORTED|unsupported|too old", re.IGNORECASE)
# That there is a driver, and which: not what a machine without GPUs says.
_FOUND = re.compile(r"too old|mismatch|unsupported|NOT_SUPPORTED", re.IGNORECASE)
_LAST_ERROR = re.compile(r"Last error:\s*(?P<text>.*)", re.IGNORECASE)
# NCCL's result codes (nccl.h) and PyTorch's watchdog (ProcessGroupNCCL.cpp).
_NCCL = re.compile(
    r"NCCL error|unhandled system error|unhandled cuda error|NCCL watchdog|Watchdog caught collective operation timeout"
    r"|\bnccl(?:System|Remote|Internal|UnhandledCuda)Error\b",
    re.IGNORECASE,
)
_TRIED = re.compile(r"Tried to allocate (?P<tried>[\d.]+ [KMGT]iB)")
_TOTAL = re.compile(r"total capac(?:ity|ty) of (?P<total>[\d.]+ [KMGT]iB)")
_FREE = re.compile(r"of which (?P<free>[\d.]+ [KMGT]iB) is free")
# glibc's and the shell's word for SIGBUS, PyTorch's (torch/utils/data/_utils/signal_handling.py), NCCL's.
_SHARED_MEMORY = re.compile(
    r"\bbus error\b|SIGBUS|insufficient shared memory|out of shared memory|Error while creating shared memory segment"
    r"|unable to (?:open|mmap|write to|resize)[^<]*</torch_"
    r"|/dev/shm.*no space left|no space left on device.*(?:/dev/shm|torch_)",
    re.IGNORECASE,
)
_ERROR = re.compile(r"(?P<name>(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt))\b(?::|\s*$)")
_FATAL = re.compile(r"\b(?:fatal|panic|error)\b|^E\d{4} |Segmentation fault|core dumped", re.IGNORECASE)
# What launchers and other ranks say after a worker died: not the reason.
_AFTERMATH = re.compile(
    r"ChildFailedError|CalledProcessError|Process(?:Raised|Exited)Exception|RayTaskError|Dist(?:Backend|Network)Error"
    r"|DataLoader worker \(pid|torch\.distributed\.elastic|BrokenPipeError|ConnectionResetError|BrokenProcessPool"
    r"|See root cause above|Engine (?:core|process) (?:initialization )?failed|EngineDeadError|WorkerProc init"
)
_SECRETS = re.compile(
    r"(?P<key>(?:token|password|passwd|secret|api[_-]?key|authorization)\w*[\"']?\s*[=:]\s*[\"']?(?:bearer\s+)?)[^\s,;&\"']+"
    r"|\b(?:hf_|sk-|ghp_|glpat-|AKIA)[A-Za-z0-9_-]{8,}",
    re.IGNORECASE,
)


_FINAL = frozenset({"gpu-hardware-error", "gpu-driver-error"})


class LogDiagnosis(NamedTuple):
    """``cause`` is that of a GPU, of shared memory, of NCCL, or "" for others; ``line`` the line that tells most."""

    cause: str
    line: str
    numbers: dict[str, str]


def lines_of(text: str) -> list[str]:
    """The lines of a log. A progress bar ends its own with a carriage return; what else Python takes for the end of a
    line, U+2028 for one, is part of what was printed."""
    *lines, rest = _LINE_END.split(text)
    return [*lines, rest] if rest else lines


def diagnose(lines: Sequence[str]) -> LogDiagnosis:
    """Judge the end of a log.

    A word of memory counts only when no other error comes after it: programs catch that one, and go on. Nobody catches
    what the hardware or the driver reports. That communication broke off follows from any of these, never the reverse.
    """
    kept = [line for line in (visible(without_colours(line)).strip() for line in lines) if line]
    last: str | None = None
    cause, telling, quotes_next = "", "", False
    for line in kept:
        if cause in _FINAL:
            break
        last_error = _LAST_ERROR.match(message_of(line))
        if cause == "nccl-error" and (quotes_next or last_error is not None):
            # NCCL names the link and the peer here; the error before it is the same for all.
            text = message_of(line) if last_error is None else last_error["text"]
            telling, quotes_next = text or telling, not text
        elif _GPU_HARDWARE.search(line):
            cause, telling = "gpu-hardware-error", line
        elif _GPU_DRIVER.search(line) or _NO_GPU.match(message_of(line)):
            cause, telling = "gpu-driver-error", line
        elif _GPU_MEMORY.search(line):
            cause, telling = "cuda-out-of-memory", line
        elif _SHARED_MEMORY.search(line):
            # What ran out of shared memory says so beside the signal: both lines are about one thing.
            cause, telling = "shm-exhausted", line
        elif own := cause_of(line):
            cause, telling = own, line
        elif _NCCL.search(line):
            if not cause:
                cause, telling = "nccl-error", line
        elif _AFTERMATH.search(line):
            continue
        elif _ERROR.search(line):
            cause, telling, last = "", line, line
    if cause:
        return LogDiagnosis(cause, printable(telling), _numbers(telling) if cause == "cuda-out-of-memory" else {})
    fatal = next((line for line in reversed(kept) if _FATAL.search(line) and not _AFTERMATH.search(line)), None)
    return LogDiagnosis("", printable(last or fatal or (kept[-1] if kept else "")), {})


def has_driver(line: str) -> bool:
    """Return True if a line about the driver says that one was found: the pod has a GPU."""
    return bool(_FOUND.search(line))


def is_driver_too_old(line: str) -> bool:
    """Whether a line about the driver says that it is there, but too old for the program."""
    return bool(_VERSION.search(line))


def _numbers(line: str) -> dict[str, str]:
    found = {}
    for pattern in (_TRIED, _TOTAL, _FREE):
        match = pattern.search(line)
        if match is not None:
            found.update(match.groupdict())
    return found


def printable(line: str) -> str:
    """A line as it may be printed: short, without control characters, and without what looks like a secret."""
    line = _SECRETS.sub(lambda match: f"{match['key'] or ''}***", " ".join(line.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
