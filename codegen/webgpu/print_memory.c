/* Memory, registers, vars. A buffer is an array of its carrier; of vec4 where every access is of four aligned elements;
   of words where elements are narrower than 32 bits. Shared memory holds one carrier per element. See print.h. */
#include <stdio.h>

#include "base/dtype.h"
#include "codegen/webgpu/print.h"

typedef weft_piece name;

/* -- what is known before printing */

static bool is_buffer(const weft_wgsl_printer *p, weft_kval memory) {
    return weft_kernel_get(p->kernel, memory)->op == WEFT_K_buffer;
}

static uint8_t *uses_of(const weft_wgsl_printer *p, weft_kval object) {
    return is_buffer(p, object) ? &p->argument_uses[weft_kernel_get(p->kernel, object)->i] : &p->uses[object];
}

static weft_dtype elem_of(const weft_wgsl_printer *p, weft_kval object) {
    return (weft_dtype)weft_ktype_of(p->kernel, object).elem;
}

static int bits_of(weft_dtype elem) { return elem == WEFT_BOOL ? 8 : weft_dtype_bits(elem); }

/* Elements in one 32-bit word of a buffer; 1 where they are a type of their own. */
static int per_word(const weft_wgsl_printer *p, weft_kval memory) {
    weft_dtype elem = elem_of(p, memory);
    bool native = weft_wgsl_class_of(p, elem) == WEFT_WGSL_F16;
    return is_buffer(p, memory) && bits_of(elem) < 32 && !native ? 32 / bits_of(elem) : 1;
}

static bool uniform_mask(const weft_wgsl_printer *p, weft_kval mask) {
    return mask == WEFT_KNONE || weft_ktype_of(p->kernel, mask).lanes == 1 ||
           weft_kernel_get(p->kernel, mask)->op == WEFT_K_splat;
}

typedef struct span {
    weft_kval memory, index, mask, other, value;
    int lanes;
    bool neighbours; /* lanes lie side by side */
    bool fours;      /* and are aligned vec4s */
    bool whole;      /* and cover whole words */
} span;

static span span_of(const weft_wgsl_printer *p, const weft_kinstr *instr) {
    bool load = instr->op == WEFT_K_load;
    span a = {.memory = weft_koperand(p->kernel, instr, 0),
              .index = weft_koperand(p->kernel, instr, 1),
              .mask = weft_koperand(p->kernel, instr, 2),
              .other = load ? weft_koperand(p->kernel, instr, 3) : WEFT_KNONE,
              .value = load ? WEFT_KNONE : weft_koperand(p->kernel, instr, 3)};
    a.lanes = load ? instr->type.lanes : weft_ktype_of(p->kernel, a.value).lanes;
    a.neighbours = weft_ktype_of(p->kernel, a.index).lanes == 1;
    int packed = per_word(p, a.memory);
    a.fours = a.neighbours && uniform_mask(p, a.mask) && a.lanes % 4 == 0 &&
              instr->align_bytes >= 4 * bits_of(elem_of(p, a.memory)) / 8;
    a.whole = packed > 1 && a.neighbours && a.lanes % packed == 0 && instr->align_bytes >= 4;
    return a;
}

static void scan_access(weft_wgsl_printer *p, const weft_kinstr *instr) {
    span a = span_of(p, instr);
    uint8_t *uses = uses_of(p, a.memory);
    bool load = instr->op == WEFT_K_load;
    int bytes = bits_of(elem_of(p, a.memory)) / 8;
    bool side = a.neighbours && uniform_mask(p, a.mask);
    *uses |= load ? WEFT_WGSL_LOADED : WEFT_WGSL_STORED;
    bool component = load && !is_buffer(p, a.memory); /* of a vec4; a store of one could undo another thread's */
    if (!a.fours && !component) *uses |= WEFT_WGSL_SINGLE;
    if (!side || a.lanes % 2 || instr->align_bytes < 2 * bytes) *uses |= WEFT_WGSL_ODD;
    if (!load && per_word(p, a.memory) > 1 && !(a.whole && uniform_mask(p, a.mask))) *uses |= WEFT_WGSL_PARTIAL;
}

