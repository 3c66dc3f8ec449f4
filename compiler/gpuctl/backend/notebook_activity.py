"""The sidecar of a notebook with ``notebook.stop_after``, which logs when the notebook was last used.

It asks Jupyter from inside the pod: no token leaves the pod, and the policy needs no right to run commands there.
"""

from __future__ import annotations

from typing import Any

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.visible_devices import no_visible_devices
from gpuctl.frontend.command_lines import command_line, option, programs_of
from gpuctl.frontend.notebook_checks import BASE_URL_OPTIONS, TOKEN_OPTIONS
from gpuctl.frontend.platform_restrictions import VISIBLE_DEVICES
from gpuctl.language.names import ACTIVITY_CONTAINER
from gpuctl.language.notebook_document import NotebookDocument
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.label_names import MAX_LIFETIME, STOP_AFTER

# Without Python the notebook must start all the same. Its activity is then unknown.
_START = """\
if command -v python3 >/dev/null 2>&1; then exec python3 -c "$0" "$@"; fi
trap 'exit 0' TERM
echo '{"unknown": "the image has no python3"}'
while :; do sleep 3600 & wait $!; done
"""

# For Python 3.6 and newer. The request for the kernels does not count as activity, and is sent only where Jupyter
# supports that: from jupyter_server 1.0 and notebook 6.0 on. Process 1 must handle SIGTERM, or the pod ends late.
ACTIVITY_PROGRAM = """\
import json, os, signal, ssl, sys, time, urllib.request

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
port, prefix, token = (os.path.expandvars(text) for text in sys.argv[1:4])
token = token or os.environ.get("JUPYTER_TOKEN", "")
prefix = prefix or os.environ.get("NB_PREFIX") or os.environ.get("JUPYTERHUB_SERVICE_PREFIX") or ""
prefix = "/".join(part for part in prefix.split("/") if part)

class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None

opener = urllib.request.build_opener(
    Stay, urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))
schemes = ["http", "https"]

def ask(path):
    problem = None
    for scheme in list(schemes):
        url = "%s://127.0.0.1:%s/%s" % (scheme, port, (prefix + "/" if prefix else "") + path)
        request = urllib.request.Request(url, headers={"Authorization": "token " + token} if token else {})
        try:
            with opener.open(request, timeout=10) as response:
                found = json.loads(response.read(1000000).decode("utf-8"))
            schemes[:] = [scheme]
            return found
        except Exception as error:
            if hasattr(error, "code"):
                raise
            problem = problem or error
    raise problem

def state():
    status = ask("api/status")
    times, busy = [str(status["last_activity"])], 0
    if status["kernels"]:
        kernels = ask("api/kernels?no_track_activity=1")
        times += [str(kernel["last_activity"]) for kernel in kernels]
        busy = sum(kernel["execution_state"] == "busy" for kernel in kernels)
    return {"last_activity": max(times), "kernels": int(status["kernels"]), "busy": busy}

last, printed = None, 0.0
while True:
    try:
        found = state()
    except Exception as error:
        code = getattr(error, "code", None)
        found = {"unknown": "Jupyter answered with status %s" % code if code else type(error).__name__}
    kind = (found.get("busy", -1) > 0, found.get("unknown"))
    if kind != last or time.monotonic() >= printed + 300:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        print(json.dumps(dict(found, time=now), sort_keys=True), flush=True)
        last, printed = kind, time.monotonic()
    time.sleep(60)
"""

_AMOUNTS = {"cpu": "20m", "memory": "64Mi"}


def limit_annotations(context: Context, model: NotebookDocument) -> dict[str, str]:
    """Return the annotations with a notebook's limits, so that a changed limit does not restart the pod."""
    limits = model.notebook
    pairs = ((STOP_AFTER, limits.stop_after), (MAX_LIFETIME, limits.max_lifetime)) if limits is not None else ()
    return {context.label(name): value for name, value in pairs if value is not None}


def lift_limits(context: Context, obj: Object) -> dict[str, Any]:
    """Return the ``notebook:`` block of a workload; empty without limits."""
    annotations = annotations_of(obj)
    pairs = (("stop_after", STOP_AFTER), ("max_lifetime", MAX_LIFETIME))
    return {field: annotations[key] for field, name in pairs if (key := context.label(name)) in annotations}


def activity_container(context: Context, model: NotebookDocument, main: Object) -> Object:
    """Return the sidecar. It has the image and the variables of the program, which may contain the token.

    :param main: the program's container.
    """
    words = [word for program in programs_of(command_line(model)) for word in program.words]
    texts = [found[1] if (found := option(words, *names)) else "" for names in (BASE_URL_OPTIONS, TOKEN_OPTIONS)]
    port = str(model.service.targetPort or model.service.port)
    container: Object = {
        "name": ACTIVITY_CONTAINER,
        "image": main["image"],
        "imagePullPolicy": main["imagePullPolicy"],
        "restartPolicy": "Always",
        "command": ["sh", "-c", _START, ACTIVITY_PROGRAM, port, *texts],
    }
    if "envFrom" in main:
        container["envFrom"] = [dict(source) for source in main["envFrom"]]
    of_program = [dict(variable) for variable in main.get("env", []) if variable["name"] != VISIBLE_DEVICES]
    variables = no_visible_devices(context) + of_program
    if variables:
        container["env"] = variables
    container["resources"] = {"requests": dict(_AMOUNTS), "limits": dict(_AMOUNTS)}
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return container
