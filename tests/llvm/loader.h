/* Maps a code image and calls its kernels: the shortest reader of what codegen/llvm/link.h promises. */
#ifndef WEFT_TESTS_LLVM_LOADER_H
#define WEFT_TESTS_LLVM_LOADER_H

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "codegen/kernel/build.h"
#include "codegen/target.h"

typedef void (*kernel_function)(void *const *buffers, const int64_t *extents, int64_t lo, int64_t hi, void *scratch);

typedef struct loaded {
    unsigned char *base;
    size_t bytes;
    const unsigned char *file;
} loaded;

static inline loaded load_image(const weft_code_image *image) {
    const Elf64_Ehdr *header = image->data;
    ck_assert_int_eq(memcmp(header->e_ident, ELFMAG, SELFMAG), 0);
    ck_assert_int_eq(header->e_type, ET_DYN);
    const Elf64_Phdr *segments = (const void *)((const char *)image->data + header->e_phoff);
    size_t bytes = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        ck_assert_uint_le(segments[i].p_offset + segments[i].p_filesz, image->bytes);
        ck_assert_uint_eq(segments[i].p_vaddr % 4096, 0);
        if (segments[i].p_vaddr + segments[i].p_memsz > bytes) bytes = segments[i].p_vaddr + segments[i].p_memsz;
    }
    bytes = (bytes + 4095) / 4096 * 4096;
    unsigned char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    for (int i = 0; i < header->e_phnum; i++)
        memcpy(base + segments[i].p_vaddr, (const char *)image->data + segments[i].p_offset, segments[i].p_filesz);
    for (int i = 0; i < header->e_phnum; i++) {
        int protection = PROT_READ | (segments[i].p_flags & PF_X ? PROT_EXEC : 0);
        ck_assert_int_eq(segments[i].p_flags & PF_W, 0);
        ck_assert_int_eq(mprotect(base + segments[i].p_vaddr, (segments[i].p_memsz + 4095) / 4096 * 4096, protection),
                         0);
    }
    return (loaded){base, bytes, image->data};
}

static inline void unload_image(loaded *l) { munmap(l->base, l->bytes); }

static inline kernel_function find_kernel(const loaded *l, const char *name) {
    const Elf64_Ehdr *header = (const void *)l->file;
    const Elf64_Shdr *sections = (const void *)(l->file + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const Elf64_Sym *symbols = (const void *)(l->file + sections[i].sh_offset);
        const char *names = (const char *)(l->file + sections[sections[i].sh_link].sh_offset);
        for (size_t n = 1; n < sections[i].sh_size / sizeof *symbols; n++)
            if (strcmp(names + symbols[n].st_name, name) == 0) {
                kernel_function function;
                void *address = l->base + symbols[n].st_value;
                memcpy(&function, &address, sizeof function);
                return function;
            }
    }
    return NULL;
}

/* What every test needs: a context, an arena, and for each CPU variant that this machine runs a capability. */
typedef struct bench {
    weft_context *context;
    weft_arena arena;
    const weft_capability *capability;
} bench;

bench bench_open(const char *arch);
void bench_close(bench *b);
bool cpu_runs(const char *arch);
/* Compiles one kernel, runs blocks [0, grid) and frees the code. */
void run_kernel(bench *b, weft_kernel *kernel, void *const *buffers, const int64_t *extents, int64_t grid);

Suite *ops_suite(void);
Suite *convert_suite(void);
Suite *structure_suite(void);

extern const char *const arches[2];

#endif
