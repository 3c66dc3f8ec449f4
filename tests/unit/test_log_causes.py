"""The causes that ``gpuctl why`` finds in the last lines of a log: each error as several libraries print it, and lines
that only mention an error.
"""

from __future__ import annotations

import pytest

from gpuctl.reading.why import log_diagnosis as log
from gpuctl.reading.why.finding import CAUSES
from gpuctl.reading.why.log_patterns import PROGRAM_CAUSES

ERROR_LINES: dict[str, tuple[str, ...]] = {
    "address-in-use": (
        "OSError: [Errno 98] Address already in use",
        "OSError: [Errno 48] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: "
            "29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
        ),
        "RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
        "[2026-11-26 10:00:00 +0000] [7] [ERROR] Connection in use: ('0.0.0.0', 8000)",
        "jaxlib.xla_extension.XlaRuntimeError: UNKNOWN: Failed to add port to server: bind: Address already in use",
        "ERROR: the Jupyter server could not be started because port 8888 is not available.",
        "ERROR: TensorBoard could not bind to port 6006, it was already in use",
    ),
    "rendezvous-failed": (
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.",
        (
            "[rank1]: torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to "
            "connect to (two-0.two, 29500)."
        ),
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0",
        "RuntimeError: The IPv6 network addresses of (two-0.two, 29500) cannot be retrieved (gai error: -2).",
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: start",
        "tensorflow.python.framework.errors_impl.UnavailableError: failed to connect to coordination service",
    ),
    "hub-unreachable": (
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cache.",
        "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub",
        "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/x: offline mode is enabled.",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded",
        "requests.exceptions.ConnectTimeout: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443)\"))",
        "urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(host='hf-mirror.com', port=443): Max retries exceeded",
        "ConnectionError: Couldn't reach 'tatsu-lab/alpaca' on the Hub (ConnectionError)",
        "curl: (6) Could not resolve host: huggingface.co",
    ),
    "disk-full": (
        "OSError: [Errno 28] No space left on device: '/output/checkpoint-9'",
        (
            'safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, message: "No space left on '
            'device" })'
        ),
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: /output/x; No space left on device",
        "cp: error writing '/output/x': No space left on device",
        "OSError: [Errno 122] Disk quota exceeded",
        "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 448 vs 342",
        (
            "RuntimeError: [enforce fail at inline_container.cc:778] . PytorchStreamWriter failed writing file data/5: file "
            "write failed"
        ),
    ),
    "permission-denied": (
        "PermissionError: [Errno 13] Permission denied: '/output'",
        "mkdir: cannot create directory '/output/run': Permission denied",
        "OSError: [Errno 30] Read-only file system: '/data/x'",
        "tensorflow.python.framework.errors_impl.PermissionDeniedError: /output; Permission denied",
    ),
    "kv-cache-too-small": (
        (
            "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV "
            "cache (12345). Try increasing `gpu_memory_utilization`"
        ),
        (
            "(EngineCore pid=41) ERROR 11-26 10:00:00 [core.py:400] ValueError: To serve at least one request with the "
            "models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory "
            "(3.70 GiB). Based on the available memory, the estimated maximum model length is 26944.\n"
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        ),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    "file-missing": (
        "python: can't open file '/workspace/train.py': [Errno 2] No such file or directory",
        "/usr/bin/python3.11: can't open file 'train.py': [Errno 2] No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.json'",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'a/b': '/models/llama'.",
        "bash: /workspace/run.sh: No such file or directory",
    ),
    "module-missing": (
        "ModuleNotFoundError: No module named 'flash_attn'",
        "/usr/bin/python: No module named train",
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        (
            "[rank0]: ModuleNotFoundError: No module named 'x'\ntorch.distributed.elastic.multiprocessing.errors."
            "ChildFailedError:"
        ),
    ),
    "gpu-unsupported": (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        "RuntimeError: HIP error: invalid device function",
        "tensorflow.python.framework.errors_impl.InternalError: CUDA_ERROR_NO_BINARY_FOR_GPU",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 has 7.5.",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
    ),
    "cuda-out-of-memory": (
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[8,8]",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
    ),
    # The log does not show whether the pod requests GPUs.
    "gpu-driver-error": (
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
        "RuntimeError: Failed to infer device type",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "RuntimeError: Unable to initialize backend 'cuda': no supported devices found for platform CUDA",
    ),
}
MENTIONS = (
    "INFO: if you see 'Address already in use', change the port",
    "The port 8888 is already in use, trying another port.",
    "WARNING:root:No module named 'apex', using torch.optim",
    "flash_attn is not installed: ModuleNotFoundError, falling back to sdpa",
    "2026-11-26 10:00:00 INFO retrying: PermissionError: [Errno 13] Permission denied",
    "INFO 11-26 10:00:00 [cache.py:1] handled OSError: [Errno 28] No space left on device",
    "disk usage 91%: No space left on device would end the run",
    "WARNING: could not connect to https://huggingface.co, using cached files",
    "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu.",
    "UserWarning: GPU with CUDA capability sm_120 is not compatible with the current PyTorch installation",
    "git@github.com: Permission denied (publickey).",
    "loading the rendezvous backend c10d",
    "loader: skipping /data/a.jpg: No such file or directory",
    "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo for url https://huggingface.co/x",
    "ImportError: cannot import name 'x' from 'y'",
    "the KV cache is smaller than the max seq len of the model allows",
)
CAUSES_AND_LINES = [(cause, text) for cause, texts in ERROR_LINES.items() for text in texts]


def test_every_program_cause_has_error_lines() -> None:
    assert set(ERROR_LINES) >= PROGRAM_CAUSES
    assert set(CAUSES) >= PROGRAM_CAUSES


@pytest.mark.parametrize(("cause", "text"), CAUSES_AND_LINES)
def test_error_line_is_diagnosed_in_every_log_format(cause: str, text: str) -> None:
    lines = text.splitlines()
    assert log.diagnose(["step 1 loss 2.13", "Traceback (most recent call last):", *lines]).cause == cause
    # As loggers and launchers print it: coloured, after a rank, after time and level, in capitals.
    assert log.diagnose([f"\x1b[31m{lines[0]}\x1b[0m"]).cause == cause
    assert log.diagnose([f"[rank3]: {lines[0]}"]).cause == cause
    assert log.diagnose([f"2026-11-26 10:00:00,123 - ERROR - {lines[0]}"]).cause == cause
    assert log.diagnose([lines[0].upper()]).cause == cause
    # A later error takes precedence.
    assert log.diagnose([*lines, "KeyError: 'labels'"]).cause == (
        "gpu-driver-error" if cause == "gpu-driver-error" else ""
    )


@pytest.mark.parametrize("text", MENTIONS)
@pytest.mark.parametrize("last", ["KeyError: 'labels'", "exit status 1"])
def test_line_that_only_mentions_an_error_is_ignored(text: str, last: str) -> None:
    assert log.diagnose([text, last]).cause == ""
    assert log.diagnose([text.lower(), last]).cause == ""


def test_nccl_error_reports_its_last_error_line() -> None:
    head = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:333, unhandled system error, NCCL 2.21.5"
    code = "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. "
    peer = "socketStartConnect: Connect to 10.128.0.1<41231> failed : Software caused connection abort"
    assert log.diagnose([head, code, "Last error:", peer]) == ("nccl-error", peer, {})
    assert log.diagnose([f"[rank1]: {line}" for line in (head, code, "Last error:", peer)]) == ("nccl-error", peer, {})
    assert log.diagnose([head, code, f"Last error: {peer}"]).line == peer
    assert log.diagnose([head, code]).line == head