void weft_wgsl_scan(weft_wgsl_printer *p) {
    for (size_t i = 0; i < p->kernel->instr_count; i++) {
        const weft_kinstr *instr = &p->kernel->instrs[i];
        switch ((int)instr->op) {
        case WEFT_K_load:
        case WEFT_K_store: scan_access(p, instr); break;
        case WEFT_K_atomic:
            *uses_of(p, weft_koperand(p->kernel, instr, 0)) |=
                WEFT_WGSL_LOADED | WEFT_WGSL_STORED | WEFT_WGSL_ATOMIC | WEFT_WGSL_SINGLE | WEFT_WGSL_ODD;
            break;
        case WEFT_K_get:
        case WEFT_K_set: {
            weft_kval index = weft_koperand(p->kernel, instr, 1);
            if (index != WEFT_KNONE && weft_kernel_get(p->kernel, index)->op != WEFT_K_constant)
                p->uses[weft_koperand(p->kernel, instr, 0)] |= WEFT_WGSL_DYNAMIC;
            break;
        }
        default: break;
        }
    }
}

const char *weft_wgsl_access(const weft_kernel *kernel, size_t argument) {
    const char *access = "none";
    for (size_t i = 0; i < kernel->instr_count; i++) {
        const weft_kinstr *instr = &kernel->instrs[i];
        if (instr->op == WEFT_K_buffer && (size_t)instr->i == argument) access = "read";
        if (instr->op != WEFT_K_store && instr->op != WEFT_K_atomic) continue;
        const weft_kinstr *memory = weft_kernel_get(kernel, weft_koperand(kernel, instr, 0));
        if (memory->op == WEFT_K_buffer && (size_t)memory->i == argument) return "read_write";
    }
    return access;
}

/* -- declarations */

/* Elements of one vector of a buffer or of shared memory: 4, 1, in buffers of f16 also 2. */
static int vector_of(const weft_wgsl_printer *p, weft_kval memory) {
    weft_dtype elem = elem_of(p, memory);
    bool half = weft_wgsl_class_of(p, elem) == WEFT_WGSL_F16;
    if (!is_buffer(p, memory)) {
        weft_dim extent = weft_kernel_get(p->kernel, memory)->extent;
        bool fours = elem == WEFT_F32 && weft_dim_is_number(extent) && extent % 4 == 0;
        return fours && !(*uses_of(p, memory) & (WEFT_WGSL_SINGLE | WEFT_WGSL_ATOMIC)) ? 4 : 1;
    }
    if (bits_of(elem) != 32 && !half) return 1;
    uint8_t uses = *uses_of(p, memory);
    return !(uses & WEFT_WGSL_SINGLE) ? 4 : half && !(uses & WEFT_WGSL_ODD) ? 2 : 1;
}

static bool is_wide(const weft_wgsl_printer *p, weft_kval memory) { return vector_of(p, memory) > 1; }

/* Does an access take whole vectors or words? Of buffers that hold vectors all do. */
static bool is_whole(const weft_wgsl_printer *p, const span *a) {
    return a->whole || (is_wide(p, a->memory) && (is_buffer(p, a->memory) || a->fours));
}

bool weft_wgsl_loads_fours(const weft_wgsl_printer *p, const weft_kinstr *load) {
    span a = span_of(p, load);
    bool apart = a.mask == WEFT_KNONE && a.neighbours && per_word(p, a.memory) == 1;
    return apart || (a.fours && vector_of(p, a.memory) == 4);
}

static bool is_atomic(const weft_wgsl_printer *p, weft_kval memory) {
    return (*uses_of(p, memory) & (WEFT_WGSL_ATOMIC | WEFT_WGSL_PARTIAL)) != 0;
}

