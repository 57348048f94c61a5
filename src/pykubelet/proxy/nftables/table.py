"""A table of nftables: what it should contain, and transactions that bring the kernel there.

The table records which names changed, and writes a transaction for these alone. Several owners may want the same
element, as two Services one endpoint; it goes with the last of them.

A chain that is no longer wanted is emptied at once and deleted later: kernels before 6.2 hold on to a chain for a
moment after the map element that led to it is gone.

Upstream: pkg/proxy/nftables/proxier.go
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, MutableMapping
from typing import NamedTuple, TypeVar

from pykubelet.proxy.nftables.rules import AFFINITY, BASE_CHAINS, CONTEXT, OF_TYPE, TABLE, Element, Ruleset
from pykubelet.proxy.serviceport import IPFamily

K = TypeVar("K")
V = TypeVar("V")
_Valued = tuple[str, str, str]
"""A set, a key in it, and its value."""
# Elements in one command: long lines are slow to parse.
_LINE = 1000


class KernelTable(NamedTuple):
    """The names of what a table of the kernel has; of sets also whether they are maps."""

    chains: Collection[str] = ()
    sets: Mapping[str, bool] = {}


class Table:
    """The wanted content of one table, and what of it the kernel does not have yet."""

    def __init__(self, family: IPFamily, content: Ruleset) -> None:
        self._place = f"{family} {TABLE}"
        self._chains: dict[str, tuple[str, ...]] = {}
        self._sets: dict[str, str] = {}
        self._elements: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._claims: dict[Element, dict[Hashable, str]] = {}
        self._changed_chains: set[str] = set()
        # The declaration and the value that the kernel has; None: it has none.
        self._changed_sets: dict[str, str | None] = {}
        self._changed_elements: dict[Element, str | None] = {}
        self._kernel_chains: set[str] = set()
        self._stale_chains: set[str] = set()
        self._ripe_chains: set[str] = set()
        for set_name, declaration in content.sets.items():
            self.declare(set_name, declaration)
        for chain, rules in content.chains.items():
            self.write_chain(chain, rules)

    @property
    def has_stale_chains(self) -> bool:
        return bool(self._stale_chains or self._ripe_chains)

    def write_chain(self, name: str, rules: tuple[str, ...] | None) -> None:
        """Have a chain with these rules; None: no such chain."""
        if self._chains.get(name) != rules:
            self._changed_chains.add(name)
            _put(self._chains, name, rules)

    def declare(self, name: str, declaration: str | None) -> None:
        """Have a set or map with this declaration; None: no such set. What is declared under a name never changes."""
        if self._sets.get(name) == declaration:
            return
        self._changed_sets.setdefault(name, self._sets.get(name))
        _put(self._sets, name, declaration)
        if declaration is None:
            for key in tuple(self._elements[name]):
                self.put((name, key), None)
            del self._elements[name]

    def put(self, element: Element, value: str | None) -> None:
        """Have an element that one owner alone wants; None: no such element."""
        name, key = element
        elements = self._elements[name]
        if elements.get(key) != value:
            self._changed_elements.setdefault(element, elements.get(key))
            _put(elements, key, value)

    def claim(self, element: Element, owner: Hashable, value: str | None) -> None:
        """Have an element for one of several owners, with the value of the first; None: this owner needs it no more."""
        claims = self._claims.setdefault(element, {})
        _put(claims, owner, value)
        if not claims:
            del self._claims[element]
        self.put(element, next(iter(claims.values()), None))

    def partial(self) -> list[str]:
        """The commands for what changed; afterwards the kernel is taken to have it."""
        gone, new = self._element_changes()
        written = sorted(name for name in self._changed_chains if name in self._chains)
        emptied = sorted(self._changed_chains & self._kernel_chains)
        new_sets = [name for name, old in self._changed_sets.items() if old is None and name in self._sets]
        gone_sets = {
            name: old for name, old in self._changed_sets.items() if old is not None and name not in self._sets
        }
        commands = [
            *(f"add chain {self._place} {self._chain(name)}" for name in written),
            *self._declarations(new_sets),
            *self._element_commands("delete", gone),
            *(f"flush chain {self._place} {name}" for name in emptied),
            *self._element_commands("add", new),
            *self._rules(written),
            *(f"delete {old.split()[0]} {self._place} {name}" for name, old in gone_sets.items()),
        ]
        self._kernel_chains.update(written)
        self._kernel_chains.difference_update(name for name in emptied if name not in self._chains)
        self._taken_over(emptied)
        return commands

    def full(self, kernel: KernelTable | None) -> list[str]:
        """The commands that make the table whatever the kernel has; None: by making it anew, which forgets clients.

        Connections survive both, and no packet sees less than one of the two tables.
        """
        known = kernel or KernelTable()
        everything = [(name, key, value) for name, found in self._elements.items() for key, value in found.items()]
        chains = sorted(self._chains)
        commands = [
            f"add table {self._place}",
            *((f"delete table {self._place}", f"add table {self._place}") if kernel is None else ()),
            *(f"flush chain {self._place} {name}" for name in known.chains),
            *(
                f"flush {'map' if is_map else 'set'} {self._place} {name}"
                for name, is_map in known.sets.items()
                if not name.startswith(AFFINITY)
            ),
            *(f"add chain {self._place} {self._chain(name)}" for name in chains),
            *self._declarations(self._sets),
            *self._element_commands("add", everything),
            *self._rules(chains),
            *(
                f"delete {'map' if is_map else 'set'} {self._place} {name}"
                for name, is_map in known.sets.items()
                if name not in self._sets
            ),
        ]
        self._kernel_chains = set(self._chains)
        self._taken_over(known.chains)
        return commands

    def delete_stale_chains(self) -> list[str]:
        """The commands that delete the chains which were stale at the last call already."""
        found, self._ripe_chains, self._stale_chains = sorted(self._ripe_chains), self._stale_chains, set()
        return [f"delete chain {self._place} {name}" for name in found]

    def _taken_over(self, emptied: Iterable[str]) -> None:
        """Take the wanted state for the kernel's."""
        self._stale_chains = {name for name in (*self._stale_chains, *emptied) if name not in self._chains}
        self._ripe_chains = {name for name in self._ripe_chains if name not in self._chains}
        self._changed_chains.clear()
        self._changed_sets.clear()
        self._changed_elements.clear()

    def _element_changes(self) -> tuple[list[_Valued], list[_Valued]]:
        """The elements to delete and those to add; one whose value changed is both."""
        gone: list[_Valued] = []
        new: list[_Valued] = []
        for (name, key), old in self._changed_elements.items():
            value = self._elements[name].get(key) if name in self._sets else None
            if value == old:
                continue
            # The elements of a set that goes go with it, and those of one that comes are not there.
            was_there = name not in self._changed_sets or self._changed_sets[name] is not None
            if old is not None and was_there and name in self._sets:
                gone.append((name, key, ""))
            if value is not None:
                new.append((name, key, value))
        return gone, new

    def _element_commands(self, verb: str, elements: Iterable[_Valued]) -> Iterator[str]:
        by_set: defaultdict[str, list[str]] = defaultdict(list)
        for name, key, value in elements:
            by_set[name].append(f"{key} : {value}" if value else key)
        for name, written in by_set.items():
            for start in range(0, len(written), _LINE):
                yield f"{verb} element {self._place} {name} {{ {', '.join(written[start : start + _LINE])} }}"

    def _declarations(self, names: Iterable[str]) -> Iterator[str]:
        """The commands that declare sets.

        Evaluating `tcp dport` makes nft 1.0.6 refuse `udp dport` in a later declaration, until it has seen a rule.
        """
        by_protocol = sorted((self._sets[name], name) for name in names)
        before = ""
        for declaration, name in by_protocol:
            what, _, content = declaration.partition(" ")
            if declaration.startswith(OF_TYPE) and declaration != before:
                yield f"add rule {self._place} {CONTEXT} continue"
                before = declaration
            yield f"add {what} {self._place} {name} {content}"
        if before:
            yield f"flush chain {self._place} {CONTEXT}"

    def _chain(self, name: str) -> str:
        return f"{name} {{ {BASE_CHAINS[name]} ; }}" if name in BASE_CHAINS else name

    def _rules(self, chains: Iterable[str]) -> Iterator[str]:
        return (f"add rule {self._place} {name} {rule}" for name in chains for rule in self._chains[name])


def _put(where: MutableMapping[K, V], key: K, value: V | None) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value
