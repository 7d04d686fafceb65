#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hip.py LIBRARY [WORD…]: compiles with HIPRTC or NVRTC, and prints what each call returned and a
digest of each output. Each word is an option, or one of these:

    source=TEXT     the source from now on
    name=NAME       the program's name from now on
    header=NAME=TEXT  a header from now on
    expression=TEXT one more name expression from now on
    compile         compiles a program with the options since the last program
    twice           makes the next program be compiled twice
    ask=TEXT        asks the next program for a name that it does not have
    text            prints the logs, too
    wait=FILE       waits for a file
    threads=N       compiles in N threads at a time
    differing=N     compiles in N threads at a time, with the options -DNUMBER=0, -DNUMBER=1, …
    beside          compiles one program while a different thread uses comgr, without HIPRTC
    round=MODE      sets the rounding mode of fesetround
    write=FILE=TEXT writes a file
    set=NAME=VALUE  sets a variable
    fork            does the rest in a child
    link            completes a link that does not exist
    damage=SEED=FOLDER  damages each entry in a cache
"""

import ctypes
import hashlib
import os
import random
import sys
import threading
import time


def entries(folder):
    """Returns the paths of a cache's entries."""
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder)
                  for name in names if len(name) == 32)


def damage_all(folder, source):
    """Flips a bit of each entry in a cache, or cuts the entry off."""
    for path in entries(folder):
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            if source.random() < 0.3:
                file.truncate(source.randrange(size))
                continue
            # Another version of the format is no damage, and stays.
            file.seek(source.choice([*range(8), *range(12, size)]))
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1 << source.randrange(8)]))


LOOP = b"void f%d(global float *p) { for (int i = 0; i < 100; i++) p[i] *= p[i + 1]; }\n"


class Comgr:
    """Compiles with comgr, without HIPRTC."""
    SOURCE, OPENCL, COMPILE = 1, 2, 2

    def __init__(self, source):
        self.library = ctypes.CDLL("libamd_comgr.so.2")
        self.input, self.info = ctypes.c_uint64(), ctypes.c_uint64()
        data = ctypes.c_uint64()
        self.call("create_data_set", ctypes.byref(self.input))
        self.call("create_data", self.SOURCE, ctypes.byref(data))
        self.call("set_data", data, ctypes.c_size_t(len(source)), source)
        self.call("set_data_name", data, b"beside.cl")
        self.call("data_set_add", self.input, data)
        self.call("create_action_info", ctypes.byref(self.info))
        self.call("action_info_set_language", self.info, self.OPENCL)
        self.call("action_info_set_isa_name", self.info, b"amdgcn-amd-amdhsa--gfx90a")

    def call(self, name, *arguments):
        result = getattr(self.library, "amd_comgr_" + name)(*arguments)
        if result != 0:
            print(f"amd_comgr_{name}: {result}", file=sys.stderr, flush=True)
            os._exit(1)

    def compile(self):
        output = ctypes.c_uint64()
        self.call("create_data_set", ctypes.byref(output))
        self.call("do_action", self.COMPILE, self.info, self.input, output)
        self.call("destroy_data_set", output)