/* f32 atomics work on bits. */
static const char *atomic_type(const weft_wgsl_printer *p, weft_dtype elem) {
    return weft_wgsl_class_of(p, elem) == WEFT_WGSL_I32 ? "i32" : "u32";
}

static name element_type(const weft_wgsl_printer *p, weft_kval memory) {
    weft_dtype elem = elem_of(p, memory);
    if (is_atomic(p, memory))
        return weft_piece_format("atomic<%s>", per_word(p, memory) > 1 ? "u32" : atomic_type(p, elem));
    if (per_word(p, memory) > 1) return weft_piece_format("u32");
    if (!is_wide(p, memory)) return weft_piece_format("%s", weft_wgsl_type(p, elem));
    return weft_piece_format("vec%d<%s>", vector_of(p, memory), weft_wgsl_type(p, elem));
}

weft_status weft_wgsl_shared_bytes(const weft_kernel *kernel, int64_t *out_bytes) {
    *out_bytes = 0;
    for (size_t i = 0; i < kernel->instr_count; i++) {
        const weft_kinstr *instr = &kernel->instrs[i];
        if (instr->op != WEFT_K_shared) continue;
        if (!weft_dim_is_number(instr->extent))
            return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: shared memory of a symbolic extent", kernel->name);
        weft_dtype elem = (weft_dtype)instr->type.elem;
        int64_t bytes = weft_dtype_bits(elem) == 64 ? 8 : elem == WEFT_F16 && kernel->capability->native_f16 ? 2 : 4;
        if (__builtin_mul_overflow(bytes, instr->extent, &bytes) || __builtin_add_overflow(bytes, bytes & 2, &bytes) ||
            __builtin_add_overflow(*out_bytes, bytes, out_bytes))
            return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: shared memory beyond all bounds", kernel->name);
    }
    return NULL;
}

static void declare_shared(weft_wgsl_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    if (!weft_dim_is_number(instr->extent)) {
        weft_wgsl_fail(p, WEFT_UNSUPPORTED, "shared memory of a symbolic extent");
        return;
    }
    weft_text_append(p->text, "var<workgroup> v%d: array<%s, %lld>;\n", id, element_type(p, id).text,
                     (long long)instr->extent / vector_of(p, id));
}

static void declare_buffer(weft_wgsl_printer *p, size_t argument, int binding) {
    const weft_kernel *kernel = p->kernel;
    weft_kval named = WEFT_KNONE;
    for (size_t i = 0; i < kernel->instr_count && named == WEFT_KNONE; i++)
        if (kernel->instrs[i].op == WEFT_K_buffer && (size_t)kernel->instrs[i].i == argument) named = (weft_kval)i;
    if (named == WEFT_KNONE) return; /* an argument that the kernel does not touch */
    if (is_atomic(p, named) && weft_dtype_bits(elem_of(p, named)) == 64)
        weft_wgsl_fail(p, WEFT_UNSUPPORTED, "atomics of 64 bits");
    weft_text_append(p->text, "@group(0) @binding(%d) var<storage, %s> a%zu: array<%s>;\n", binding,
                     weft_wgsl_access(kernel, argument), argument, element_type(p, named).text);
}

void weft_wgsl_print_declarations(weft_wgsl_printer *p) {
    const weft_kernel *kernel = p->kernel;
    int binding = 0;
    for (size_t i = 0; i < kernel->argument_count; i++) {
        weft_argument_source source = kernel->arguments[i].source;
        if (source == WEFT_ARGUMENT_TENSOR_MAP) weft_wgsl_fail(p, WEFT_UNSUPPORTED, "a tensor map");
        if (source != WEFT_ARGUMENT_EXTENT) declare_buffer(p, i, binding++);
    }
    weft_text_append(p->text, "struct weft_extents { grid: u32");
    for (size_t i = 0; i < kernel->argument_count; i++)
        if (kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT) weft_text_append(p->text, ", a%zu: i32", i);
    weft_text_append(p->text, " }\n@group(0) @binding(%d) var<uniform> extents: weft_extents;\n", binding);
    weft_text_append(p->text, "var<private> weft_zero: u32;\n");
    for (size_t i = 0; i < kernel->instr_count; i++)
        if (kernel->instrs[i].op == WEFT_K_shared) declare_shared(p, (weft_kval)i);
}

