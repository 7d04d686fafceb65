# SPDX-License-Identifier: Apache-2.0
"""Programs: the input of a compiler, as data that can be kept, reduced and rendered.

A program is a dictionary:

    atoms        pairs of text: the text before the kernel, and the text in it
    options      a list; "@includes@" stands for the world's -I options
    name         the program's name for NVRTC; None: no name
    headers      pairs of name and text that are passed in memory
    expressions  NVRTC's name expressions
    module       OpenCL: the default of the module's constant, if it is not the usual one
    link         OpenCL: the program is compiled and linked, not built; NVRTC: nvJitLink links its
                 PTX too
    constants    OpenCL: pairs of identifier and value for the SPIR-V module that is built instead
                 of source text; None: the program is source text

"@root@" stands for the root folder of the worlds.
"""

import copy
import json
import struct

# The devices whose compilers have NVRTC's functions, under the same names or others.
RUNTIME_COMPILERS = ("nvrtc", "hiprtc")

# Options of NVRTC, and those that nvJitLink then gets.
LINK_OPTIONS = {"-ftz=true": "-ftz=1", "-fmad=false": "-fma=0", "-lineinfo": "-lineinfo", "-G": "-g",
                "-prec-div=false": "-prec-div=0", "--maxrregcount=32": "-maxrregcount=32",
                "-D_X=1": "-O0"}

FUNCTIONS = ("exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh "
             "asinh acosh atanh sqrt rsqrt cbrt erf erfc lgamma tgamma ceil floor trunc rint fabs "
             "sinpi cospi logb ilogb round").split()
FUNCTIONS_OF_TWO = "pow fmod atan2 hypot fdim remainder copysign nextafter fmax fmin".split()
NATIVE = "native_exp native_sin native_log native_sqrt half_exp half_cos native_recip".split()
INTRINSICS = "__expf __sinf __logf __powf __fdividef __fsqrt_rd __fadd_ru __fmul_rz __frcp_rn".split()


# Line splices, which some languages and compilers remove within a name.
SPLICES = ["\\\n", "\\\n", "\\ \t\n", "\\\r\n", "??/\n", "\\\r", "\\\n\r"]
# Strings that may replace a blank in a directive.
BLANKS = [" ", " /* */ ", " /*\n*/ ", " /*/\n*/ ", " \\\n ", "\t", " /* \\\n*/ ", " /* // */ ", " /*\r\n*/ "]
# Headers, the macros that they define, and the folders in which they are.
HEADERS = [
    ("a.h", "A_VALUE", "inc1"), ("a.h", "A_VALUE", "inc2"), ("a.h", "A_VALUE", "one"),
    ("deep/b.h", "B_VALUE", "inc1"), ("c.h", "C_VALUE", "inc2"), ("mapped.h", "M_VALUE", "inc2"),
    ("link.h", "L_VALUE", "inc2"), ("local.h", "LOCAL_VALUE", "w"), ("late.h", "LATE_VALUE", "inc2"),
    ("common/n.h", "N_VALUE", "one"), ("common/n.h", "N_VALUE", "two"),
    ("both.h", "ONCE_VALUE", "inc1"), ("where.h", "WHERE_VALUE", "inc1"),
    ("asks.h", "ASKS_VALUE", "inc1"), ("older.h", "OLDER_VALUE", "inc1")]


