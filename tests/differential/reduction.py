# SPDX-License-Identifier: Apache-2.0
"""Distinguishes mismatches from variation without Kiln, reduces them, and writes them as cases."""

import hashlib
import json
import os

import programs as programs_module
import runner
import worlds as worlds_module


def _fields(line):
    """Returns the name and value of each field. A repeated name gets a number."""
    found = {}
    for word in line.split()[2:]:
        name, _, value = word.partition("=")
        while name in found:
            name += "'"
        found[name] = value
    return found


def differing_fields(lines, others):
    """Returns the names of the fields in which lines differ."""
    found = set()
    for line, other in zip(lines, others):
        if not line.startswith("= ") or not other.startswith("= "):
            found.add("the process's end")
            continue
        a, b = _fields(line), _fields(other)
        found |= {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)}
    return found


def _lines_of(result, place, count):
    return [result.lines[i] if i < len(result.lines) else "end: %s" % result.ending
            for i in range(place, max(len(result.lines), count), count)]


def are_binaries_numbered(device, world, programs, line, history_count, outcome):
    """Returns whether the binary of a line may contain a different number. Intel's runtime numbers
    the builds of a process, and writes the number into the binary. So binaries are compared only
    for a hit in a store that one process filled, if that process had built the same programs
    before. A compilation that is found builds nothing, so no binary after the first hit is
    compared. The sub-devices of a device share an entry, which has the number of the build for one
    of them."""
    return device == "intel" and not (
        line < len(programs) and history_count <= 1 and world.get("part") != "subs" and
        (history_count == 0 or runner.is_hit(outcome)) and
        not any(program["link"] for program in programs[:line + 1]))


def without_binaries(line):
    return " ".join(word for word in line.split() if not word.startswith("binary="))


REPETITIONS = 5


def fresh_fields(site, world, program, plain_lines, kiln_lines):
    """Returns the fields in which Kiln's result differs from the compiler's in this process, but
    equals that of a process that compiles nothing else. NVRTC does not forget all options, so its
    result for a program depends on earlier programs; Kiln keeps only results that do not depend on
    them. The other compilers number their builds, so with them only equal histories give equal
    results."""
    if site.setting.device not in programs_module.RUNTIME_COMPILERS:
        return set()
    alone = _lines_of(site.run(dict(world, first=None), [program]), 0, 1)
    return differing_fields(plain_lines, kiln_lines) - differing_fields(alone, kiln_lines)


def unstable_fields(site, world, program, programs):
    """Returns the fields that differ between compilations without Kiln: with the same programs
    repeatedly, and, except for NVRTC, in reverse order and alone."""
    place = programs.index(program)
    first = _lines_of(site.run(world, programs), place, len(programs))
    found = set()
    for _ in range(REPETITIONS):
        again = _lines_of(site.run(world, programs), place, len(programs))
        found |= differing_fields(first, again)
    if site.setting.device in programs_module.RUNTIME_COMPILERS:
        return found
    reverse = _lines_of(site.run(world, programs[::-1]), len(programs) - 1 - place, len(programs))
    alone = _lines_of(site.run(world, [program]), 0, 1)
    return found | differing_fields(first, reverse) | differing_fields(first, alone)