/* -- elements */

static name memory_name(const weft_wgsl_printer *p, weft_kval memory) {
    if (is_buffer(p, memory)) return weft_piece_format("a%d", (int)weft_kernel_get(p->kernel, memory)->i);
    return weft_piece_format("v%d", memory);
}

/* Element number of a lane, u32 or i32. */
static name index_of(const weft_wgsl_printer *p, weft_kval index, bool neighbours, int lane) {
    name base = weft_wgsl_lane(p, index, lane);
    if (weft_dtype_bits(elem_of(p, index)) == 64) base = weft_piece_format("%s.x", base.text);
    if (!neighbours || lane == 0) return base;
    return weft_piece_format("%s + %d", base.text, lane);
}

static name read_at(const weft_wgsl_printer *p, weft_kval memory, const char *index) {
    return weft_piece_format(is_atomic(p, memory) ? "atomicLoad(&%s[%s])" : "%s[%s]", memory_name(p, memory).text,
                             index);
}

/* A narrow element in the lowest bits of a word, bits above it set or not, as a value. */
static name value_of_bits(weft_dtype elem, name bits) {
    switch ((int)elem) {
    case WEFT_BOOL: return weft_piece_format("((%s) & 255u) != 0u", bits.text);
    case WEFT_I8: return weft_piece_format("sign8(%s)", bits.text);
    case WEFT_I16: return weft_piece_format("sign16(%s)", bits.text);
    case WEFT_U8: return weft_piece_format("(%s) & 255u", bits.text);
    default: return weft_piece_format("(%s) & 65535u", bits.text);
    }
}

static name load_one(const weft_wgsl_printer *p, const span *a, int lane) {
    weft_dtype elem = elem_of(p, a->memory);
    name index = index_of(p, a->index, a->neighbours, lane);
    int packed = per_word(p, a->memory);
    if (packed == 1) {
        name word = read_at(p, a->memory, index.text);
        if (is_wide(p, a->memory))
            return weft_piece_format("%s[u32(%s) >> 2u][u32(%s) & 3u]", memory_name(p, a->memory).text, index.text,
                                     index.text);
        if (is_atomic(p, a->memory) && elem == WEFT_F32) word = weft_piece_format("bitcast<f32>(%s)", word.text);
        return word;
    }
    name word = read_at(p, a->memory, weft_piece_format("u32(%s) >> %du", index.text, packed == 4 ? 2 : 1).text);
    return value_of_bits(
        elem, weft_piece_format("%s >> ((u32(%s) & %du) * %du)", word.text, index.text, packed - 1, 32 / packed));
}

/* Lanes that fill vec4s or words: each is read once. */
static void load_whole(weft_wgsl_printer *p, weft_kval id, const span *a, bool declared) {
    static const char components[] = "xyzw";
    weft_dtype elem = elem_of(p, a->memory);
    int packed = per_word(p, a->memory), group = packed > 1 ? packed : vector_of(p, a->memory),
        shift = group == 4 ? 2 : 1;
    for (int lane = 0; lane < a->lanes; lane++) {
        if (lane % group == 0) {
            name at =
                weft_piece_format("(u32(%s) >> %du) + %du", index_of(p, a->index, true, 0).text, shift, lane / group);
            name whole = read_at(p, a->memory, at.text);
            if (p->uses[id] & WEFT_WGSL_VECTOR)
                weft_wgsl_line(p, declared ? "v%d_%d = %s;" : "let v%d_%d = %s;", id, lane / 4, whole.text);
            else
                weft_wgsl_line(p, "let w%d_%d = %s;", id, lane, whole.text);
        }
        if (p->uses[id] & WEFT_WGSL_VECTOR) continue;
        name word = weft_piece_format("w%d_%d", id, lane / group * group), value;
        if (packed == 1)
            value = weft_piece_format("%s.%c", word.text, components[lane % group]);
        else
            value = value_of_bits(elem, weft_piece_format("%s >> %du", word.text, lane % packed * 32 / packed));
        if (declared)
            weft_wgsl_line(p, "%s = %s;", weft_wgsl_value(p, id, lane).text, value.text);
        else
            weft_wgsl_line(p, "let %s: %s = %s;", weft_wgsl_value(p, id, lane).text, weft_wgsl_type(p, elem),
                           value.text);
    }
}

