/* The linker: places sections, then symbols, then applies relocations. Objects come from our own code generator, but
   every offset is checked: a damaged object gives a status. Read next: link.h. */
#include "codegen/llvm/link.h"

#include <elf.h>
#include <string.h>

enum { PAGE_BYTES = 4096, HEADER_BYTES = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr), SECTION_COUNT = 6 };

typedef struct object {
    const uint8_t *data;
    size_t bytes;
    const Elf64_Shdr *sections;
    int section_count;
    uint64_t *addresses; /* by section; 0 = not in the image */
    const Elf64_Sym *symbols;
    size_t symbol_count;
    const char *names;
    size_t names_bytes;
} object;

typedef struct linker {
    weft_allocator allocator;
    object *objects;
    int object_count;
    uint64_t rodata_end, text_start, text_end;
    size_t symbol_count, string_bytes;
    uint8_t *image;
    size_t image_bytes;
} linker;

static uint64_t round_up(uint64_t value, uint64_t align) {
    return align > 1 ? (value + align - 1) / align * align : value;
}

static bool inside(const object *o, uint64_t offset, uint64_t bytes) {
    return offset <= o->bytes && bytes <= o->bytes - offset;
}

static const char *symbol_name(const object *o, const Elf64_Sym *symbol) {
    return symbol->st_name < o->names_bytes ? o->names + symbol->st_name : "";
}

