"""The nodes in one run of a simulated scheduler: what is on them, promised to them, and what that means to pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpuctl.capacity.arena import Arena, QueuedPod
from gpuctl.capacity.node_choice import ScoreRow
from gpuctl.capacity.node_states import LeftAmounts
from gpuctl.capacity.pod_shapes import Shape, Standing
from gpuctl.capacity.scheduling import Census, Pair, obstacle, recounted
from gpuctl.capacity.scoring import Spreading, liking
from gpuctl.capacity.seats import PlacedPod, Seat

_Move = tuple[int, PlacedPod, int]
"""A place, and the pod that came to its node (1), or left it (-1)."""


class SimulatedNodes:
    """Nodes by their places. ``states`` are their amounts, ``residents`` the nodes with those pods that were there
    before, ``left`` those that somebody has left.

    ``changes`` counts everything that happens, ``departures`` when pods leave.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.states = list(arena.states)
        self.residents = list(arena.seats)
        self._seats: list[Seat | None] = list(arena.seats)
        self._placed: dict[int, list[PlacedPod]] = {}
        self._least: dict[int, int] = {}
        self.left: set[int] = set()
        self._freed = set(arena.promised)
        self.promised: dict[int, list[tuple[PlacedPod, QueuedPod | None]]] = {
            place: [(pod, None) for pod in pods] for place, pods in arena.promised.items()
        }
        self.departures = 0
        self.changes = 0
        # When something happened on a node, the last time, in this order.
        self._last: dict[int, int] = {}
        self._rows: dict[Standing, ScoreRow] = {}
        # Node by node and by priority, what is left beside what is promised, until something happens there.
        self._beside: dict[int, dict[int, LeftAmounts]] = {}
        self._history: list[_Move] = []
        self._moves: dict[Shape, list[_Move]] = {}
        self._spreadings: dict[Shape, tuple[Spreading, int]] = {}
        self._counts: dict[Shape, tuple[Census, Counter[Pair], int]] = {}

    def changed_since(self, number: int) -> list[int]:
        """The places where something has happened since so much had."""
        result = []
        for place, when in reversed(self._last.items()):
            if when <= number:
                break
            result.append(place)
        return result

    def has_newcomers(self, place: int) -> bool:
        """Whether pods have come to a node in this run that are still there."""
        return place in self._placed

    def seat(self, place: int) -> Seat:
        """A node with its pods as of now."""
        seat = self._seats[place]
        if seat is None:
            before = self.residents[place]
            seat = self._seats[place] = Seat(before.node, (*before.pods, *self._placed.get(place, ())))
        return seat

    def seats_for(self, shape: Shape) -> list[Seat]:
        """All nodes as of now, with the pods for which a pod has to leave room on them."""
        found = [self.seat(place) if seat is None else seat for place, seat in enumerate(self._seats)]
        for place in self.promised:
            found[place] = Seat(found[place].node, (*found[place].pods, *self.kept_for(shape, place, None)))
        return found

    def bind(self, entry: QueuedPod, place: int) -> None:
        """Put a pod on a node."""
        pod = entry.pod
        self._placed.setdefault(place, []).append(pod)
        self._least[place] = min(pod.priority, self._least.get(place, pod.priority))
        self._seats[place] = None
        self.states[place] = self._arena.node_states.after(self.states[place], entry.shape.size)
        self._note(place)
        self._moved((place, pod, 1), entry.minders)

    def leave(self, place: int, pods: Sequence[PlacedPod]) -> None:
        """Let pods leave a node."""
        gone = set(map(id, pods))
        placed = self._placed.pop(place, [])
        kept = [pod for pod in placed if id(pod) not in gone]
        self._least.pop(place, None)
        if kept:
            self._placed[place], self._least[place] = kept, min(pod.priority for pod in kept)
        came = set(map(id, placed))
        self.residents[place] = self._arena.emptier(self.residents[place], [pod for pod in pods if id(pod) not in came])
        self._seats[place] = None
        self.states[place] = self._arena.node_states.of(self.seat(place))
        self.left.add(place)
        self._freed.add(place)
        self._note(place)
        for pod in pods:
            self._moved((place, pod, -1), self._arena.minding(pod))

    def _moved(self, move: _Move, minders: Sequence[Shape]) -> None:
        self._history.append(move)
        for shape in minders:
            self._moves.setdefault(shape, []).append(move)

    def meet(self, shape: Shape) -> None:
        """Tell pods that nobody has known before what has happened."""
        if shape not in self._moves:
            self._moves[shape] = [move for move in self._history if shape.minds_pod(move[1])]

    def _note(self, place: int) -> None:
        """Note that something happens on a node."""
        self.changes += 1
        self._last.pop(place, None)
        self._last[place] = self.changes
        self._beside.pop(place, None)

    def departed(self) -> None:
        """Note that pods have left."""
        self.departures += 1

    def promise(self, entry: QueuedPod, place: int) -> None:
        """Keep room on a node for a pod."""
        self.promised.setdefault(place, []).append((entry.pod, entry))
        self._note(place)

    def forget(self, pod: PlacedPod, place: int) -> None:
        """Keep room for a pod no longer."""
        self._freed.add(place)
        kept = [item for item in self.promised[place] if item[0] is not pod]
        if kept:
            self.promised[place] = kept
        else:
            del self.promised[place]
        self._note(place)

    def kept_for(self, shape: Shape, place: int, entry: QueuedPod | None) -> tuple[PlacedPod, ...]:
        """The pods beside which a pod must have room, as they are promised the node."""
        return tuple(
            pod
            for pod, other in self.promised.get(place, ())
            if pod.priority >= shape.priority and (other is None or other is not entry)
        )

    def _kept_apart(self, shape: Shape, place: int, entry: QueuedPod) -> LeftAmounts:
        """What is left of a node beside what is promised to those for which a pod has to leave room."""
        for _, other in self.promised[place]:
            if other is entry:
                return self._arena.beside(self.states[place], self.kept_for(shape, place, entry))
        known = self._beside.get(place)
        if known is None:
            known = self._beside[place] = {}
        state = known.get(shape.priority)
        if state is None:
            state = self._arena.beside(self.states[place], self.kept_for(shape, place, None))
            known[shape.priority] = state
        return state

    def is_as_shared(self, shape: Shape, place: int) -> bool:
        """Whether what a pod could evict is told by amounts of the node, and its pods from before."""
        # Pods that came in this run are not those of another.
        if shape.simple:
            least = self._least.get(place)
            return least is None or least >= shape.priority
        return shape.alone and place not in self._placed and place not in self.promised

    def fits(self, shape: Shape, place: int, entry: QueuedPod | None) -> bool:
        """Source: ``framework/runtime/framework.go``, RunFilterPluginsWithNominatedPods."""
        if shape.simple and place not in self.promised:
            return shape.size.scores[self.states[place]] > 0
        seat, census = self.seat(place), self.census(shape)
        if obstacle(shape.incoming, seat, census) is not None:
            return False
        more = self.kept_for(shape, place, entry)
        if not more:
            return True
        full = Seat(seat.node, seat.pods + more)
        return obstacle(shape.incoming, full, self.recounted(shape, census, seat, full)) is None

    def census(self, shape: Shape) -> Census:
        """What is counted of other pods as of now."""
        return shape.counted if shape.alone else self.counted(shape)[0]

    def counted(self, shape: Shape) -> tuple[Census, Counter[Pair]]:
        """What is counted of other pods, and how they are liked, as of now."""
        moves = self._moves.get(shape, [])
        census, liked, since = self._counts.get(shape, (shape.counted, shape.liked, 0))
        for place, pod, sign in moves[since:]:
            node = self.residents[place].node
            without, beside = Seat(node), Seat(node, (pod,))
            if not shape.alone:
                census = recounted(census, shape.incoming, *((without, beside) if sign > 0 else (beside, without)))
            if shape.likes:
                liked = Counter(liked)
                change = liking(shape.incoming, [beside])
                (liked.update if sign > 0 else liked.subtract)(change)
        self._counts[shape] = census, liked, len(moves)
        return census, liked

    def spreading(self, shape: Shape, first: Spreading) -> Spreading:
        """What its soft rules count as of now."""
        counted, since = self._spreadings.get(shape) or (first.copy(), 0)
        moves = self._moves.get(shape, [])
        for place, pod, sign in moves[since:]:
            counted.count(place, (pod,), sign)
        self._spreadings[shape] = counted, len(moves)
        return counted

    @staticmethod
    def recounted(shape: Shape, census: Census, before: Seat, now: Seat) -> Census:
        """A census of a pod after one node has changed."""
        return census if shape.alone else recounted(census, shape.incoming, before, now)

    def row(self, shape: Shape, entry: QueuedPod) -> ScoreRow:
        """The score of each node for a pod by its amounts, as of now."""
        row = self._rows.get(shape.standing)
        if row is None:
            row = self._rows[shape.standing] = self._arena.first_row(shape).copy()
        if row.since < self.changes:
            self._catch_up(row, shape, entry)
            row.since = self.changes
        if shape.simple:
            return row
        values = bytearray(len(row.values))
        for place in shape.nodes:
            if row.values[place] and self.fits(shape, place, entry):
                values[place] = row.values[place]
        return ScoreRow(values, max(values, default=0))

    def _catch_up(self, row: ScoreRow, shape: Shape, entry: QueuedPod) -> None:
        """Change the scores in a row where something has happened."""
        values, most, since = row.values, row.most, row.since
        states, scores, pieces, promised = self.states, shape.size.scores, shape.size.pieces, self.promised
        for place, when in reversed(self._last.items()):
            if when <= since:
                break
            # Where there is no room none comes unless somebody leaves, or gives up what is promised.
            if values[place] or (place in self._freed and place in shape.open_to):
                state = states[place]
                score = scores[state] if state.pieces >= pieces else 0
                if score and place in promised and not scores[self._kept_apart(shape, place, entry)]:
                    score = 0
                values[place] = score
                if score > most:
                    most = score
        row.most = most
