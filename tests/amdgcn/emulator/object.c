/* Code objects: an ELF image laid out in memory, its kernels found by their descriptors ("NAME.kd"). Every offset of
   the file is checked before it is followed, so that a damaged object is a status. Read next: decode.c. Source: "User
   Guide for AMDGPU Backend", Code Object; Kernel Descriptor. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/amdgcn/emulator/internal.h"

enum {
    MACHINE_AMDGPU = 224,
    OS_AMDHSA = 64,
    ABI_FIRST = 2, /* code object 4 */
    RELOCATION_RELATIVE64 = 13,
    DESCRIPTOR_BYTES = 64,
    IMAGE_MAX = 1 << 28
};

typedef struct view {
    const uint8_t *data;
    size_t bytes;
} view;

static const struct {
    const char *arch;
    unsigned flag; /* EF_AMDGPU_MACH */
} machines[] = {{"gfx90a", 0x3f}, {"gfx942", 0x4c}, {"gfx1030", 0x36}, {"gfx1100", 0x41}, {"gfx1200", 0x48}};

static bool inside(view file, uint64_t offset, uint64_t bytes) {
    return offset <= file.bytes && bytes <= file.bytes - offset;
}

static weft_status damaged(const char *what) { return WEFT_STATUS(WEFT_INVALID_DATA, "AMD code object: %s", what); }

static weft_status check_header(const amdgcn_machine *machine, view file, Elf64_Ehdr *out) {
    if (file.bytes < sizeof *out) return damaged("shorter than its header");
    memcpy(out, file.data, sizeof *out);
    if (memcmp(out->e_ident, ELFMAG, SELFMAG) || out->e_ident[EI_CLASS] != ELFCLASS64) return damaged("no 64-bit ELF");
    if (out->e_machine != MACHINE_AMDGPU || out->e_ident[EI_OSABI] != OS_AMDHSA || out->e_type != ET_DYN)
        return damaged("no linked object for AMD's HSA");
    if (out->e_ident[EI_ABIVERSION] < ABI_FIRST) return damaged("older than code object 4");
    const char *arch = "another processor";
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (machines[i].flag == (out->e_flags & 0xff)) arch = machines[i].arch;
    if (strcmp(arch, machine->arch))
        return WEFT_STATUS(WEFT_INVALID_DATA, "AMD code object for %s on a %s", arch, machine->arch);
    if (out->e_phentsize != sizeof(Elf64_Phdr) || out->e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(file, out->e_phoff, (uint64_t)out->e_phnum * sizeof(Elf64_Phdr)) ||
        !inside(file, out->e_shoff, (uint64_t)out->e_shnum * sizeof(Elf64_Shdr)))
        return damaged("its tables lie outside of it");
    return NULL;
}

static Elf64_Phdr segment_at(view file, const Elf64_Ehdr *header, int index) {
    Elf64_Phdr segment;
    memcpy(&segment, file.data + header->e_phoff + (size_t)index * sizeof segment, sizeof segment);
    return segment;
}

static Elf64_Shdr section_at(view file, const Elf64_Ehdr *header, unsigned index) {
    Elf64_Shdr section = {0};
    if (index < header->e_shnum)
        memcpy(&section, file.data + header->e_shoff + (size_t)index * sizeof section, sizeof section);
    return section;
}

static weft_status lay_out(amdgcn_code *code, view file, const Elf64_Ehdr *header) {
    for (int i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr s = segment_at(file, header, i);
        if (s.p_type != PT_LOAD) continue;
        if (!inside(file, s.p_offset, s.p_filesz) || s.p_filesz > s.p_memsz || s.p_vaddr > IMAGE_MAX ||
            s.p_memsz > IMAGE_MAX)
            return damaged("a segment lies outside of it");
        if (s.p_vaddr + s.p_memsz > code->image_bytes) code->image_bytes = s.p_vaddr + s.p_memsz;
    }
    code->image_bytes = (code->image_bytes + 4095) / 4096 * 4096;
    if (!code->image_bytes) return damaged("no segments");
    code->image = aligned_alloc(4096, code->image_bytes);
    code->decoded = calloc(code->image_bytes / 4, sizeof(amdgcn_instruction *));
    if (!code->image || !code->decoded) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a code object");
    memset(code->image, 0, code->image_bytes);
    for (int i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr s = segment_at(file, header, i);
        if (s.p_type == PT_LOAD) memcpy(code->image + s.p_vaddr, file.data + s.p_offset, s.p_filesz);
    }
    return NULL;
}

static weft_status relocate(amdgcn_code *code, view file, const Elf64_Shdr *section) {
    if (section->sh_entsize != sizeof(Elf64_Rela) || !inside(file, section->sh_offset, section->sh_size))
        return damaged("its relocations lie outside of it");
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section->sh_size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        memcpy(&r, file.data + section->sh_offset + at, sizeof r);
        if (ELF64_R_TYPE(r.r_info) != RELOCATION_RELATIVE64 || r.r_offset > code->image_bytes - 8)
            return damaged("a relocation that is not relative");
        uint64_t value = (uint64_t)(uintptr_t)code->image + (uint64_t)r.r_addend;
        memcpy(code->image + r.r_offset, &value, 8);
    }
    return NULL;
}