static name lane_mask(const weft_wgsl_printer *p, weft_kval mask, int lane) { return weft_wgsl_lane(p, mask, lane); }

static void print_load(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr) {
    span a = span_of(p, instr);
    const char *type = weft_wgsl_type(p, (weft_dtype)instr->type.elem);
    bool whole = is_whole(p, &a), vector = (p->uses[id] & WEFT_WGSL_VECTOR) != 0;
    if (a.mask == WEFT_KNONE) {
        if (whole) {
            load_whole(p, id, &a, false);
            return;
        }
        for (int lane = 0; lane < a.lanes && vector; lane += 4)
            weft_wgsl_line(p, "let v%d_%d = vec4<%s>(%s, %s, %s, %s);", id, lane / 4, type, load_one(p, &a, lane).text,
                           load_one(p, &a, lane + 1).text, load_one(p, &a, lane + 2).text,
                           load_one(p, &a, lane + 3).text);
        for (int lane = 0; lane < a.lanes && !vector; lane++)
            weft_wgsl_line(p, "let %s: %s = %s;", weft_wgsl_value(p, id, lane).text, type, load_one(p, &a, lane).text);
        return;
    }
    for (int group = 0; group < a.lanes / 4 && vector; group++)
        weft_wgsl_line(p, "var v%d_%d = %s;", id, group, weft_wgsl_four(p, id, a.other, group).text);
    for (int lane = 0; lane < a.lanes && !vector; lane++)
        weft_wgsl_line(p, "var %s: %s = %s;", weft_wgsl_value(p, id, lane).text, type,
                       weft_wgsl_lane(p, a.other, lane).text);
    if (uniform_mask(p, a.mask)) {
        weft_wgsl_line(p, "if (%s) {", lane_mask(p, a.mask, 0).text);
        p->depth++;
        for (int lane = 0; lane < a.lanes && !whole; lane++)
            weft_wgsl_line(p, "%s = %s;", weft_wgsl_value(p, id, lane).text, load_one(p, &a, lane).text);
        if (whole) load_whole(p, id, &a, true);
        p->depth--;
        weft_wgsl_line(p, "}");
        return;
    }
    for (int lane = 0; lane < a.lanes; lane++)
        weft_wgsl_line(p, "if (%s) { %s = %s; }", lane_mask(p, a.mask, lane).text, weft_wgsl_value(p, id, lane).text,
                       load_one(p, &a, lane).text);
}

/* -- stores */

/* A narrow value as bits of a word, zero-extended. */
static name bits_of_value(const weft_wgsl_printer *p, weft_dtype elem, name value) {
    if (elem == WEFT_BOOL) return weft_piece_format("select(0u, 1u, %s)", value.text);
    if (weft_wgsl_class_of(p, elem) == WEFT_WGSL_I32)
        return weft_piece_format("(bitcast<u32>(%s) & %uu)", value.text, (1u << weft_dtype_bits(elem)) - 1);
    return value;
}