class Maker:
    """Makes one program. It depends only on a random number generator."""

    def __init__(self, random, device, about=None):
        self.random = random
        self.about = about
        self.cuda = device in RUNTIME_COMPILERS
        self.hip = device == "hiprtc"
        self.pocl = device == "pocl"
        self.count = 0
        self.program = {"atoms": [], "options": [], "name": None, "headers": [],
                        "expressions": [], "link": False, "constants": None}

    def unique(self):
        self.count += 1
        return self.count

    def number(self, kind=""):
        r = self.random
        value = r.choice([r.uniform(0.01, 2), r.uniform(0.1, 90), 10 ** r.uniform(-8, 8), 0.1, 0.5,
                          1e-39, 3.0])
        text = repr(float(value))
        double = self.cuda and r.random() < 0.5
        return text if double and not kind else text + "f"

    def add(self, before, body):
        self.program["atoms"].append([before, body])

    def store(self, value):
        return "o[%d] = (float)(%s);" % (self.unique() % 60, value)

    # ---- arithmetic that a compiler folds ----

    def arithmetic(self):
        r = self.random
        form = r.choice(["%s / %s", "%s * %s", "%s + %s", "%s - %s / 3.0f", "1.0f / %s + %s",
                         "%s * %s * 1e-35f"])
        self.add("", self.store(form % (self.number(), self.number())))

    def tiny(self):
        """Returns an expression that is 0 if denormals are flushed."""
        self.add("", self.store("1e%d%s * 1e-%d%s * 1e%df" % (
            (-30, "f", 12, "f", 38) if not self.cuda or self.random.random() < 0.5
            else (-300, "", 15, "", 38))))

    def table(self):
        n = self.unique()
        space = "__constant__" if self.cuda else "__constant"
        values = ", ".join("%s / %s" % (self.number(), self.number("f")) for _ in range(3))
        self.add("%s float table%d[] = {%s};" % (space, n, values),
                 self.store("table%d[(int)o[63] & 1]" % n))

    def mathematics(self):
        r = self.random
        if r.random() < 0.25:
            self.add("", self.store("%s(%s, %s)" % (r.choice(FUNCTIONS_OF_TWO), self.number("f"),
                                                    self.number("f"))))
            return
        names = FUNCTIONS if self.cuda or r.random() < 0.7 else NATIVE
        name = r.choice(names)
        argument = self.number() if self.cuda else self.number("f")
        if not self.cuda and name in ("exp10", "ilogb"):
            name = "exp"
        value = "%s(%s)" % (name, argument)
        self.add("", "((double *)o)[%d] = %s;" % (self.unique() % 60, value)
                 if self.cuda and self.random.random() < 0.5 else self.store(value))

    def dense(self):
        """Adds many constants that the compiler folds with functions of the C library. If the
        processor's instructions or the library differ, a few of them differ in the last bit."""
        r = self.random

        def call(prefix):
            # PoCL's library lacks the remaining functions.
            names = "exp log log10 sin cos exp2 pow" + " tan asin atan" * self.cuda
            name = r.choice(names.split())
            second = ", %r" % r.uniform(0, 9) if name == "pow" else ""
            return "%s%s(%r%s)" % (prefix, name, r.uniform(0, 1), second)

        if self.cuda:
            body = ["((double *)o)[%d] = %s;" % (32 + n, call("")) for n in range(150)]
        else:
            # A work-item's part of the buffer has room for 32 constants.
            body = ["((__global ulong *)o)[%d] = %s;"
                    % (n, " ^ ".join("as_ulong(%s)" % call("__builtin_") for _ in range(16)))
                    for n in range(28)]
        self.add("" if self.cuda else "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
                 "\n".join(body))

    def builtin(self):
        if self.cuda:
            return self.mathematics()
        name = self.random.choice(["exp", "exp2", "pow", "sin", "cos", "log", "sqrt", "floor"])
        rest = ", " + self.number("f") if name == "pow" else ""
        self.add("", self.store("__builtin_%sf(%s%s)" % (name, self.number("f"), rest)))
        return None

    def intrinsic(self):
        if not self.cuda:
            return self.mathematics()
        # HIP lacks most of those that round.
        name = self.random.choice(INTRINSICS[:5] if self.hip else INTRINSICS)
        two = name in ("__powf", "__fdividef", "__fadd_ru", "__fmul_rz")
        self.add("", self.store("%s(%s%s)" % (name, self.number("f"),
                                              ", " + self.number("f") if two else "")))
        return None

    # ---- files ----

    def include(self):
        r = self.random
        # Of HIPRTC, most programs that would not be kept are left out.
        unkept = not self.hip or r.random() < 0.1
        name, macro, folder = r.choice(HEADERS if unkept else [
            header for header in HEADERS if header[0] not in ("where.h", "older.h")])
        form = r.choice(['#include "%s"', '#include "%s"', "#include <%s>", "#include <%s>",
                         '#define FILE_%d "%%s"\n#include FILE_%d' % ((self.unique(),) * 2),
                         '#if __has_include("%s")\n#include "%%s"\n#endif' % name,
                         '#if __has_include(<%s>)\n#define %s -2\n#endif' % (name, macro),
                         '#line %d "lined.h"\n#include "%%s"' % r.randrange(1, 99),
                         self.hidden_include()])
        if r.random() < 0.4:
            form = "#if __has_include(" + r.choice(['"%s"', "<%s>"]) + ")\n" + form + "\n#endif"
        if r.random() < 0.25:
            name = r.choice(["@root@/"] + ["../", "../"] * unkept + ["@root@/same/"]) + folder + "/" + name
        self.add(form.replace("%s", name) + "\n#ifndef %s\n#define %s -1\n#endif" % (macro, macro),
                 self.store(macro))
        self.search_includes()

    def search_includes(self):
        """Usually adds options that name folders. Some compilers search other folders too."""
        options = self.program["options"]
        if not {"@includes@", "-I."} & set(options):
            options += self.random.choice([["@includes@"]] * (2 if self.about else 8) + [["-I."], []])

    # ---- the preprocessor ----

    def spliced(self, name):
        """Returns the name with line splices in it."""
        r = self.random
        at = r.randrange(1, len(name))
        return name[:at] + r.choice(SPLICES) + name[at:]

    def pasted_name(self, name):
        """Returns an expression that makes the name by pasting, and adds the macro for it to this
        text, to the options or to a header."""
        r, n = self.random, self.unique()
        count = min(r.randint(2, 4), len(name))
        cuts = sorted(r.sample(range(1, len(name)), count - 1))
        if count == 3 and cuts[0] < len(name) - 1 and r.random() < 0.6:
            cuts[1] = cuts[0] + 1  # a single letter
        pieces = [name[a:b] for a, b in zip([0] + cuts, cuts + [None])]
        if not all(piece[0].isalpha() or piece[0] == "_" for piece in pieces):
            return name
        letters = "abcd"[:count]
        operator = r.choice(["##", "##", "%:%:", "??=??="])
        macro = "J%d(%s)" % (n, ", ".join(letters)), operator.join(letters)
        if r.random() < 0.3:
            self.program["options"].append("-D%s=%s" % (macro[0].replace(" ", ""), "##".join(letters)))
        elif count < 4 and r.random() < 0.4:
            self.add('#include "join.h"', "")
            self.search_includes()
            return "JOIN%s(%s)" % ("" if count == 2 else "3", ", ".join(pieces))
        else:
            self.add("#define %s %s" % macro, "")
        return "J%d(%s)" % (n, ", ".join(pieces))

    def hidden(self, name):
        """Returns the name, or an expression that a compiler may treat as the name."""
        return self.random.choice([lambda name: name, self.spliced, self.pasted_name,
                                   lambda name: self.pasted_name(self.spliced(name))])(name)

    def hidden_include(self):
        r = self.random
        word = r.choice(["include", "include", self.spliced("include"), "include_next", "import"])
        start = r.choice(["#", "#", "%:", "??=", "/* c \\\n*/ #", "#" + r.choice(BLANKS), "// \\ \n#",
                          "/*\n*/#", "// c\r\n#", "/\\\n* c *\\\n/ #"])
        return start + word + r.choice(BLANKS) + r.choice(['"%s"', "<%s>"]) + r.choice(["", "", " // c", "/*\n*/"])

    def clock(self):
        """Adds a clock macro, whose name may be hidden."""
        word = self.random.choice(["__TIME__[7]", "__TIME__[7]", "__DATE__[5]"] +
                                  ["__TIMESTAMP__[18]"] * (not self.cuda))
        name, rest = word[:word.index("[")], word[word.index("["):]
        self.add("", self.store(self.hidden(name) + rest))

    def header_clock(self):
        self.add('#include "stamp.h"\n#ifndef STAMP_VALUE\n#define STAMP_VALUE 1\n#endif',
                 self.store("STAMP_VALUE"))
        self.search_includes()

    def pragma(self):
        """Adds a pragma that depends on a file's time, whose words may be hidden."""
        r = self.random
        file = r.choice(["once.h", "@root@/inc1/once.h", "a.h", "@root@/inc1/a.h"])
        word = r.choice(["dependency", self.spliced("dependency")])
        line = "#pragma%sGCC%s%s%s\"%s\"" % (r.choice(BLANKS), r.choice(BLANKS), word, r.choice(BLANKS), file)
        text = "GCC dependency \"%s\"" % file
        n = self.unique()
        made = "#define P%d(x) _Pragma(#x)\n#define Q%d(x) P%d(x)\nQ%d(GCC %s \"%s\")" % (
            n, n, n, n, self.hidden("dependency"), file)
        self.add(r.choice([line, line, "_Pragma(%s)" % json.dumps(text), made]), "")
        self.search_includes()

    def assembly(self):
        """Adds assembly that reads a file, by a directive that may be hidden."""
        if self.cuda:
            return self.raw_string()
        r = self.random
        word = r.choice([".incbin", ".INCBIN", ".incbin", self.spliced(".incbin"), '.inc" "bin', "\\056incbin"])
        text = '"%s \\"@root@/inc1/a.h\\"\\n"' % word
        if r.random() < 0.3:
            n = self.unique()
            self.add("#define S%d(x) #x" % n, "")
            text = 'S%d(.) "incbin \\"@root@/inc1/a.h\\"\\n"' % n
        elif r.random() < 0.3:
            text = '".macro m a b\\n.\\\\a\\\\b \\"@root@/inc1/a.h\\"\\n.endm\\nm inc bin\\n.purgem m\\n"'
        n = self.unique() % 60
        self.add("", "{\nuint read;\n%s volatile(\"jmp 2f\\n1:\\n\" %s \"2: movl 2b-3(%%%%rip), %%0\\n\" "
                 ": \"=r\"(read));\no[%d] = read & 0xffff;\n}" % (self.hidden("__asm__"), text, n))
        return None

    def raw_string(self):
        if not self.cuda:
            return self.pragma()
        r, n = self.random, self.unique()
        text = r.choice(['\n#include "a.h"\n', "a\\\nb", ')" __TIME__', "??/\n", '"', "/*", "//\\\n"])
        self.add('__device__ const char raw%d[] = R"x(%s)x";' % (n, text),
                 self.store("raw%d[o[1] > 0] + sizeof raw%d" % (n, n)))
        return None

    def given_header(self):
        n = self.unique()
        name = "given%d.h" % n
        inner = self.random.choice(["", '#include "a.h"\n', '#include "c.h"\n'])
        self.program["headers"].append(
            [name, inner + "#define GIVEN%d %s\n" % (n, self.number("f"))])
        self.add('#include "%s"' % name, self.store("GIVEN%d" % n))
        if inner:
            self.search_includes()
        if not self.cuda:
            self.program["link"] = True

    def macros(self):
        n, r = self.unique(), self.random
        self.program["options"].append("-DSET%d=%s" % (n, r.choice(["1", "2.5f", "(3+4)"])))
        self.add("#ifndef SET%d\n#define SET%d 9\n#endif" % (n, n), self.store("SET%d" % n))

    def pasted(self):
        n = self.unique()
        left, right = self.random.choice([("A_VA", "LUE"), ("PASTED", "_%d" % n), ("__LI", "NE__")])
        self.add("#define PASTE%d(a, b) a##b\n#define PASTED_%d %s\n#ifndef A_VALUE\n#define A_VALUE 5"
                 "\n#endif" % (n, n, self.number("f")), self.store("PASTE%d(%s, %s)" % (n, left, right)))

    def place(self):
        word = self.random.choice(["sizeof(%s)", "%s[0]", "%s[sizeof(__FILE__) / 2]"])
        # On Intel's runtime, the name of a source is the number of its build.
        name = self.random.choice(["__FILE__", "__FILE__", "__BASE_FILE__"] + ["__FILE_NAME__"] * (not self.cuda))
        if (not self.cuda and not self.pocl) or self.random.random() < 0.3:
            word, name = "%s", self.random.choice(["__LINE__", "__INCLUDE_LEVEL__"] +
                                                  ["__COUNTER__"] * (not self.cuda))
        self.add("", self.store(word % self.hidden(name)))

    def conditional(self):
        macro = self.random.choice(
            ["__CUDA_ARCH__", "__cplusplus", "__CUDACC_RTC_MINIMAL__"] if self.cuda else
            ["__OPENCL_VERSION__", "__OPENCL_C_VERSION__", "__FAST_RELAXED_MATH__", "cl_khr_fp64"])
        self.add("", "#ifdef %s\n%s\n#endif" % (macro, self.store("%s + 0" % macro)))

    # ---- language ----

    def template(self):
        if not self.cuda:
            return self.attributes()
        n = self.unique()
        self.add("template <typename T> __global__ void t%d(T *p) { *p = (T)(%s); }"
                 % (n, self.number()), "")
        self.program["expressions"].append("t%d<%s>" % (n, self.random.choice(["float", "int", "double"])))
        return None

    def attributes(self):
        if self.cuda:
            return self.template()
        n = self.unique()
        attribute = self.random.choice(["reqd_work_group_size(1, 1, 1)", "vec_type_hint(float4)",
                                        "work_group_size_hint(4, 1, 1)"])
        self.add("__kernel __attribute__((%s)) void g%d(__global float *p) { *p = %s; }"
                 % (attribute, n, self.number("f")), "")
        return None

    def warning(self):
        self.add(self.random.choice(["#warning \"told\"", "#pragma no_such_pragma"]),
                 "int unused%d;" % self.unique())

    def extension(self):
        if self.cuda:
            self.add("", "#pragma unroll\nfor (int i = 0; i < 4; i++) o[i + 60] += %s;"
                     % self.number("f"))
        else:
            name = self.random.choice(["cl_khr_fp64", "cl_khr_byte_addressable_store", "all",
                                       "cl_no_such_extension"])
            state = "disable" if name == "all" else "enable"
            self.add("#pragma OPENCL EXTENSION %s : %s" % (name, state), "")
        self.add(self.random.choice(["", "#pragma STDC FP_CONTRACT OFF\n"]) if not self.cuda else "",
                 self.store("o[1] * o[2] + o[3]"))

    def pointers(self):
        """Adds two kernels: the first is compiled differently if pointers may not overlap, the
        second if NVRTC optimizes less."""
        if not self.cuda:
            return self.extension()
        n = self.unique()
        start = 'extern "C" __global__ void %s%d(float *a, const float *b, int n) {\n' \
            "a[0] = b[0];\na[1] = b[0] + b[1];\n"
        self.add((start + "}\n" + start +
                  "float s = 0;\nfor (int i = 0; i < n; i++) s += sinf(b[i]) / b[i + 1] * __expf(b[i]);\n"
                  "a[threadIdx.x] = s + %s;\n}") % ("p", n, "s", n, self.number("f")), "")
        return None

    def failure(self):
        self.add(self.random.choice(["#error \"refused\"", "int f(int x) { return y; }"]), "")

    # ---- all of it ----

    def choose_options(self):
        r, options = self.random, self.program["options"]
        if self.hip:
            options.append(r.choice(["--gpu-architecture=gfx90a", "--offload-arch=gfx90a",
                                     "--offload-arch=gfx906", "--offload-arch=gfx1030"]))
            # A program with a warning is not kept.
            for option, likely in (("-w", .7), ("-ffast-math", .1), ("-O1", .1), ("-O3", .1),
                                   ("-ffp-contract=off", .1), ("-std=c++17", .1), ("-D_X=1", .05),
                                   ("-fgpu-flush-denormals-to-zero", .05), ("-mllvm", .01),
                                   ("-g", .02), ("-munsafe-fp-atomics", .03)):
                if r.random() < likely:
                    options.append(option)
        elif self.cuda:
            options.append(r.choice(["-arch=compute_80", "-arch=sm_80", "-arch=sm_90",
                                     "-arch=compute_75"]))
            for option, likely in (("--use_fast_math", .1), ("-ftz=true", .1), ("-fmad=false", .1),
                                   ("-prec-div=false", .05), ("-lineinfo", .06), ("-G", .03),
                                   ("-dlto", .04), ("-rdc=true", .06), ("-std=c++20", .1),
                                   ("--restrict", .03), ("-default-device", .05),
                                   ("--optix-ir", .02), ("-w", .03), ("--gen-opt-lto", .02),
                                   ("-D_X=1", .05), ("--maxrregcount=32", .03)):
                if r.random() < likely:
                    options.append(option)
            if "-dlto" in options or "--optix-ir" in options or "--gen-opt-lto" in options:
                options[:] = [o for o in options if o != "-G"]
        else:
            for option, likely in (("-cl-fast-relaxed-math", .12), ("-cl-denorms-are-zero", .12),
                                   ("-cl-mad-enable", .1), ("-cl-std=CL1.2", .1),
                                   ("-cl-single-precision-constant", .08), ("-cl-opt-disable", .05),
                                   ("-cl-std=CL2.0", .05), ("-cl-kernel-arg-info", .15),
                                   ("-w", .05), ("-Werror", .03), ("-cl-finite-math-only", .05)):
                if r.random() < likely:
                    options.append(option)

    def make(self):
        r = self.random
        if not self.cuda and not self.pocl and not self.about and r.random() < 0.08:
            self.program["constants"] = [] if r.random() < 0.3 else [[7, r.randrange(1000)]]
            return self.program
        files = [(self.include, 12), (self.given_header, 1), (self.clock, 0.3), (self.header_clock, 0.2),
                 (self.pragma, 0.3), (self.assembly, 0.3), (self.raw_string, 0.3),
                 (self.place, 0.2 if self.hip else 1)]
        if self.about:
            more = 0.7 if self.about == "files" else 4
            kinds = files + [(self.clock, more), (self.pragma, more), (self.assembly, more)]
            count = r.randint(1, 3 if self.about == "files" else 2)
        else:
            kinds, count = files + [
                (self.arithmetic, 6), (self.tiny, 3), (self.table, 3), (self.mathematics, 10), (self.dense, 0.7),
                (self.builtin, 3), (self.intrinsic, 2), (self.macros, 2), (self.pasted, 2), (self.conditional, 2),
                (self.template, 2), (self.warning, 1), (self.extension, 2), (self.pointers, 1.5),
                (self.failure, 0.3)], r.randint(2, 6)
        for kind in r.choices([k for k, _ in kinds], [w for _, w in kinds], k=count):
            kind()
        self.choose_options()
        if self.cuda:
            self.program["name"] = r.choice([None, "k.cu", "k.cu", "sub/k.cu", "@root@/w/k.cu",
                                             "@root@/inc1/k.cu"])
            self.program["link"] = not self.hip and r.random() < 0.15
        return self.program


