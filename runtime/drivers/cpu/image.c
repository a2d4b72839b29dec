/* The loader for freestanding code images: ELF64, ET_DYN, x86-64, only PT_LOAD segments that are read-only or read-only
   and executable, no relocations, no imports, no thread-local or writable data, kernels as global functions of .symtab.
   Invariant: memory is never writable and executable at once; every field of the file is checked before it is used, so
   a damaged image is a status. (What the code does when it runs is another matter: native code is trusted or not
   loaded.) dlopen is no alternative: it needs a path, and two images behind one /proc/self/fd path are taken for one
   library. Source: System V ABI, chapters 4 and 5. Writer: codegen/llvm/link.c. */
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/drivers/cpu/cpu.h"

enum { SEGMENTS_MAX = 8 };
static const uint64_t image_bytes_max = (uint64_t)1 << 30;

#define PROBLEM(...) WEFT_STATUS(WEFT_INVALID_DATA, __VA_ARGS__)

typedef struct segment {
    uint64_t address, offset, bytes;
    bool code;
} segment;

typedef struct layout {
    const unsigned char *file;
    size_t file_bytes;
    uint64_t page_bytes;
    Elf64_Ehdr header;
    segment segments[SEGMENTS_MAX];
    int segment_count;
    uint64_t memory_bytes;
} layout;

static bool inside(const layout *l, uint64_t offset, uint64_t bytes) {
    return offset <= l->file_bytes && bytes <= l->file_bytes - offset;
}

static weft_status check_header(layout *l) {
    Elf64_Ehdr *h = &l->header;
    if (l->file_bytes < sizeof *h) return PROBLEM("the code image is shorter than an ELF header");
    memcpy(h, l->file, sizeof *h);
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_ident[EI_VERSION] != EV_CURRENT || h->e_version != EV_CURRENT)
        return PROBLEM("the code image is no ELF64 file");
    if (h->e_type != ET_DYN || h->e_machine != EM_X86_64 || h->e_entry)
        return PROBLEM("the code image is no freestanding x86-64 image");
    if (h->e_ehsize != sizeof *h || h->e_phentsize != sizeof(Elf64_Phdr) || h->e_shentsize != sizeof(Elf64_Shdr))
        return PROBLEM("the code image has headers of the wrong size");
    if (!inside(l, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr)) ||
        !inside(l, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
        return PROBLEM("the header tables lie outside the code image");
    return NULL;
}

static weft_status add_segment(layout *l, const Elf64_Phdr *p) {
    bool code = p->p_flags == (PF_R | PF_X);
    if (l->segment_count == SEGMENTS_MAX) return PROBLEM("the code image has more than %d segments", SEGMENTS_MAX);
    if (!code && p->p_flags != PF_R)
        return PROBLEM("a segment is neither read-only nor code (flags %u)", (unsigned)p->p_flags);
    if (p->p_filesz != p->p_memsz) return PROBLEM("a segment has memory without bytes");
    if (!inside(l, p->p_offset, p->p_filesz)) return PROBLEM("a segment lies outside the code image");
    if (p->p_vaddr % l->page_bytes || p->p_offset % l->page_bytes) return PROBLEM("a segment is not aligned to pages");
    if (p->p_vaddr < l->memory_bytes || p->p_vaddr > image_bytes_max || p->p_memsz > image_bytes_max - p->p_vaddr)
        return PROBLEM("segments overlap or are too large");
    l->segments[l->segment_count++] = (segment){p->p_vaddr, p->p_offset, p->p_filesz, code};
    l->memory_bytes = (p->p_vaddr + p->p_memsz + l->page_bytes - 1) / l->page_bytes * l->page_bytes;
    return NULL;
}

static weft_status check_segments(layout *l) {
    for (int i = 0; i < l->header.e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, l->file + l->header.e_phoff + (size_t)i * sizeof p, sizeof p);
        if (p.p_type == PT_LOAD)
            WEFT_TRY(add_segment(l, &p), "segment %d", i);
        else if (p.p_type != PT_NULL && p.p_type != PT_NOTE && p.p_type != PT_PHDR && p.p_type != PT_GNU_STACK)
            return PROBLEM("program header %d of type %u: the image is not freestanding", i, (unsigned)p.p_type);
    }
    return l->memory_bytes ? NULL : PROBLEM("the code image has no segments");
}