static void store_one(weft_wgsl_printer *p, const span *a, int lane) {
    weft_dtype elem = elem_of(p, a->memory);
    name index = index_of(p, a->index, a->neighbours, lane), value = weft_wgsl_lane(p, a->value, lane),
         to = memory_name(p, a->memory);
    int packed = per_word(p, a->memory);
    if (packed > 1) {
        int bits = 32 / packed;
        weft_wgsl_line(p, "{");
        p->depth++;
        weft_wgsl_line(p, "let at = u32(%s); let shift = (at & %du) * %du;", index.text, packed - 1, bits);
        weft_wgsl_line(p, "atomicAnd(&%s[at >> %du], ~(%uu << shift));", to.text, packed == 4 ? 2 : 1,
                       (1u << bits) - 1);
        weft_wgsl_line(p, "atomicOr(&%s[at >> %du], %s << shift);", to.text, packed == 4 ? 2 : 1,
                       bits_of_value(p, elem, value).text);
        p->depth--;
        weft_wgsl_line(p, "}");
    } else if (is_atomic(p, a->memory))
        weft_wgsl_line(p, elem == WEFT_F32 ? "atomicStore(&%s[%s], bitcast<u32>(%s));" : "atomicStore(&%s[%s], %s);",
                       to.text, index.text, value.text);
    else
        weft_wgsl_line(p, "%s[%s] = %s;", to.text, index.text, value.text);
}

static void store_whole(weft_wgsl_printer *p, const span *a) {
    weft_dtype elem = elem_of(p, a->memory);
    int packed = per_word(p, a->memory), group = packed > 1 ? packed : vector_of(p, a->memory),
        shift = group == 4 ? 2 : 1;
    bool atomic = is_atomic(p, a->memory);
    for (int lane = 0; lane < a->lanes; lane += group) {
        for (int i = 0; i < p->depth; i++) weft_text_append(p->text, "  ");
        weft_text_append(p->text,
                         atomic ? "atomicStore(&%s[(u32(%s) >> %du) + %du], " : "%s[(u32(%s) >> %du) + %du] = ",
                         memory_name(p, a->memory).text, index_of(p, a->index, true, 0).text, shift, lane / group);
        if (packed == 1 && group == 4 && (p->uses[a->value] & WEFT_WGSL_VECTOR)) {
            weft_text_append(p->text, "v%d_%d;\n", a->value, lane / 4);
            continue;
        }
        if (packed == 1) weft_text_append(p->text, "vec%d<%s>(", group, weft_wgsl_type(p, elem));
        for (int i = 0; i < group; i++) {
            name value = weft_wgsl_lane(p, a->value, lane + i);
            if (packed == 1)
                weft_text_append(p->text, "%s%s", i ? ", " : "", value.text);
            else
                weft_text_append(p->text, "%s(%s << %du)", i ? " | " : "", bits_of_value(p, elem, value).text,
                                 i * 32 / packed);
        }
        weft_text_append(p->text, atomic != (packed == 1) ? ");\n" : ";\n");
    }
}

static void print_store(weft_wgsl_printer *p, const weft_kinstr *instr) {
    span a = span_of(p, instr);
    bool whole = is_whole(p, &a), uniform = uniform_mask(p, a.mask);
    if (a.mask != WEFT_KNONE && (whole || uniform)) {
        for (int i = 0; i < p->depth; i++) weft_text_append(p->text, "  ");
        weft_text_append(p->text, "if (");
        for (int lane = 0; lane < (uniform ? 1 : a.lanes); lane++)
            weft_text_append(p->text, "%s%s", lane ? " && " : "", lane_mask(p, a.mask, lane).text);
        weft_text_append(p->text, ") {\n");
        p->depth++;
    }
    if (whole) store_whole(p, &a);
    for (int lane = 0; lane < a.lanes && !whole && uniform; lane++) store_one(p, &a, lane);
    if (a.mask == WEFT_KNONE) return;
    if (whole || uniform) {
        p->depth--;
        weft_wgsl_line(p, uniform ? "}" : "} else {");
    }
    if (uniform) return;
    if (whole) p->depth++;
    for (int lane = 0; lane < a.lanes; lane++) {
        weft_wgsl_line(p, "if (%s) {", lane_mask(p, a.mask, lane).text);
        p->depth++;
        store_one(p, &a, lane);
        p->depth--;
        weft_wgsl_line(p, "}");
    }
    if (whole) {
        p->depth--;
        weft_wgsl_line(p, "}");
    }
}