class Hip:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.prefix, self.code = (("hiprtc", "Code") if hasattr(self.library, "hiprtcVersion")
                                  else ("nvrtc", "PTX"))
        self.source, self.name = "", "program.hip"
        self.headers, self.expressions, self.options = [], [], []
        self.twice = self.asks = self.text = None

    def call(self, name, *arguments):
        return getattr(self.library, self.prefix + name)(*arguments)

    def output(self, program, name, lines):
        size = ctypes.c_size_t(77)
        results = [self.call(f"Get{name}Size", program, ctypes.byref(size))]
        room = ctypes.create_string_buffer(b"x" * size.value, size.value + 1)
        results.append(self.call(f"Get{name}", program, room))
        lines.append((name, *results, size.value, hashlib.sha256(room.raw).hexdigest()))
        if self.text and name == "ProgramLog":
            lines.append((room.raw,))

    def compile(self, more=()):
        lines = []
        texts = [text.encode() for _, text in self.headers]
        names = [name.encode() for name, _ in self.headers]
        array = ctypes.c_char_p * len(names)
        program = ctypes.c_void_p()
        lines.append(("create", self.call("CreateProgram", ctypes.byref(program),
                                          self.source.encode(), self.name.encode(), len(names),
                                          array(*texts), array(*names))))
        for expression in self.expressions:
            lines.append(("add", self.call("AddNameExpression", program, expression.encode())))
        options = [option.encode() for option in [*self.options, *more]]
        options = (len(options), (ctypes.c_char_p * len(options))(*options))
        for _ in range(2 if self.twice else 1):
            lines.append(("compile", self.call("CompileProgram", program, *options)))
        self.output(program, "ProgramLog", lines)
        self.output(program, self.code, lines)
        if hasattr(self.library, "nvrtcGetPCHCreateStatus"):
            lines.append(("header", self.call("GetPCHCreateStatus", program)))
        for expression in [*self.expressions, *([self.asks] if self.asks else [])]:
            lowered = ctypes.c_char_p(b"unset")
            result = self.call("GetLoweredName", program, expression.encode(),
                               ctypes.byref(lowered))
            lines.append((expression, result, lowered.value))
        lines.append(("destroy", self.call("DestroyProgram", ctypes.byref(program))))
        return lines

    def compile_in_threads(self, count, differ):
        results = [None] * count

        def run(i):
            results[i] = self.compile([f"-DNUMBER={i}"] if differ else ())

        threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(sum(results, []), key=str)

    def compile_beside(self):
        """Compiles while a different thread uses comgr in actions that are longer."""
        begun, ended = threading.Event(), threading.Event()
        comgr = Comgr(b"".join(LOOP % n for n in range(500)))

        def run():
            begun.set()
            while not ended.is_set():
                comgr.compile()

        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        time.sleep(0.2)
        lines = self.compile()
        ended.set()
        thread.join()
        return lines

    def do(self, word):
        verb, _, value = word.partition("=")
        if word.startswith("-"):
            self.options.append(word)
        elif verb in ("source", "name"):
            setattr(self, verb, value)
        elif verb == "header":
            name, text = value.split("=", 1)
            self.headers = [other for other in self.headers if other[0] != name] + [(name, text)]
        elif verb == "expression":
            self.expressions.append(value)
        elif verb in ("compile", "threads", "differing"):
            for line in (self.compile_in_threads(int(value), verb == "differing") if value
                         else self.compile()):
                print(*line)
            self.options, self.twice, self.asks = [], None, None
        elif verb == "beside":
            for line in self.compile_beside():
                print(*line)
            self.options = []
        elif verb in ("twice", "text"):
            setattr(self, verb, True)
        elif verb == "ask":
            self.asks = value
        elif verb == "write":
            path, text = value.split("=", 1)
            with open(path, "w") as file:
                file.write(text)
        elif verb == "round":
            ctypes.CDLL("libm.so.6").fesetround(int(value))
        elif verb == "set":
            name, text = value.split("=", 1)
            ctypes.CDLL(None).setenv(name.encode(), text.encode(), 1)
        elif verb == "fork":
            sys.stdout.flush()
            child = os.fork()
            if child:
                sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        elif verb == "link":
            print("link", self.call("LinkComplete", None, None, None))
        elif verb == "damage":
            seed, folder = value.split("=", 1)
            damage_all(folder, random.Random(int(seed)))
        elif verb == "wait":
            while not os.path.exists(value):
                time.sleep(0.001)
        else:
            sys.exit(f"{word}?")


def main():
    hip = Hip(sys.argv[1])
    for word in sys.argv[2:]:
        hip.do(word)


if __name__ == "__main__":
    main()
