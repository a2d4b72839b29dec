/* Which level of the x86-64 psABI this machine runs: instructions by cpuid, saved registers by xgetbv.
   Source: System V ABI, AMD64 supplement, "micro-architecture levels"; Intel SDM, cpuid and xgetbv. */
#include <string.h>

#include "runtime/drivers/cpu/cpu.h"

static const char *const level_names[] = {"unknown", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

const char *weft_cpu_level_name(int level) { return level_names[level]; }

int weft_cpu_level_of(const char *arch) {
    for (int level = 1; level <= 4; level++)
        if (!strcmp(arch, level_names[level])) return level;
    return 0;
}

#if defined(__x86_64__)
#include <cpuid.h>

enum {
    LEAF1_ECX_V2 = 1 << 0 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23, /* SSE3 SSSE3 CX16 SSE4.1 SSE4.2 POPCNT */
    LEAF1_ECX_V3 = 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29,         /* FMA MOVBE OSXSAVE AVX F16C */
    LEAF7_EBX_V3 = 1 << 3 | 1 << 5 | 1 << 8,                                /* BMI1 AVX2 BMI2 */
    EXTENDED_ECX_V2 = 1 << 0,                                               /* LAHF */
    EXTENDED_ECX_V3 = 1 << 5,                                               /* LZCNT */
    XCR0_V3 = 1 << 1 | 1 << 2,                                              /* xmm, ymm */
    XCR0_V4 = XCR0_V3 | 1 << 5 | 1 << 6 | 1 << 7                            /* masks, zmm */
};
/* AVX512F DQ CD BW VL */
static const unsigned leaf7_ebx_v4 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;

static bool has(unsigned value, unsigned bits) { return (value & bits) == bits; }

static unsigned saved_registers(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

int weft_cpu_level(void) {
    unsigned a, b, c1, d, b7 = 0, c = 0, c_extended = 0;
    if (!__get_cpuid(1, &a, &b, &c1, &d)) return 1;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c, &d)) b7 = 0;
    if (!__get_cpuid(0x80000001u, &a, &b, &c_extended, &d)) c_extended = 0;
    if (!has(c1, LEAF1_ECX_V2) || !has(c_extended, EXTENDED_ECX_V2)) return 1;
    if (!has(c1, LEAF1_ECX_V3) || !has(b7, LEAF7_EBX_V3) || !has(c_extended, EXTENDED_ECX_V3)) return 2;
    unsigned saved = saved_registers();
    if (!has(saved, XCR0_V3)) return 2;
    return has(b7, leaf7_ebx_v4) && has(saved, XCR0_V4) ? 4 : 3;
}

void weft_cpu_brand(char *out_name, size_t capacity) {
    unsigned words[13] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
            words[0] = 0;
    char text[sizeof words];
    memcpy(text, words, sizeof words);
    const char *start = text;
    while (*start == ' ') start++;
    size_t length = strlen(start);
    if (length >= capacity) length = capacity - 1;
    memcpy(out_name, start, length);
    out_name[length] = 0;
}
#else
int weft_cpu_level(void) { return 0; }

void weft_cpu_brand(char *out_name, size_t capacity) {
    if (capacity) out_name[0] = 0;
}
#endif