static weft_status open_object(linker *l, int index, const weft_link_object *source) {
    object *o = &l->objects[index];
    const Elf64_Ehdr *header = source->data;
    o->data = source->data;
    o->bytes = source->bytes;
    if (o->bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_REL || header->e_machine != EM_X86_64 ||
        header->e_shoff % 8 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(o, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
        return WEFT_STATUS(WEFT_INTERNAL, "object %d is no x86-64 relocatable file", index);
    o->sections = (const Elf64_Shdr *)(const void *)(o->data + header->e_shoff);
    o->section_count = header->e_shnum;
    o->addresses = weft_allocate(l->allocator, ((size_t)o->section_count + 1) * sizeof *o->addresses);
    if (!o->addresses) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to link %d objects", l->object_count);
    for (int i = 0; i < o->section_count; i++) {
        const Elf64_Shdr *section = &o->sections[i];
        if (section->sh_type != SHT_NOBITS && !inside(o, section->sh_offset, section->sh_size))
            return WEFT_STATUS(WEFT_INTERNAL, "object %d: section %d lies outside", index, i);
        if (section->sh_type != SHT_SYMTAB) continue;
        if (section->sh_link >= (unsigned)o->section_count || section->sh_offset % 8)
            return WEFT_STATUS(WEFT_INTERNAL, "object %d: bad symbol table", index);
        const Elf64_Shdr *strings = &o->sections[section->sh_link];
        o->symbols = (const Elf64_Sym *)(const void *)(o->data + section->sh_offset);
        o->symbol_count = section->sh_size / sizeof *o->symbols;
        o->names = (const char *)(o->data + strings->sh_offset);
        o->names_bytes = strings->sh_size;
        if (!o->names_bytes || !inside(o, strings->sh_offset, strings->sh_size) || o->names[o->names_bytes - 1])
            return WEFT_STATUS(WEFT_INTERNAL, "object %d: bad string table", index);
    }
    return NULL;
}

static bool is_placed(const Elf64_Shdr *section, bool code) {
    return (section->sh_flags & SHF_ALLOC) && section->sh_type == SHT_PROGBITS && section->sh_size > 0 &&
           ((section->sh_flags & SHF_EXECINSTR) != 0) == code;
}

/* Gives all sections of one kind their addresses from `at` on; returns the end. */
static uint64_t place(linker *l, bool code, uint64_t at) {
    for (int i = 0; i < l->object_count; i++)
        for (int k = 0; k < l->objects[i].section_count; k++) {
            const Elf64_Shdr *section = &l->objects[i].sections[k];
            if (!is_placed(section, code)) continue;
            at = round_up(at, section->sh_addralign > 64 || code ? 64 : section->sh_addralign);
            l->objects[i].addresses[k] = at;
            at += section->sh_size;
        }
    return at;
}

static weft_status check_sections(const linker *l) {
    for (int i = 0; i < l->object_count; i++)
        for (int k = 0; k < l->objects[i].section_count; k++) {
            const Elf64_Shdr *section = &l->objects[i].sections[k];
            if ((section->sh_flags & SHF_ALLOC) && section->sh_size > 0 &&
                ((section->sh_flags & SHF_WRITE) || section->sh_type == SHT_NOBITS))
                return WEFT_STATUS(WEFT_INTERNAL, "object %d has writable data: generated code may not keep state", i);
        }
    return NULL;
}

static bool is_kernel(const object *o, const Elf64_Sym *symbol) {
    return ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < o->section_count && o->addresses[symbol->st_shndx];
}

/* The kernel whose code contains `offset` of section `section`, for messages. */
static const char *kernel_at(const object *o, int section, uint64_t offset) {
    for (size_t i = 0; i < o->symbol_count; i++) {
        const Elf64_Sym *symbol = &o->symbols[i];
        if (symbol->st_shndx == section && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && offset >= symbol->st_value &&
            offset - symbol->st_value < symbol->st_size)
            return symbol_name(o, symbol);
    }
    return "?";
}

static weft_status relocate_one(linker *l, const object *o, int target, const Elf64_Rela *relocation) {
    uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
    uint64_t index = ELF64_R_SYM(relocation->r_info), offset = relocation->r_offset;
    const char *kernel = kernel_at(o, target, offset);
    if (index >= o->symbol_count || o->sections[target].sh_size < 4 || offset > o->sections[target].sh_size - 4)
        return WEFT_STATUS(WEFT_INTERNAL, "kernel %s: a relocation lies outside", kernel);
    const Elf64_Sym *symbol = &o->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF)
        return WEFT_STATUS(WEFT_INTERNAL, "kernel %s needs the symbol %s: generated code must not call libraries",
                           kernel, symbol_name(o, symbol));
    if (symbol->st_shndx >= o->section_count || !o->addresses[symbol->st_shndx])
        return WEFT_STATUS(WEFT_INTERNAL, "kernel %s refers to a section outside the image", kernel);
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
        return WEFT_STATUS(WEFT_INTERNAL, "kernel %s: relocation type %u is not relative to the code", kernel,
                           (unsigned)type);
    uint64_t at = o->addresses[target] + offset, to = o->addresses[symbol->st_shndx] + symbol->st_value;
    int64_t value = (int64_t)(to + (uint64_t)relocation->r_addend - at);
    if (value < INT32_MIN || value > INT32_MAX)
        return WEFT_STATUS(WEFT_INTERNAL, "kernel %s: the image is too large", kernel);
    int32_t narrow = (int32_t)value;
    memcpy(l->image + at, &narrow, sizeof narrow);
    return NULL;
}

static weft_status relocate(linker *l) {
    for (int i = 0; i < l->object_count; i++) {
        const object *o = &l->objects[i];
        for (int k = 0; k < o->section_count; k++) {
            const Elf64_Shdr *section = &o->sections[k];
            if (section->sh_type != SHT_RELA || section->sh_info >= (unsigned)o->section_count ||
                !o->addresses[section->sh_info])
                continue;
            if (section->sh_offset % 8) return WEFT_STATUS(WEFT_INTERNAL, "object %d: misaligned relocations", i);
            const Elf64_Rela *relocations = (const Elf64_Rela *)(const void *)(o->data + section->sh_offset);
            for (size_t n = 0; n < section->sh_size / sizeof *relocations; n++) {
                weft_status status = relocate_one(l, o, (int)section->sh_info, &relocations[n]);
                if (status) return status;
            }
        }
    }
    return NULL;
}

static void copy_sections(linker *l) {
    memset(l->image + l->text_start, 0xcc, l->text_end - l->text_start); /* gaps trap */
    for (int i = 0; i < l->object_count; i++)
        for (int k = 0; k < l->objects[i].section_count; k++)
            if (l->objects[i].addresses[k])
                memcpy(l->image + l->objects[i].addresses[k], l->objects[i].data + l->objects[i].sections[k].sh_offset,
                       l->objects[i].sections[k].sh_size);
}

static const char section_names[] = "\0.rodata\0.text\0.symtab\0.strtab\0.shstrtab";

/* Symbols, strings and section headers behind the code. */
static void write_tables(linker *l) {
    uint64_t symbols_at = round_up(l->text_end, 8), strings_at = symbols_at + (l->symbol_count + 1) * sizeof(Elf64_Sym);
    uint64_t names_at = strings_at + l->string_bytes, headers_at = round_up(names_at + sizeof section_names, 8);
    Elf64_Sym *symbols = (Elf64_Sym *)(void *)(l->image + symbols_at);
    char *strings = (char *)(l->image + strings_at);
    size_t used = 1, count = 1;
    for (int i = 0; i < l->object_count; i++)
        for (size_t n = 0; n < l->objects[i].symbol_count; n++) {
            const object *o = &l->objects[i];
            const Elf64_Sym *symbol = &o->symbols[n];
            if (!is_kernel(o, symbol)) continue;
            const char *name = symbol_name(o, symbol);
            symbols[count++] = (Elf64_Sym){.st_name = (Elf64_Word)used,
                                           .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                           .st_shndx = 2,
                                           .st_value = o->addresses[symbol->st_shndx] + symbol->st_value,
                                           .st_size = symbol->st_size};
            memcpy(strings + used, name, strlen(name) + 1);
            used += strlen(name) + 1;
        }
    memcpy(l->image + names_at, section_names, sizeof section_names);
    Elf64_Shdr *headers = (Elf64_Shdr *)(void *)(l->image + headers_at);
    headers[1] = (Elf64_Shdr){.sh_name = 1,
                              .sh_type = SHT_PROGBITS,
                              .sh_flags = SHF_ALLOC,
                              .sh_addr = HEADER_BYTES,
                              .sh_offset = HEADER_BYTES,
                              .sh_size = l->rodata_end - HEADER_BYTES,
                              .sh_addralign = 1};
    headers[2] = (Elf64_Shdr){.sh_name = 9,
                              .sh_type = SHT_PROGBITS,
                              .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                              .sh_addr = l->text_start,
                              .sh_offset = l->text_start,
                              .sh_size = l->text_end - l->text_start,
                              .sh_addralign = 64};
    headers[3] = (Elf64_Shdr){.sh_name = 15,
                              .sh_type = SHT_SYMTAB,
                              .sh_offset = symbols_at,
                              .sh_size = count * sizeof(Elf64_Sym),
                              .sh_link = 4,
                              .sh_info = 1,
                              .sh_addralign = 8,
                              .sh_entsize = sizeof(Elf64_Sym)};
    headers[4] = (Elf64_Shdr){
        .sh_name = 23, .sh_type = SHT_STRTAB, .sh_offset = strings_at, .sh_size = l->string_bytes, .sh_addralign = 1};
    headers[5] = (Elf64_Shdr){.sh_name = 31,
                              .sh_type = SHT_STRTAB,
                              .sh_offset = names_at,
                              .sh_size = sizeof section_names,
                              .sh_addralign = 1};
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)l->image;
    *header = (Elf64_Ehdr){.e_type = ET_DYN,
                           .e_machine = EM_X86_64,
                           .e_version = EV_CURRENT,
                           .e_phoff = sizeof *header,
                           .e_shoff = headers_at,
                           .e_ehsize = sizeof *header,
                           .e_phentsize = sizeof(Elf64_Phdr),
                           .e_phnum = 2,
                           .e_shentsize = sizeof(Elf64_Shdr),
                           .e_shnum = SECTION_COUNT,
                           .e_shstrndx = 5};
    memcpy(header->e_ident, ELFMAG, SELFMAG);
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_ident[EI_DATA] = ELFDATA2LSB;
    header->e_ident[EI_VERSION] = EV_CURRENT;
    Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(l->image + sizeof *header);
    segments[0] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = l->rodata_end, .p_memsz = l->rodata_end, .p_align = PAGE_BYTES};
    segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                               .p_flags = PF_R | PF_X,
                               .p_offset = l->text_start,
                               .p_vaddr = l->text_start,
                               .p_paddr = l->text_start,
                               .p_filesz = l->text_end - l->text_start,
                               .p_memsz = l->text_end - l->text_start,
                               .p_align = PAGE_BYTES};
}