/* The value before the operation. Floats have no atomics: compare and exchange until nobody came between. */
static void print_atomic(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr) {
    static const char *const kinds[] = {"Add", "Min", "Max"};
    weft_kval memory = weft_koperand(p->kernel, instr, 0), index = weft_koperand(p->kernel, instr, 1);
    name value = weft_wgsl_value(p, weft_koperand(p->kernel, instr, 2), 0),
         at = weft_piece_format("%s[%s]", memory_name(p, memory).text, index_of(p, index, false, 0).text);
    weft_dtype elem = elem_of(p, memory);
    if (weft_dtype_bits(elem) == 64) weft_wgsl_fail(p, WEFT_UNSUPPORTED, "atomics of 64 bits");
    bool defines = instr->type.kind == WEFT_KIND_VALUE;
    if (elem != WEFT_F32) {
        name prefix = {0};
        if (defines) prefix = weft_piece_format("let v%d: %s = ", id, weft_wgsl_type(p, elem));
        weft_wgsl_line(p, "%satomic%s(&%s, %s);", prefix.text, kinds[instr->i], at.text, value.text);
        return;
    }
    if (defines) weft_wgsl_line(p, "var v%d: f32;", id);
    name update = instr->i == WEFT_ATOMIC_ADD ? weft_piece_format("old + %s", value.text)
                                              : weft_piece_format("select(old, %s, %s %s old)", value.text, value.text,
                                                                  instr->i == WEFT_ATOMIC_MIN ? "<" : ">");
    weft_wgsl_line(p, "loop {");
    p->depth++;
    weft_wgsl_line(p, "let bits = atomicLoad(&%s); let old = bitcast<f32>(bits);", at.text);
    weft_wgsl_line(p, "let result = atomicCompareExchangeWeak(&%s, bits, bitcast<u32>(%s));", at.text, update.text);
    if (defines) weft_wgsl_line(p, "v%d = old;", id);
    weft_wgsl_line(p, "if (result.exchanged) { break; }");
    p->depth--;
    weft_wgsl_line(p, "}");
}

/* -- registers */

static name register_name(const weft_wgsl_printer *p, weft_kval object, weft_kval index, int lane) {
    int lanes = weft_ktype_of(p->kernel, object).lanes;
    if (index == WEFT_KNONE) return weft_piece_format("x%d_%d", object, lane);
    if (p->uses[object] & WEFT_WGSL_DYNAMIC)
        return weft_piece_format("r%d[%s * %d + %d]", object, index_of(p, index, false, 0).text, lanes, lane);
    return weft_piece_format("r%d_%d", object, (int)weft_kernel_get(p->kernel, index)->i * lanes + lane);
}

/* A var, get or set of vec4s; false: of scalars. */
static bool print_vector_register(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr) {
    bool var = instr->op == WEFT_K_var;
    weft_kval object = var ? id : weft_koperand(p->kernel, instr, 0), index = WEFT_KNONE;
    if (!(p->uses[object] & WEFT_WGSL_VECTOR)) return false;
    if (!var) index = weft_koperand(p->kernel, instr, 1);
    int groups = weft_ktype_of(p->kernel, object).lanes / 4,
        first = index == WEFT_KNONE ? 0 : groups * (int)weft_kernel_get(p->kernel, index)->i;
    for (int group = 0; group < groups; group++) {
        name at = weft_piece_format(index == WEFT_KNONE ? "x%d_%d" : "r%d_%d", object, first + group);
        if (instr->op == WEFT_K_get) {
            weft_wgsl_line(p, "let v%d_%d = %s;", id, group, at.text);
            continue;
        }
        name value = weft_wgsl_four(p, id, weft_koperand(p->kernel, instr, var ? 0 : 2), group);
        weft_wgsl_line(p, var ? "var %s = %s;" : "%s = %s;", at.text, value.text);
    }
    return true;
}

