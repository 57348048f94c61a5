"""Whether some rules cover others, and what is missing (pure).

In: rules that somebody holds and rules that are wanted. Out: the atoms of the wanted rules that no held rule covers: one
group, resource, verb and perhaps name each, or one path and verb, in the order of the wanted rule.

A rule of a hundred groups, resources and verbs has a million atoms. They are not compared one by one: for each value
there is a number whose bits are the held rules that have it, and an atom is missing if its values share no bit. Values
with the same bits are alike, so it is known early which of them lead nowhere.

Upstream: staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go,
pkg/registry/rbac/validation/policy_compact.go
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice

from pykubelet.apiserver.auth.rules import ALL, Rule, path_covers

Marked = Sequence[tuple[str, int]]
"""Values, each with the bits of the rules that have it."""


def missing(held: Sequence[Rule], wanted: Iterable[Rule], *, most: int | None = None) -> list[Rule]:
    """The atoms of the wanted rules that no held rule covers, in order; no more than so many of them."""
    holders = _Holders(held)
    return list(islice((atom for rule in wanted for atom in holders.missing_of(rule)), most))


def compact(atoms: Iterable[Rule]) -> list[Rule]:
    """The same rights in fewer rules: atoms that differ only in the verb become one, the others stay as they are."""
    verbs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    others: list[Rule] = []
    for atom in atoms:
        if atom.paths:
            others.append(atom)
        else:
            verbs.setdefault((atom.groups, atom.resources, atom.names), []).extend(atom.verbs)
    united = [Rule(verbs=tuple(verbs[key]), groups=key[0], resources=key[1], names=key[2]) for key in verbs]
    return [*others, *united]


class _Holders:
    """Which of the held rules have a value."""

    def __init__(self, held: Sequence[Rule]) -> None:
        self._verbs = _bits(held, lambda rule: rule.verbs)
        self._groups = _bits(held, lambda rule: rule.groups)
        self._resources = _bits(held, lambda rule: rule.resources)
        self._names = _bits(held, lambda rule: rule.names)
        self._paths = _bits(held, lambda rule: rule.paths)
        self._any_name = sum(1 << index for index, rule in enumerate(held) if not rule.names)

    def missing_of(self, rule: Rule) -> Iterator[Rule]:
        """The atoms of a rule that are missing."""
        verbs = [(verb, _either(self._verbs, verb, ALL)) for verb in rule.verbs]
        groups = [(group, _either(self._groups, group, ALL)) for group in rule.groups]
        resources = [(resource, self._of_resource(resource)) for resource in rule.resources]
        names = [(name, self._any_name | self._names.get(name, 0)) for name in rule.names] or [("", self._any_name)]
        for group, resource, verb, name in _apart([groups, resources, verbs, names]):
            named = (name,) if rule.names else ()
            yield Rule(verbs=(verb,), groups=(group,), resources=(resource,), names=named)
        paths = [(path, self._any_name & self._of_path(path)) for path in rule.paths]
        for path, verb in _apart([paths, verbs]):
            yield Rule(verbs=(verb,), paths=(path,))

    def _of_resource(self, resource: str) -> int:
        _, slash, subresource = resource.partition("/")
        return _either(self._resources, resource, ALL, *([f"*/{subresource}"] if slash else ()))

    def _of_path(self, path: str) -> int:
        return _either(self._paths, *(own for own in self._paths if path_covers(own, path)))


def _bits(held: Sequence[Rule], values_of: Callable[[Rule], Iterable[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for index, rule in enumerate(held):
        for value in values_of(rule):
            found[value] = found.get(value, 0) | 1 << index
    return found


def _either(bits: dict[str, int], *values: str) -> int:
    united = 0
    for value in values:
        united |= bits.get(value, 0)
    return united


def _apart(lists: Sequence[Marked]) -> Iterator[tuple[str, ...]]:
    """One value of each list, in order, in all ways in which their bits have nothing in common."""
    kinds = [{bits for _, bits in values} for values in lists]

    @cache
    def leads_on(depth: int, bits: int) -> bool:
        if depth == len(lists):
            return not bits
        return any(leads_on(depth + 1, bits & more) for more in kinds[depth])

    @cache
    def steps(depth: int, bits: int) -> Marked:
        return [(value, bits & more) for value, more in lists[depth] if leads_on(depth + 1, bits & more)]

    def walk(depth: int, bits: int, before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if depth == len(lists):
            yield before
            return
        for value, left in steps(depth, bits):
            yield from walk(depth + 1, left, (*before, value))

    # All bits, whatever their number.
    return walk(0, -1, ())