static weft_status lay_out(linker *l) {
    l->rodata_end = place(l, false, HEADER_BYTES);
    l->text_start = round_up(l->rodata_end, PAGE_BYTES);
    l->text_end = place(l, true, l->text_start);
    l->string_bytes = 1;
    for (int i = 0; i < l->object_count; i++)
        for (size_t n = 0; n < l->objects[i].symbol_count; n++)
            if (is_kernel(&l->objects[i], &l->objects[i].symbols[n])) {
                l->symbol_count++;
                l->string_bytes += strlen(symbol_name(&l->objects[i], &l->objects[i].symbols[n])) + 1;
            }
    uint64_t tables = (l->symbol_count + 1) * sizeof(Elf64_Sym) + l->string_bytes + sizeof section_names +
                      SECTION_COUNT * sizeof(Elf64_Shdr) + 16;
    l->image_bytes = round_up(l->text_end, 8) + tables;
    l->image = weft_allocate(l->allocator, l->image_bytes);
    return l->image ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a code image of %zu bytes", l->image_bytes);
}

weft_status weft_link(weft_allocator allocator, int object_count, const weft_link_object *objects,
                      weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    linker l = {.allocator = allocator, .object_count = object_count};
    l.objects = weft_allocate(allocator, ((size_t)object_count + 1) * sizeof *l.objects);
    if (!l.objects) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to link %d objects", object_count);
    weft_status status = NULL;
    for (int i = 0; i < object_count && !status; i++) status = open_object(&l, i, &objects[i]);
    if (!status) status = check_sections(&l);
    if (!status) status = lay_out(&l);
    if (!status) {
        copy_sections(&l);
        write_tables(&l);
        status = relocate(&l);
    }
    if (status)
        weft_free(allocator, l.image, l.image_bytes);
    else
        *out_image = (weft_code_image){l.image, l.image_bytes};
    for (int i = 0; i < object_count; i++)
        weft_free(allocator, l.objects[i].addresses,
                  ((size_t)l.objects[i].section_count + 1) * sizeof *l.objects[i].addresses);
    weft_free(allocator, l.objects, ((size_t)object_count + 1) * sizeof *l.objects);
    return status;
}