static void print_register(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr) {
    const char *type = weft_wgsl_type(p, (weft_dtype)instr->type.elem);
    if (instr->op == WEFT_K_regs) {
        int count = (int)instr->i * instr->type.lanes;
        bool vector = (p->uses[id] & WEFT_WGSL_VECTOR) != 0;
        if (p->uses[id] & WEFT_WGSL_DYNAMIC)
            weft_wgsl_line(p, "var r%d: array<%s, %d>;", id, type, count);
        else if (vector)
            for (int i = 0; i < count / 4; i++) weft_wgsl_line(p, "var r%d_%d: vec4<%s>;", id, i, type);
        else
            for (int i = 0; i < count; i++) weft_wgsl_line(p, "var r%d_%d: %s;", id, i, type);
        return;
    }
    if (print_vector_register(p, id, instr)) return;
    if (instr->op == WEFT_K_var) {
        for (int lane = 0; lane < instr->type.lanes; lane++)
            weft_wgsl_line(p, "var %s: %s = %s;", register_name(p, id, WEFT_KNONE, lane).text, type,
                           weft_wgsl_lane(p, weft_koperand(p->kernel, instr, 0), lane).text);
        return;
    }
    weft_kval object = weft_koperand(p->kernel, instr, 0), index = weft_koperand(p->kernel, instr, 1);
    for (int lane = 0; lane < weft_ktype_of(p->kernel, object).lanes; lane++) {
        name at = register_name(p, object, index, lane);
        if (instr->op == WEFT_K_get)
            weft_wgsl_line(p, "let %s: %s = %s;", weft_wgsl_value(p, id, lane).text, type, at.text);
        else
            weft_wgsl_line(p, "%s = %s;", at.text, weft_wgsl_lane(p, weft_koperand(p->kernel, instr, 2), lane).text);
    }
}

/* Does the kernel read what its own threads write to buffers? */
static bool shares_buffers(const weft_wgsl_printer *p) {
    const int both = WEFT_WGSL_LOADED | WEFT_WGSL_STORED;
    for (size_t i = 0; i < p->kernel->argument_count; i++)
        if ((p->argument_uses[i] & both) == both) return true;
    return false;
}

static void print_shuffle(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr) {
    p->subgroups = true;
    for (int lane = 0; lane < instr->type.lanes; lane++)
        weft_wgsl_line(p, "let %s = subgroupShuffleXor(%s, %du);", weft_wgsl_value(p, id, lane).text,
                       weft_wgsl_lane(p, weft_koperand(p->kernel, instr, 0), lane).text, (int)instr->i);
}

bool weft_wgsl_print_memory(weft_wgsl_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    switch ((int)instr->op) {
    case WEFT_K_buffer:
    case WEFT_K_shared:
    case WEFT_K_prefetch: return true; /* declared outside; no such hint */
    case WEFT_K_load: print_load(p, id, instr); return true;
    case WEFT_K_store: print_store(p, instr); return true;
    case WEFT_K_atomic: print_atomic(p, id, instr); return true;
    case WEFT_K_var:
    case WEFT_K_regs:
    case WEFT_K_get:
    case WEFT_K_set: print_register(p, id, instr); return true;
    case WEFT_K_barrier:
        weft_wgsl_line(p, shares_buffers(p) ? "workgroupBarrier(); storageBarrier();" : "workgroupBarrier();");
        return true;
    case WEFT_K_shuffle_xor: print_shuffle(p, id, instr); return true;
    default: return false;
    }
}
