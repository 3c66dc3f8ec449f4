"""The threads of the service that post events of jobs (`job.notify`) to the channels of the platform.

Each replica of the service may run them: the record of deliveries lets one of them post an event. One thread finds
events; each channel that is posting has a thread of its own, so that a webhook that does not answer delays no other.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from prometheus_client import Counter as AttemptCounter

from gpuctl.apply.plan.plan import NoSuchJob
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.settings import Settings
from gpuctl.language.translation_files import sentences_in
from gpuctl.objects.durations import HOUR
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.scheduled_jobs import is_run
from gpuctl.reading.jobs.job_lookup import find_job
from gpuctl.reading.why.cause_summary import finding_of
from gpuctl.reading.why.finding import Finding
from gpuctl.usecases.queries.read_context import context_of
from gpuctl_server.mirror.job_board import JobBoard
from gpuctl_server.mirror.redacting_session import RedactingSession
from gpuctl_server.mirror.shared_lists import READ_ONLY_AGE, MaxListAge, SharedLists
from gpuctl_server.mirror.visibility import Visibility
from gpuctl_server.notifications.delivery_record import Claim, DeliveryRecord, event_id
from gpuctl_server.notifications.job_events import JobEvent, job_events
from gpuctl_server.notifications.messages import Surroundings, message_about
from gpuctl_server.notifications.webhooks import NoAddress, Webhooks
from gpuctl_server.request_log import LOG

PER_MINUTE = 10
"""Maximum number of messages of a channel and replica in a minute: DingTalk and WeCom take 20."""
_MINUTE = 60.0
_SHARE_OF = HOUR
"""Period over which the messages of namespaces are compared, seconds."""
_PAUSE = 0.5
_NAP = 5.0
"""Seconds after which the time of waiting jobs is looked at again, without a change."""
_AGAIN = 60.0
"""Seconds until a channel without an address, or a record that cannot be written, is tried again."""
_STOPPING = 3.0
_PATIENCE = 10.0


class _Sender:
    """The state of a channel: whether its thread is posting, and the latest messages with their namespaces."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.sent: deque[tuple[float, str]] = deque()
        self.pause_until = 0.0

    def is_free(self, now: float) -> bool:
        """Return True if the channel can post another message now."""
        while self.sent and self.sent[0][0] < now - _SHARE_OF:
            self.sent.popleft()
        lately = sum(1 for at, _ in self.sent if at > now - _MINUTE)
        is_busy = self.thread is not None and self.thread.is_alive()
        return not is_busy and lately < PER_MINUTE and self.pause_until <= now

    def next_of(self, events: list[JobEvent]) -> JobEvent:
        """Return the event to post first: of the namespace with the fewest messages, so that none floods a channel."""
        shares = Counter(namespace for _, namespace in self.sent)
        return min(events, key=lambda event: (shares[event.job.identity.namespace], event.due, event.key))