static uint32_t word_at(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

static weft_status read_descriptor(const amdgcn_code *code, uint64_t address, amdgcn_kernel *kernel) {
    if (address > code->image_bytes - DESCRIPTOR_BYTES) return damaged("a kernel descriptor lies outside of it");
    const uint8_t *at = code->image + address;
    amdgcn_descriptor *d = &kernel->descriptor;
    int64_t entry;
    memcpy(&entry, at + 16, 8);
    d->shared_bytes = word_at(at), d->scratch_bytes = word_at(at + 4), d->argument_bytes = word_at(at + 8);
    d->resource1 = word_at(at + 48), d->resource2 = word_at(at + 52);
    d->properties = word_at(at + 56) & 0xffff, d->preload = word_at(at + 56) >> 16;
    d->entry = address + (uint64_t)entry;
    if (d->entry >= code->image_bytes || d->entry % 4) return damaged("a kernel starts outside of it");
    return NULL;
}

static weft_status add_kernel(amdgcn_code *code, const char *name, uint64_t address) {
    amdgcn_kernel *grown = realloc(code->kernels, ((size_t)code->kernel_count + 1) * sizeof *grown);
    if (!grown) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a kernel");
    code->kernels = grown;
    amdgcn_kernel *kernel = &grown[code->kernel_count];
    memset(kernel, 0, sizeof *kernel);
    WEFT_TRY(read_descriptor(code, address, kernel), "kernel %s", name);
    char *copy = malloc(strlen(name) + 1);
    if (!copy) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a kernel");
    kernel->name = strcpy(copy, name);
    code->kernel_count++;
    return NULL;
}

typedef struct symbols {
    Elf64_Shdr table, strings;
} symbols;

/* The symbol and its name, which ends within the strings; false: damaged. */
static bool symbol_at(view file, const symbols *s, uint64_t index, Elf64_Sym *out, const char **out_name) {
    memcpy(out, file.data + s->table.sh_offset + index * sizeof *out, sizeof *out);
    if (out->st_name >= s->strings.sh_size) return false;
    *out_name = (const char *)file.data + s->strings.sh_offset + out->st_name;
    return memchr(*out_name, 0, s->strings.sh_size - out->st_name) != NULL;
}

static weft_status find_kernels(amdgcn_code *code, view file, const symbols *s) {
    if (!inside(file, s->table.sh_offset, s->table.sh_size) || !inside(file, s->strings.sh_offset, s->strings.sh_size))
        return damaged("its symbols lie outside of it");
    uint64_t count = s->table.sh_size / sizeof(Elf64_Sym);
    Elf64_Sym symbol;
    const char *name;
    for (uint64_t i = 1; i < count; i++) {
        if (!symbol_at(file, s, i, &symbol, &name)) return damaged("a symbol's name lies outside of it");
        size_t length = strlen(name);
        if (length < 4 || length > 4000 || strcmp(name + length - 3, ".kd")) continue;
        char kernel[4001];
        memcpy(kernel, name, length - 3);
        kernel[length - 3] = 0;
        WEFT_TRY(add_kernel(code, kernel, symbol.st_value), "reading a code object");
    }
    for (uint64_t i = 1; i < count; i++)
        for (int k = 0; symbol_at(file, s, i, &symbol, &name) && k < code->kernel_count; k++)
            if (!strcmp(code->kernels[k].name, name)) code->kernels[k].bytes = symbol.st_size;
    return NULL;
}

static weft_status load(amdgcn_code *code, view file) {
    Elf64_Ehdr header;
    WEFT_TRY(check_header(code->machine, file, &header), "loading");
    WEFT_TRY(lay_out(code, file, &header), "loading");
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section = section_at(file, &header, i);
        symbols s = {section, section_at(file, &header, section.sh_link)};
        if (section.sh_type == SHT_RELA) WEFT_TRY(relocate(code, file, &section), "loading");
        if (section.sh_type == SHT_DYNSYM) WEFT_TRY(find_kernels(code, file, &s), "loading");
    }
    if (!code->kernel_count) return damaged("no kernels");
    WEFT_TRY(amdgcn_machine_map(code->machine, code->image, code->image_bytes, false), "loading");
    return NULL;
}

weft_status amdgcn_code_load(amdgcn_machine *machine, const void *data, size_t bytes, amdgcn_code **out_code) {
    *out_code = NULL;
    amdgcn_code *code = calloc(1, sizeof *code);
    if (!code) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a code object");
    code->machine = machine;
    weft_status status = load(code, (view){data, bytes});
    if (status)
        amdgcn_code_unload(code);
    else
        *out_code = code;
    return status;
}

void amdgcn_code_unload(amdgcn_code *code) {
    if (!code) return;
    if (code->image) amdgcn_machine_unmap(code->machine, code->image);
    for (int i = 0; i < code->kernel_count; i++) free((void *)(uintptr_t)code->kernels[i].name);
    for (uint64_t i = 0; code->decoded && i < code->image_bytes / 4; i++) amdgcn_instruction_free(code->decoded[i]);
    for (int i = 0; i < 2; i++)
        if (code->disassembler[i]) LLVMDisasmDispose(code->disassembler[i]);
    free(code->kernels);
    free(code->decoded);
    free(code->image);
    free(code->unknown);
    free(code);
}