def make(random, device, about=None):
    """@about: "files" for a program about the files that a compiler finds; "words" for one about
    the words by which a text names files and clocks; None for one about everything."""
    return Maker(random, device, about).make()


KINDS = ["atom", "atom", "option", "order", "name", "header", "header name", "expression", "constant",
         "constant id", "module", "link"]


def vary(random, device, program, kind=None):
    """Returns a program that differs from this one in one thing."""
    made = copy.deepcopy(program)
    other = make(random, device)
    kind = kind or random.choice(KINDS)
    if kind == "option" and other["options"]:
        made["options"].append(random.choice(other["options"]))
    elif kind == "order" and len(made["options"]) > 1:
        made["options"].reverse()
    elif kind == "name" and device in RUNTIME_COMPILERS:
        made["name"] = random.choice([None, "k.cu", "sub/k.cu", "other.cu", "@root@/w/sub/k.cu"])
    elif kind == "header" and made["headers"]:
        made["headers"][0][1] += "#define MORE 1\n#undef A_VALUE\n#define A_VALUE 99\n"
    elif kind == "header name" and made["headers"]:
        made["headers"][0][0] = "renamed.h"
    elif kind == "expression" and made["expressions"]:
        made["expressions"][0] = made["expressions"][0].split("<")[0] + "<unsigned>"
    elif kind == "constant" and made["constants"] is not None:
        made["constants"] = [[7, random.randrange(1000)]]
    elif kind == "constant id" and made["constants"]:
        made["constants"][0][0] = 8
    elif kind == "module" and made["constants"] is not None:
        made["module"] = random.randrange(1000)
    elif kind == "link" and made["constants"] is None and device not in RUNTIME_COMPILERS:
        made["link"] = not made["link"] or bool(made["headers"])
    elif made["constants"] is None and other["atoms"]:
        made["atoms"].append(["", "o[62] = 1.0f / %d;" % random.randint(2, 9)])
    return made