class Notifier:
    """Watches the board of jobs, and posts events.

    :param cluster: returns the platform's name for the cluster; None without one.
    :param console: URL of the web console.
    """

    def __init__(
        self,
        connection: Connection,
        board: JobBoard,
        platform: Settings,
        webhooks: Webhooks,
        lists: SharedLists,
        attempts: AttemptCounter,
        cluster: Callable[[], str | None],
        console: str | None,
    ) -> None:
        self._connection = connection
        self._board = board
        self._platform = platform
        self._webhooks = webhooks
        self._lists = lists
        self._attempts = attempts
        self._cluster = cluster
        self._console = console
        self._keys = records(platform)
        self._session = Session(connection, threads=1, patience=_PATIENCE)
        self._record = DeliveryRecord(self._session)
        self._senders = {name: _Sender() for name in webhooks.channels}
        self._explaining = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True, name="gpuctl-notify")

    def start(self) -> None:
        """Start, if the platform has channels."""
        if self._senders:
            self._thread.start()

    def stop(self) -> None:
        """Stop, and give messages that are being posted a little time, so that they are recorded."""
        self._stopped.set()
        end = time.monotonic() + _STOPPING
        for sender in self._senders.values():
            if sender.thread is not None:
                sender.thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        version, warned = -1, False
        while not self._stopped.is_set():
            self._board.wait_for(lambda board: board.version != version, _NAP)  # noqa: B023 - called at once
            version, begun = self._board.now().version, time.thread_time()
            if not self._board.ready:
                continue
            try:
                self._look()
                warned = False
            except ClusterError as error:
                if not warned:
                    LOG.warning("jobs are not reported: %s%s", error.message, _hint(error))
                    warned = True
                self._stopped.wait(_AGAIN)
            except Exception:
                # A single malformed object must not end the thread for all users.
                LOG.exception("events of jobs could not be reported")
            # Permanent changes must not use more than a third of a CPU.
            self._stopped.wait(max(_PAUSE, 2 * (time.thread_time() - begun)))

    def _look(self) -> None:
        """Begin to post the next event of each channel that is free."""
        # The times of events are of the API server's clock.
        now = self._session.server_time()
        self._record.open(list(self._senders), now)
        events = list(job_events(((item.job, item.row.state) for item in self._board.now().jobs), self._keys))
        settings = self._platform.notify
        for name, sender in self._senders.items():
            if not sender.is_free(now):
                continue
            channel = self._webhooks.channels[name]
            due = [
                event
                for event in events
                if event.due <= now
                and name in settings.channels_of(event.notify)
                and channel.takes(event.job.identity.namespace)
                and self._record.is_open(event_id(name, event.key), event.began, event.due, now, name)
            ]
            if due:
                self._begin(name, sender, sender.next_of(due), now)

    def _begin(self, name: str, sender: _Sender, event: JobEvent, now: float) -> None:
        """Claim an event and post it in a thread, if the channel has an address."""
        try:
            self._webhooks.webhook(name)
            claim = self._record.claim(event_id(name, event.key), event.began, event.due, name)
        except NoAddress as problem:
            LOG.warning("a channel cannot be used: %s", problem, extra={"channel": name})
            sender.pause_until = now + _AGAIN
            return
        if claim is None:
            return
        sender.sent.append((now, event.job.identity.namespace))
        sender.thread = threading.Thread(
            target=self._post, args=(name, event, claim), daemon=True, name=f"gpuctl-notify-{name}"
        )
        sender.thread.start()

    def _post(self, name: str, event: JobEvent, claim: Claim) -> None:
        extra = {"channel": name, "job": f"{event.job.identity.namespace}/{event.job.identity.name}"}
        extra |= {"event": event.kind, "id": claim.id}
        try:
            around = Surroundings(self._keys, self._cluster(), self._console)
            channel = self._webhooks.channels[name]
            with sentences_in("en" if channel.format == "json" else channel.language):
                # The status of the list of jobs is in English.
                event = event._replace(status=event.job.status(self._keys))
                cause = self._cause(event) if event.kind != "done" else None
                message = message_about(event, claim.id, cause, around)
            try:
                self._webhooks.send(name, message)
            except (ClusterError, NoAddress) as error:
                self._attempts.labels(name, "failed").inc()
                self._retry(claim, error, extra)
                return
            self._attempts.labels(name, "sent").inc()
            LOG.info("an event of a job is reported", extra=extra)
            self._record.delivered(claim)
        except ClusterError as error:
            LOG.warning("the report of an event could not be recorded: %s%s", error.message, _hint(error), extra=extra)
        except Exception:
            LOG.exception("an event of a job could not be reported", extra=extra)

    def _retry(self, claim: Claim, error: Exception, extra: dict[str, str]) -> None:
        text = error.message if isinstance(error, ClusterError) else str(error)
        pause = self._record.failed(claim)
        if pause is None:
            LOG.error("an event of a job is not reported, after %d attempts: %s", claim.attempt, text, extra=extra)
        else:
            LOG.warning(
                "an event of a job could not be reported, next attempt in %d s: %s", int(pause), text, extra=extra
            )

    def _cause(self, event: JobEvent) -> Finding | None:
        """Return the cause that `gpuctl why` finds, with names of other namespaces hidden. One at a time."""
        identity = event.job.identity
        visibility = Visibility(lambda other: other == identity.namespace, None, self._keys.pool)
        with self._explaining:
            session = RedactingSession(self._connection, visibility)
            session.share(self._lists, MaxListAge(READ_ONLY_AGE))
            try:
                reader = context_of(session, self._platform, identity.namespace)
                job = event.job
                if not is_run(job.workload or {}):
                    # The mirror keeps less of pods than the scheduler's rules need.
                    job, _ = find_job(reader.scope, f"{identity.kind}/{identity.object_name}", reader.keys)
                return finding_of(reader.scope, job, reader.keys, reader.settings)
            except NoSuchJob:
                # It was deleted, and is reported without a cause.
                return None
            except Exception:
                LOG.exception("the cause of a job's state could not be found", extra={"job": identity.name})
                return None
            finally:
                session.close()


def _hint(error: ClusterError) -> str:
    if isinstance(error, ApiError) and error.lacks_permission:
        return "; deploy/service/base/notifications.yaml has the rights"
    if isinstance(error, ApiError) and error.lacks_namespace:
        return f"; create it with `kubectl create namespace {SYSTEM_NAMESPACE}`"
    return ""
