/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };

/* One register of one CPUID leaf. The mask clears the bits that say nothing about instructions and
 * the bits that vary between cores, boots or virtual machines. Bits without a known meaning are
 * kept. */
typedef struct feature_register {
    const char *name;
    uint32_t leaf;
    uint32_t subleaf;
    int index;
    uint32_t ignored;
} feature_register;

static const feature_register registers[] = {
    {"model", 0x1, 0, EAX, 0},
    /* DTES64, MONITOR, DS-CPL, VMX, SMX, EIST, TM2, CNXT-ID, SDBG, xTPR, PDCM, PCID, DCA, x2APIC,
     * TSC-deadline, OSXSAVE (the state mask is more precise), and the hypervisor bit. */
    {"1.ecx", 0x1, 0, ECX, 0x8926cdfcu},
    /* APIC, and the hyper-threading bit. */
    {"1.edx", 0x1, 0, EDX, 0x10000200u},
    {"7.0.ebx", 0x7, 0, EBX, 0},
    /* OSPKE. */
    {"7.0.ecx", 0x7, 0, ECX, 0x00000010u},
    /* Side-channel mitigations in microcode, and the hybrid bit. */
    {"7.0.edx", 0x7, 0, EDX, 0xfc00ae00u},
    {"7.1.eax", 0x7, 1, EAX, 0},
    {"7.1.ebx", 0x7, 1, EBX, 0},
    {"7.1.ecx", 0x7, 1, ECX, 0},
    {"7.1.edx", 0x7, 1, EDX, 0},
    {"d.1.eax", 0xd, 1, EAX, 0},
    {"24.0.ebx", 0x24, 0, EBX, 0},
    {"80000001.ecx", 0x80000001u, 0, ECX, 0},
    {"80000001.edx", 0x80000001u, 0, EDX, 0x00000200u},
};

static void read_leaf(uint32_t leaf, uint32_t subleaf, uint32_t values[4])
{
    memset(values, 0, 4 * sizeof *values);
    /* The processor has no leaves above the highest one that it reports. */
    if ((uint32_t)__get_cpuid_max(leaf & 0x80000000u, NULL) >= leaf) {
        __cpuid_count(leaf, subleaf, values[EAX], values[EBX], values[ECX], values[EDX]);
    }
}

/* Returns the set of registers that the system saves. The instructions that use a register are
 * available only if the system saves that register. */
static uint64_t read_state_mask(void)
{
    uint32_t values[4];
    read_leaf(0x1, 0, values);
    if (!(values[ECX] & bit_OSXSAVE)) {
        return 0;
    }
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

kiln_status kilni_cpu_describe(kilni_text *text)
{
    uint32_t values[4];
    char maker[13] = {0};
    read_leaf(0x0, 0, values);
    memcpy(maker, &values[EBX], 4);
    memcpy(maker + 4, &values[EDX], 4);
    memcpy(maker + 8, &values[ECX], 4);
    kilni_text_printf(text, "%s", maker);
    for (size_t i = 0; i < sizeof registers / sizeof *registers; i++) {
        const feature_register *r = &registers[i];
        read_leaf(r->leaf, r->subleaf, values);
        kilni_text_printf(text, " %s=%08x", r->name, values[r->index] & ~r->ignored);
    }
    return kilni_text_printf(text, " xcr0=%llx", (unsigned long long)read_state_mask());
}

#else

#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

/* Returns 1 if a line of /proc/cpuinfo names the model or its instructions. */
static int describes_model(const char *line, size_t length)
{
    static const char *const names[] = {"CPU implementer", "CPU architecture", "CPU variant",
                                        "CPU part",        "CPU revision",     "Features"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t name = strlen(names[i]);
        if (length > name && memcmp(line, names[i], name) == 0 && strchr("\t:", line[name])) {
            return 1;
        }
    }
    return 0;
}

/* Appends the lines that describe a model. A machine can have different cores, so several lines can
 * be equal. Each distinct line is appended once. */
static kiln_status append_model(kilni_text *text, const char *lines)
{
    kiln_status status = KILN_OK;
    size_t start = text->length;
    while (*lines && status == KILN_OK) {
        size_t length = strcspn(lines, "\n");
        if (describes_model(lines, length) &&
            !memmem(text->bytes + start, text->length - start, lines, length)) {
            kilni_text_append(text, "\n");
            status = kilni_text_append_bytes(text, lines, length);
        }
        lines += length + (lines[length] == '\n');
    }
    return status;
}

static kiln_status read_processor_file(kilni_text *lines)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) {
        return KILN_E_UNSUPPORTED;
    }
    char part[4096];
    size_t count;
    kiln_status status = KILN_OK;
    while (status == KILN_OK && (count = fread(part, 1, sizeof part, file)) > 0) {
        status = kilni_text_append_bytes(lines, part, count);
    }
    fclose(file);
    return status == KILN_OK && lines->length == 0 ? KILN_E_UNSUPPORTED : status;
}

kiln_status kilni_cpu_describe(kilni_text *text)
{
    kilni_text lines = {0};
    kilni_text_printf(text, "hwcap=%lx hwcap2=%lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
    kiln_status status = read_processor_file(&lines);
    if (status == KILN_OK) {
        status = append_model(text, lines.bytes);
    }
    kilni_text_done(&lines);
    return status;
}

#endif