class Case:
    """A list of worlds that fill a store in turn, a world that requests, and a list of programs.
    The last program is the one that is compared."""

    def __init__(self, device, histories, world, programs, program):
        self.device = device
        self.histories = histories
        self.world = world
        self.programs = programs
        self.program = program
        self.fields = set()

    def but(self, **changes):
        made = Case(self.device, self.histories, self.world, self.programs, self.program)
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def run(self, site):
        """Returns whether Kiln's result differs from the driver's, and sets the fields that
        differ."""
        programs, count = self.programs, len(self.programs)
        place = programs.index(self.program)
        plain = site.run(self.world, programs)
        if plain.ending != 0:
            return False
        store = site.new_store()
        for history in self.histories:
            site.run(history, programs, store)
        asked = site.run(self.world, programs, store, bool(self.histories))
        site.drop_store(store)
        self.fields = set()
        for line in range(place, len(plain.lines), count):
            if line >= len(asked.lines):
                self.fields.add("the process's end")
                break
            lines = [plain.lines[line], asked.lines[line]]
            if are_binaries_numbered(site.setting.device, self.world, programs, line,
                                     len(self.histories), asked.outcomes[line]):
                lines = [without_binaries(text) for text in lines]
            self.fields |= differing_fields(lines[:1], lines[1:])
        if self.fields:
            self.fields -= fresh_fields(site, self.world, self.program,
                                        _lines_of(plain, place, count), _lines_of(asked, place, count))
        return bool(self.fields)

    def is_certain(self, site):
        """Returns whether some field differs that does not vary without Kiln."""
        return bool(self.run(site) and
                    self.fields - unstable_fields(site, self.world, self.program, self.programs))

    def dimensions(self):
        found = set()
        for history in self.histories:
            found |= set(worlds_module.difference(history, self.world))
        return found

    # ---- as text ----

    def as_data(self):
        def short(world):
            return {name: value for name, value in world.items() if value is not None}
        return {"device": self.device, "fields": sorted(self.fields),
                "histories": [short(h) for h in self.histories], "world": short(self.world),
                "programs": self.programs, "program": self.programs.index(self.program)}

    @staticmethod
    def from_data(data):
        def whole(world):
            return dict(worlds_module.ordinary(), **world)
        return Case(data["device"], [whole(h) for h in data["histories"]], whole(data["world"]),
                    data["programs"], data["programs"][data["program"]])

    def report(self, folder):
        text = json.dumps(self.as_data(), indent=1)
        name = "%s-%s.json" % (self.device, hashlib.sha256(text.encode()).hexdigest()[:10])
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text + "\n")
        lines = ["", "MISMATCH in %s" % ", ".join(sorted(self.fields) or ["a result that could not be repeated"])]
        for step, history in enumerate(self.histories):
            lines += ["  world %d %s: %s, then %s" % (step + 1, d, json.dumps(history[d]),
                                                     json.dumps(self.world[d]))
                      for d in worlds_module.difference(history, self.world)]
        lines += ["  both %s: %s" % (d, json.dumps(v)) for d, v in self.world.items()
                  if v is not None and all(h[d] == v for h in self.histories)]
        lines += ["  options: %s" % " ".join(self.program["options"])]
        lines += ["  | " + line for line in
                  programs_module.render(self.program, self.device).strip().split("\n")]
        lines += ["  case: %s (copy it to tests/differential/cases to keep it)" % path, ""]
        print("\n".join(lines), flush=True)


def _without(items, place):
    return items[:place] + items[place + 1:]


def _smaller_cases(case):
    """Yields cases that are smaller by one thing."""
    if len(case.programs) > 1:
        yield case.but(programs=[case.program])
        for place, program in enumerate(case.programs):
            if program is not case.program:
                yield case.but(programs=_without(case.programs, place))
    for place in range(len(case.histories)):
        if len(case.histories) > 1:
            yield case.but(histories=_without(case.histories, place))
    for dimension in worlds_module.DIMENSIONS:
        values = [h[dimension] for h in case.histories] + [case.world[dimension]]
        if any(value is not None for value in values):
            yield case.but(histories=[dict(h, **{dimension: None}) for h in case.histories],
                           world=dict(case.world, **{dimension: None}))
        for place, history in enumerate(case.histories):
            if history[dimension] is not None:
                yield case.but(histories=case.histories[:place] +
                               [dict(history, **{dimension: None})] + case.histories[place + 1:])
            if history[dimension] != case.world[dimension]:
                yield case.but(histories=case.histories[:place] +
                               [dict(history, **{dimension: case.world[dimension]})] +
                               case.histories[place + 1:])
        if case.world[dimension] is not None:
            yield case.but(world=dict(case.world, **{dimension: None}))
        if isinstance(case.world[dimension], dict) and len(case.world[dimension]) > 1:
            for name in case.world[dimension]:
                yield case.but(world=dict(case.world, **{dimension: {
                    n: v for n, v in case.world[dimension].items() if n != name}}))
    for part in ("atoms", "options", "expressions", "headers"):
        for place in range(len(case.program[part])):
            smaller = dict(case.program, **{part: _without(case.program[part], place)})
            yield case.but(program=smaller, programs=[smaller if p is case.program else p
                                                      for p in case.programs])


def reduce(site, histories, world, program, programs, tries_max=80):
    """Returns the smallest case found that is still a mismatch; the original case if it cannot be
    repeated."""
    case = Case(site.setting.device, histories, world, programs, program)
    tries, is_smaller = 0, case.run(site)
    while is_smaller and tries < tries_max:
        is_smaller = False
        for smaller in _smaller_cases(case):
            tries += 1
            try:
                is_smaller = smaller.run(site)
            except runner.Failure:
                is_smaller = False
            if is_smaller:
                case = smaller
                break
            if tries >= tries_max:
                break
    return case