def render(program, device):
    """Returns the source of a program."""
    kernel = 'extern "C" __global__ void k(float *o)' if device in RUNTIME_COMPILERS else \
        "__kernel void f(__global float *o)"
    before = "\n".join(before for before, _ in program["atoms"] if before)
    body = "\n".join(body for _, body in program["atoms"] if body)
    if device not in RUNTIME_COMPILERS:
        # Each work-item has its own part of the buffer, so the results are deterministic.
        body = "o += 64 * get_global_id(0);\n" + body
    return "%s\n%s {\n%s\n}\n" % (before, kernel, body)


# Kernel f, out[i] = base + i, where base is specialization constant 7: as in
# tests/support/spirv_module.h.
WORDS = [int(word, 16) for word in """
07230203 00010000 0 12 0 00020011 4 00020011 6 00020011 b 0003000e 2 2 0005000f 6 1 66 2
00030003 3 18e70 00030005 1 66 00040047 2 b 1c 00030047 2 16 00040047 3 1 7 00020013 4 00040015 5 20 0
00040015 6 40 0 00040017 7 6 3 00040020 8 1 7 00040020 9 5 5 00040021 a 4 9 00040032 5 3 4d
0004003b 8 2 1 00050036 4 1 0 a 00030037 9 b 000200f8 c 0006003d 7 d 2 2 20 00050051 6 e d 0
00040071 5 f e 00050080 5 10 3 f 00050046 9 11 b e 0005003e 11 10 2 4 000100fd 00010038
""".split()]
DEFAULT = WORDS.index(0x4d)


def module(base):
    """Returns the module with a different default."""
    words = list(WORDS)
    words[DEFAULT] = base
    return struct.pack("<%dI" % len(words), *words)


def steps(program, device, includes):
    """Returns the program as steps of a worker's job, without the step that runs it."""
    options = []
    for option in program["options"]:
        options += includes if option == "@includes@" else [option]
    if device in RUNTIME_COMPILERS:
        yield "source", render(program, device)
        if program["name"] is not None:
            yield "name", program["name"]
        for option in options:
            yield "option", option
        for expression in program["expressions"]:
            yield "expression", expression
        if program["link"]:
            for option, of_link in LINK_OPTIONS.items():
                if option in options:
                    yield "link option", of_link
            yield "link", ""
    else:
        if program["constants"] is None:
            yield "source", render(program, device)
        else:
            yield "il", module(program.get("module", 77))
            for constant in program["constants"]:
                yield "constant", "%d %d" % tuple(constant)
        yield "options", " ".join(options)
        if program["link"]:
            yield "link", ""
    for name, text in program["headers"]:
        yield "header", name
        yield "header.content", text