static weft_status check_tables(const layout *l, weft_cpu_image *image) {
    Elf64_Shdr table = {0}, strings = {0};
    for (int i = 0; i < l->header.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, l->file + l->header.e_shoff + (size_t)i * sizeof s, sizeof s);
        if (s.sh_type == SHT_REL || s.sh_type == SHT_RELA || s.sh_type == SHT_DYNAMIC || (s.sh_flags & SHF_TLS))
            return PROBLEM("section %d: the image has relocations, a dynamic table or thread-local data", i);
        if (s.sh_type != SHT_SYMTAB) continue;
        if (table.sh_type) return PROBLEM("two symbol tables");
        table = s;
        if (s.sh_entsize != sizeof(Elf64_Sym) || s.sh_size % sizeof(Elf64_Sym) || !inside(l, s.sh_offset, s.sh_size) ||
            s.sh_link >= l->header.e_shnum)
            return PROBLEM("the symbol table is damaged");
        memcpy(&strings, l->file + l->header.e_shoff + (size_t)s.sh_link * sizeof strings, sizeof strings);
    }
    if (!table.sh_type) return PROBLEM("the code image has no symbol table");
    if (strings.sh_type != SHT_STRTAB || !strings.sh_size || !inside(l, strings.sh_offset, strings.sh_size) ||
        l->file[strings.sh_offset + strings.sh_size - 1])
        return PROBLEM("the names of the symbols are damaged");
    image->symbols = l->file + table.sh_offset;
    image->symbol_count = table.sh_size / sizeof(Elf64_Sym);
    image->names = (const char *)l->file + strings.sh_offset;
    image->names_bytes = strings.sh_size;
    return NULL;
}

static Elf64_Sym symbol_at(const weft_cpu_image *image, size_t index) {
    Elf64_Sym symbol;
    memcpy(&symbol, (const unsigned char *)image->symbols + index * sizeof symbol, sizeof symbol);
    return symbol;
}

static weft_status check_symbols(const layout *l, const weft_cpu_image *image) {
    for (size_t i = 1; i < image->symbol_count; i++) {
        Elf64_Sym symbol = symbol_at(image, i);
        if (symbol.st_name >= image->names_bytes) return PROBLEM("symbol %zu has no name", i);
        if (symbol.st_shndx == SHN_UNDEF) return PROBLEM("the image imports %.60s", image->names + symbol.st_name);
        if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
        bool in_code = false;
        for (int k = 0; k < l->segment_count; k++) {
            const segment *s = &l->segments[k];
            in_code |= s->code && symbol.st_value >= s->address && symbol.st_value - s->address < s->bytes &&
                       symbol.st_size <= s->bytes - (symbol.st_value - s->address);
        }
        if (!in_code) return PROBLEM("function %.60s lies outside the code", image->names + symbol.st_name);
    }
    return NULL;
}

/* Written while it is only writable, then sealed; gaps stay inaccessible. */
static weft_status map(const layout *l, weft_cpu_image *image) {
    void *memory = mmap(NULL, l->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %zu bytes of code", (size_t)l->memory_bytes);
    image->memory = memory;
    image->memory_bytes = l->memory_bytes;
    uint64_t end = 0;
    bool sealed = true;
    for (int i = 0; i < l->segment_count; i++) {
        const segment *s = &l->segments[i];
        uint64_t bytes = (s->bytes + l->page_bytes - 1) / l->page_bytes * l->page_bytes;
        memcpy(image->memory + s->address, l->file + s->offset, s->bytes);
        if (s->address > end) sealed &= !mprotect(image->memory + end, s->address - end, PROT_NONE);
        if (bytes) sealed &= !mprotect(image->memory + s->address, bytes, s->code ? PROT_READ | PROT_EXEC : PROT_READ);
        end = s->address + bytes;
    }
    if (sealed) return NULL;
    weft_cpu_image_unmap(image);
    return WEFT_STATUS(WEFT_UNAVAILABLE, "the operating system refuses executable memory");
}

weft_status weft_cpu_image_map(const void *data, size_t bytes, weft_cpu_image *out_image) {
    memset(out_image, 0, sizeof *out_image);
    long page = sysconf(_SC_PAGESIZE);
    layout l = {.file = data, .file_bytes = bytes, .page_bytes = page > 0 ? (uint64_t)page : 4096};
    WEFT_TRY(check_header(&l), "loading code");
    WEFT_TRY(check_segments(&l), "loading code");
    WEFT_TRY(check_tables(&l, out_image), "loading code");
    WEFT_TRY(check_symbols(&l, out_image), "loading code");
    return map(&l, out_image);
}

void weft_cpu_image_unmap(weft_cpu_image *image) {
    if (image->memory) (void)munmap(image->memory, image->memory_bytes);
    memset(image, 0, sizeof *image);
}

weft_status weft_cpu_image_find(const weft_cpu_image *image, const char *name, void **out_address) {
    *out_address = NULL;
    for (size_t i = 1; i < image->symbol_count; i++) {
        Elf64_Sym symbol = symbol_at(image, i);
        if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
            strcmp(image->names + symbol.st_name, name) != 0)
            continue;
        *out_address = image->memory + symbol.st_value;
        return NULL;
    }
    return WEFT_STATUS(WEFT_NOT_FOUND, "the code image has no kernel %s", name);
}
