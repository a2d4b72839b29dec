/* Buffers, shared arrays, registers, atomics, barriers. A buffer access is an address: base + index * bytes; lanes side
   by side move as words of 4, 8 or 16 bytes where the alignment allows. What a mask hides is never addressed. See
   print.h. */
#include "base/dtype.h"
#include "codegen/spirv/print.h"

typedef weft_spirv_id id;

static id one(weft_spirv *p, weft_spirv_type type, const char *op, id a) {
    return weft_spirv_emit(p, type, op, "$", a);
}
static id two(weft_spirv *p, weft_spirv_type type, const char *op, id a, id b) {
    return weft_spirv_emit(p, type, op, "$ $", a, b);
}

typedef struct span {
    weft_kval memory, index, mask, other, value;
    weft_dtype elem;
    int lanes, align_bytes;
    int word;                /* bytes of a word of a shared array that matrices come from; 0: any other memory */
    bool buffer, neighbours; /* neighbours: lanes lie side by side */
} span;

static span span_of(const weft_spirv *p, const weft_kinstr *instr) {
    bool load = instr->op == WEFT_K_load;
    span a = {.memory = weft_koperand(p->kernel, instr, 0),
              .index = weft_koperand(p->kernel, instr, 1),
              .mask = weft_koperand(p->kernel, instr, 2),
              .other = load ? weft_koperand(p->kernel, instr, 3) : WEFT_KNONE,
              .value = load ? WEFT_KNONE : weft_koperand(p->kernel, instr, 3),
              .align_bytes = instr->align_bytes};
    a.lanes = load ? instr->type.lanes : weft_ktype_of(p->kernel, a.value).lanes;
    a.elem = (weft_dtype)weft_ktype_of(p->kernel, a.memory).elem;
    a.buffer = weft_kernel_get(p->kernel, a.memory)->op == WEFT_K_buffer;
    a.word = a.buffer ? 0 : p->whole[a.memory];
    a.neighbours = weft_ktype_of(p->kernel, a.index).lanes == 1;
    return a;
}

static int bytes_of(weft_dtype elem) { return elem == WEFT_BOOL ? 1 : weft_dtype_bits(elem) / 8; }

/* How memory holds an element: unsigned integers of its width. */
static weft_spirv_type stored_type(const span *a) {
    if (a->word) return weft_spirv_word(a->word);
    if (!a->buffer) return bytes_of(a->elem) == 8 ? WEFT_SPIRV_U64 : WEFT_SPIRV_U32;
    switch (bytes_of(a->elem)) {
    case 1: return WEFT_SPIRV_U8;
    case 2: return WEFT_SPIRV_U16;
    case 8: return WEFT_SPIRV_U64;
    default: return WEFT_SPIRV_U32;
    }
}

/* A word of memory, zero-extended to 32 bits, as the carrier; and back. */
static id carried(weft_spirv *p, weft_dtype elem, id word) {
    if (elem == WEFT_BOOL) return two(p, WEFT_SPIRV_BOOL, "OpINotEqual", word, weft_spirv_u32(p, 0));
    if (elem == WEFT_F32) return one(p, WEFT_SPIRV_F32, "OpBitcast", word);
    bool narrow = bytes_of(elem) < 4 && weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    return narrow ? weft_spirv_normal(p, elem, word) : word;
}

static id stored(weft_spirv *p, weft_dtype elem, id value) {
    if (elem == WEFT_BOOL)
        return weft_spirv_emit(p, WEFT_SPIRV_U32, "OpSelect", "$ $ $", value, weft_spirv_u32(p, 1),
                               weft_spirv_u32(p, 0));
    return elem == WEFT_F32 ? one(p, WEFT_SPIRV_U32, "OpBitcast", value) : value;
}

static id index_of(weft_spirv *p, const span *a, int lane, weft_dtype to) {
    weft_dtype from = (weft_dtype)weft_ktype_of(p->kernel, a->index).elem;
    return weft_spirv_convert(p, from, to, weft_spirv_lane(p, a->index, a->neighbours ? 0 : lane));
}

static id address(weft_spirv *p, const span *a, int lane) {
    id base = p->arguments[weft_kernel_get(p->kernel, a->memory)->i];
    id index = index_of(p, a, lane, WEFT_I64),
       size = weft_spirv_constant(p, WEFT_SPIRV_U64, (uint64_t)bytes_of(a->elem));
    return two(p, WEFT_SPIRV_U64, "OpIAdd", base, two(p, WEFT_SPIRV_U64, "OpIMul", index, size));
}

static id physical(weft_spirv *p, id base, int64_t bytes, weft_spirv_type type) {
    if (bytes) base = two(p, WEFT_SPIRV_U64, "OpIAdd", base, weft_spirv_constant(p, WEFT_SPIRV_U64, (uint64_t)bytes));
    id pointer = weft_spirv_new(p);
    weft_spirv_do(p, &p->code, "$ = OpConvertUToPtr $ $", pointer,
                  weft_spirv_pointer_name(p, WEFT_SPIRV_PHYSICAL, type), base);
    return pointer;
}

static id shared_pointer(weft_spirv *p, const span *a, int lane) {
    id at = index_of(p, a, lane, WEFT_U32), pointer = weft_spirv_new(p);
    if (a->neighbours && lane) at = two(p, WEFT_SPIRV_U32, "OpIAdd", at, weft_spirv_u32(p, (uint32_t)lane));
    weft_spirv_do(p, &p->code, "$ = OpAccessChain $ $ $", pointer,
                  weft_spirv_pointer_name(p, WEFT_SPIRV_WORKGROUP, stored_type(a)), p->lanes[p->first[a->memory]], at);
    return pointer;
}

/* Volatile: what other threads of the block wrote is read again. */
static const char *access(const weft_spirv *p) {
    return !p->shares_buffers ? "Aligned" : p->matrices ? "Volatile|Aligned|NonPrivatePointer" : "Volatile|Aligned";
}
static const char *shared_access(const weft_spirv *p) { return p->matrices ? "NonPrivatePointer" : ""; }

static id load_word(weft_spirv *p, const span *a, id pointer, weft_spirv_type type, int align) {
    if (!a->buffer) return weft_spirv_emit(p, type, "OpLoad", "$ @", pointer, shared_access(p));
    return weft_spirv_emit(p, type, "OpLoad", "$ @ #", pointer, access(p), (int64_t)align);
}

static void store_word(weft_spirv *p, const span *a, id pointer, id value, int align) {
    if (a->buffer)
        weft_spirv_do(p, &p->code, "OpStore $ $ @ #", pointer, value, access(p), (int64_t)align);
    else
        weft_spirv_do(p, &p->code, "OpStore $ $ @", pointer, value, shared_access(p));
}

/* Whole words cover the lanes, and start on one. */
static bool in_words(const span *a) {
    int bytes = bytes_of(a->elem), align = a->align_bytes > bytes ? a->align_bytes : bytes;
    if (a->word) return true;
    return a->buffer && a->neighbours && a->lanes > 1 && align >= 4 && a->lanes * bytes % 4 == 0;
}

enum { LANES_MAX = 256 };

/* 32-bit words at a: as few accesses as the alignment allows. */
static int width_of(const span *a, int words_left, int at) {
    if (a->word) return a->word / 4;
    int align = a->align_bytes > bytes_of(a->elem) ? a->align_bytes : bytes_of(a->elem);
    if (align >= 16 && at % 4 == 0 && words_left >= 4) return 4;
    return align >= 8 && at % 2 == 0 && words_left >= 2 ? 2 : 1;
}

weft_spirv_type weft_spirv_word(int bytes) {
    return bytes == 16 ? WEFT_SPIRV_U32X4 : bytes == 8 ? WEFT_SPIRV_U32X2 : WEFT_SPIRV_U32;
}

/* Where the first lane is: an address, or the number of a word of a shared array. */
static id first_word(weft_spirv *p, const span *a) {
    if (!a->word) return address(p, a, 0);
    return two(p, WEFT_SPIRV_U32, "OpUDiv", index_of(p, a, 0, WEFT_U32),
               weft_spirv_u32(p, (uint32_t)(a->word / bytes_of(a->elem))));
}

/* `at` words of 32 bits behind it. */
static id word_place(weft_spirv *p, const span *a, id first, int at, int width) {
    if (!a->word) return physical(p, first, at * 4, weft_spirv_word(width * 4));
    if (at) first = two(p, WEFT_SPIRV_U32, "OpIAdd", first, weft_spirv_u32(p, (uint32_t)(at * 4 / a->word)));
    id pointer = weft_spirv_new(p);
    weft_spirv_do(p, &p->code, "$ = OpAccessChain $ $ $", pointer,
                  weft_spirv_pointer_name(p, WEFT_SPIRV_WORKGROUP, stored_type(a)), p->lanes[p->first[a->memory]],
                  first);
    return pointer;
}

static void load_words(weft_spirv *p, const span *a, id *out) {
    int bytes = bytes_of(a->elem), count = a->lanes * bytes / 4;
    id base = first_word(p, a), words[2 * LANES_MAX];
    for (int at = 0, width; at < count; at += width) {
        width = width_of(a, count - at, at);
        id value = load_word(p, a, word_place(p, a, base, at, width), weft_spirv_word(width * 4), width * 4);
        for (int i = 0; i < width; i++)
            words[at + i] =
                width == 1 ? value : weft_spirv_emit(p, WEFT_SPIRV_U32, "OpCompositeExtract", "$ #", value, (int64_t)i);
    }
    for (int lane = 0; lane < a->lanes; lane++) {
        if (bytes == 8)
            out[lane] = one(p, WEFT_SPIRV_U64, "OpBitcast",
                            two(p, WEFT_SPIRV_U32X2, "OpCompositeConstruct", words[lane * 2], words[lane * 2 + 1]));
        else if (bytes == 4)
            out[lane] = carried(p, a->elem, words[lane]);
        else
            out[lane] =
                carried(p, a->elem,
                        weft_spirv_emit(p, WEFT_SPIRV_U32, "OpBitFieldUExtract", "$ $ $", words[lane * bytes / 4],
                                        weft_spirv_u32(p, (uint32_t)(lane * bytes % 4 * 8)),
                                        weft_spirv_u32(p, (uint32_t)(bytes * 8))));
    }
}

static void store_words(weft_spirv *p, const span *a) {
    int bytes = bytes_of(a->elem), count = a->lanes * bytes / 4;
    id base = first_word(p, a), words[2 * LANES_MAX] = {0};
    for (int lane = 0; lane < a->lanes; lane++) {
        id value = stored(p, a->elem, weft_spirv_lane(p, a->value, lane));
        if (bytes == 8) {
            id pair = one(p, WEFT_SPIRV_U32X2, "OpBitcast", value);
            for (int half = 0; half < 2; half++)
                words[lane * 2 + half] =
                    weft_spirv_emit(p, WEFT_SPIRV_U32, "OpCompositeExtract", "$ #", pair, (int64_t)half);
            continue;
        }
        int word = lane * bytes / 4, shift = lane * bytes % 4 * 8;
        words[word] =
            shift == 0 ? value
                       : weft_spirv_emit(p, WEFT_SPIRV_U32, "OpBitFieldInsert", "$ $ $ $", words[word], value,
                                         weft_spirv_u32(p, (uint32_t)shift), weft_spirv_u32(p, (uint32_t)(bytes * 8)));
    }
    for (int at = 0, width; at < count; at += width) {
        width = width_of(a, count - at, at);
        id value = words[at];
        if (width == 2) value = two(p, WEFT_SPIRV_U32X2, "OpCompositeConstruct", words[at], words[at + 1]);
        if (width == 4)
            value = weft_spirv_emit(p, WEFT_SPIRV_U32X4, "OpCompositeConstruct", "$ $ $ $", words[at], words[at + 1],
                                    words[at + 2], words[at + 3]);
        store_word(p, a, word_place(p, a, base, at, width), value, width * 4);
    }
}

static id load_lane(weft_spirv *p, const span *a, int lane) {
    weft_spirv_type type = stored_type(a);
    int bytes = bytes_of(a->elem);
    id word;
    if (a->buffer)
        word = load_word(p, a, physical(p, address(p, a, lane), a->neighbours ? lane * bytes : 0, type), type, bytes);
    else
        word = load_word(p, a, shared_pointer(p, a, lane), type, bytes);
    if (type == WEFT_SPIRV_U64) return word;
    if (type != WEFT_SPIRV_U32) word = one(p, WEFT_SPIRV_U32, "OpUConvert", word);
    return a->buffer                                     ? carried(p, a->elem, word)
           : a->elem == WEFT_BOOL || a->elem == WEFT_F32 ? carried(p, a->elem, word)
                                                         : word;
}

static void store_lane(weft_spirv *p, const span *a, int lane) {
    weft_spirv_type type = stored_type(a);
    int bytes = bytes_of(a->elem);
    id value = weft_spirv_lane(p, a->value, lane);
    value = stored(p, a->elem, value);
    if (!a->buffer) {
        store_word(p, a, shared_pointer(p, a, lane), value, bytes);
        return;
    }
    if (type != WEFT_SPIRV_U32 && type != WEFT_SPIRV_U64) value = one(p, type, "OpUConvert", value);
    store_word(p, a, physical(p, address(p, a, lane), a->neighbours ? lane * bytes : 0, type), value, bytes);
}

/* -- masks: a branch around the access, one for all lanes where they share the mask */

static bool uniform_mask(const weft_spirv *p, weft_kval mask) {
    return weft_ktype_of(p->kernel, mask).lanes == 1 || weft_kernel_get(p->kernel, mask)->op == WEFT_K_splat;
}

static id open_mask(weft_spirv *p, id mask, size_t *out_known) {
    id then = weft_spirv_new(p), merge = weft_spirv_new(p);
    *out_known = weft_spirv_reuse_mark(&p->values);
    weft_spirv_do(p, &p->code, "OpSelectionMerge $ None", merge);
    weft_spirv_do(p, &p->code, "OpBranchConditional $ $ $", mask, then, merge);
    weft_spirv_open_block(p, then);
    return merge;
}

static void close_mask(weft_spirv *p, id merge, size_t known) {
    weft_spirv_reuse_forget(&p->values, known);
    weft_spirv_do(p, &p->code, "OpBranch $", merge);
    weft_spirv_open_block(p, merge);
}

static void load_lanes(weft_spirv *p, const span *a, int first, int count, id *out) {
    if (count == a->lanes && in_words(a)) {
        load_words(p, a, out);
        return;
    }
    for (int lane = first; lane < first + count; lane++) out[lane] = load_lane(p, a, lane);
}

/* Lanes first .. first + count under one mask. */
static void load_masked(weft_spirv *p, const span *a, int first, int count, id mask, id *out) {
    weft_spirv_type type = weft_spirv_carrier(a->elem);
    id others[LANES_MAX], before = p->label;
    for (int lane = first; lane < first + count; lane++)
        others[lane] = a->other == WEFT_KNONE ? weft_spirv_constant(p, type, 0) : weft_spirv_lane(p, a->other, lane);
    size_t known;
    id merge = open_mask(p, mask, &known);
    load_lanes(p, a, first, count, out);
    id inside = p->label;
    close_mask(p, merge, known);
    for (int lane = first; lane < first + count; lane++)
        out[lane] = weft_spirv_emit(p, type, "OpPhi", "$ $ $ $", out[lane], inside, others[lane], before);
}

static void print_load(weft_spirv *p, weft_kval value, const weft_kinstr *instr) {
    span a = span_of(p, instr);
    id out[LANES_MAX];
    if (a.lanes > LANES_MAX) {
        weft_spirv_fail(p, WEFT_UNSUPPORTED, "more than 256 lanes");
        return;
    }
    if (a.mask == WEFT_KNONE)
        load_lanes(p, &a, 0, a.lanes, out);
    else if (uniform_mask(p, a.mask))
        load_masked(p, &a, 0, a.lanes, weft_spirv_lane(p, a.mask, 0), out);
    else
        for (int lane = 0; lane < a.lanes; lane++) load_masked(p, &a, lane, 1, weft_spirv_lane(p, a.mask, lane), out);
    for (int lane = 0; lane < a.lanes; lane++) weft_spirv_define(p, value, lane, out[lane]);
}

static void store_lanes(weft_spirv *p, const span *a) {
    if (in_words(a))
        store_words(p, a);
    else
        for (int lane = 0; lane < a->lanes; lane++) store_lane(p, a, lane);
}

static void print_store(weft_spirv *p, const weft_kinstr *instr) {
    span a = span_of(p, instr);
    if (a.lanes > LANES_MAX) {
        weft_spirv_fail(p, WEFT_UNSUPPORTED, "more than 256 lanes");
    } else if (a.mask == WEFT_KNONE) {
        store_lanes(p, &a);
    } else if (uniform_mask(p, a.mask)) {
        size_t known;
        id merge = open_mask(p, weft_spirv_lane(p, a.mask, 0), &known);
        store_lanes(p, &a);
        close_mask(p, merge, known);
    } else {
        for (int lane = 0; lane < a.lanes; lane++) {
            size_t known;
            id merge = open_mask(p, weft_spirv_lane(p, a.mask, lane), &known);
            store_lane(p, &a, lane);
            close_mask(p, merge, known);
        }
    }
}

/* -- atomics: the value before the operation; scope 1 = device, relaxed */

static id atomic_place(weft_spirv *p, const span *a) {
    weft_spirv_type type = stored_type(a);
    if (!a->buffer) return shared_pointer(p, a, 0);
    if (bytes_of(a->elem) < 4) weft_spirv_fail(p, WEFT_UNSUPPORTED, "atomics of less than 32 bits");
    if (type == WEFT_SPIRV_U64) p->atomics64 = true;
    return physical(p, address(p, a, 0), 0, type);
}

/* Floats: compare and exchange until nobody came between. */
static id atomic_float(weft_spirv *p, const weft_kinstr *instr, id place, id value) {
    const weft_spirv_type t = WEFT_SPIRV_U32, f = WEFT_SPIRV_F32;
    id header = weft_spirv_new(p), body = weft_spirv_new(p), next = weft_spirv_new(p), merge = weft_spirv_new(p),
       device = weft_spirv_u32(p, 1), relaxed = weft_spirv_u32(p, 0);
    size_t known = weft_spirv_reuse_mark(&p->values);
    weft_spirv_do(p, &p->code, "OpBranch $", header);
    weft_spirv_open_block(p, header);
    weft_spirv_do(p, &p->code, "OpLoopMerge $ $ None\nOpBranch $", merge, next, body);
    weft_spirv_open_block(p, body);
    id bits = weft_spirv_emit(p, t, "OpAtomicLoad", "$ $ $", place, device, relaxed);
    id old = one(p, f, "OpBitcast", bits), updated;
    if (instr->i == WEFT_ATOMIC_ADD)
        updated = two(p, f, "OpFAdd", old, value);
    else
        updated = weft_spirv_emit(
            p, f, "OpSelect", "$ $ $",
            two(p, WEFT_SPIRV_BOOL, instr->i == WEFT_ATOMIC_MIN ? "OpFOrdLessThan" : "OpFOrdGreaterThan", value, old),
            value, old);
    id seen = weft_spirv_emit(p, t, "OpAtomicCompareExchange", "$ $ $ $ $ $", place, device, relaxed, relaxed,
                              one(p, t, "OpBitcast", updated), bits);
    id done = two(p, WEFT_SPIRV_BOOL, "OpIEqual", seen, bits);
    weft_spirv_do(p, &p->code, "OpBranchConditional $ $ $", done, merge, next);
    weft_spirv_open_block(p, next);
    weft_spirv_do(p, &p->code, "OpBranch $", header);
    weft_spirv_open_block(p, merge);
    weft_spirv_reuse_forget(&p->values, known);
    return old;
}

static void print_atomic(weft_spirv *p, weft_kval value, const weft_kinstr *instr) {
    span a = {.memory = weft_koperand(p->kernel, instr, 0),
              .index = weft_koperand(p->kernel, instr, 1),
              .lanes = 1,
              .neighbours = true};
    a.elem = (weft_dtype)weft_ktype_of(p->kernel, a.memory).elem;
    a.buffer = weft_kernel_get(p->kernel, a.memory)->op == WEFT_K_buffer;
    id place = atomic_place(p, &a), operand = weft_spirv_lane(p, weft_koperand(p->kernel, instr, 2), 0), old;
    if (a.elem == WEFT_F32) {
        old = atomic_float(p, instr, place, operand);
    } else {
        bool is_signed = weft_dtype_kind_of(a.elem) == WEFT_KIND_SIGNED;
        const char *op = instr->i == WEFT_ATOMIC_ADD   ? "OpAtomicIAdd"
                         : instr->i == WEFT_ATOMIC_MIN ? (is_signed ? "OpAtomicSMin" : "OpAtomicUMin")
                                                       : (is_signed ? "OpAtomicSMax" : "OpAtomicUMax");
        old = weft_spirv_emit(p, stored_type(&a), op, "$ $ $ $", place, weft_spirv_u32(p, 1), weft_spirv_u32(p, 0),
                              operand);
    }
    if (instr->type.kind == WEFT_KIND_VALUE) weft_spirv_define(p, value, 0, old);
}

/* -- registers: variables of the function; an array holds its elements lane by lane */

static void declare_registers(weft_spirv *p, weft_kval value, const weft_kinstr *instr) {
    weft_spirv_type type = weft_spirv_carrier((weft_dtype)instr->type.elem);
    int lanes = weft_spirv_lanes(p, value);
    if (instr->op == WEFT_K_regs) {
        weft_spirv_define(p, value, 0, weft_spirv_variable(p, type, instr->i * lanes));
        return;
    }
    weft_kval start = weft_koperand(p->kernel, instr, 0);
    for (int lane = 0; lane < lanes; lane++) {
        id variable = weft_spirv_variable(p, type, 0);
        weft_spirv_define(p, value, lane, variable);
        weft_spirv_do(p, &p->code, "OpStore $ $", variable, weft_spirv_lane(p, start, lane));
    }
}

static id register_pointer(weft_spirv *p, weft_kval object, weft_kval index, int lane) {
    weft_spirv_type type = weft_spirv_carrier((weft_dtype)weft_ktype_of(p->kernel, object).elem);
    int lanes = weft_spirv_lanes(p, object);
    if (index == WEFT_KNONE) return p->lanes[p->first[object] + lane];
    const weft_kinstr *known = weft_kernel_get(p->kernel, index);
    id at, pointer = weft_spirv_new(p);
    if (known->op == WEFT_K_constant) {
        at = weft_spirv_u32(p, (uint32_t)(known->i * lanes + lane));
    } else {
        at = weft_spirv_convert(p, (weft_dtype)known->type.elem, WEFT_U32, weft_spirv_lane(p, index, 0));
        at = two(p, WEFT_SPIRV_U32, "OpIMul", at, weft_spirv_u32(p, (uint32_t)lanes));
        at = two(p, WEFT_SPIRV_U32, "OpIAdd", at, weft_spirv_u32(p, (uint32_t)lane));
    }
    weft_spirv_do(p, &p->code, "$ = OpAccessChain $ $ $", pointer,
                  weft_spirv_pointer_name(p, WEFT_SPIRV_FUNCTION, type), p->lanes[p->first[object]], at);
    return pointer;
}

static void move_registers(weft_spirv *p, weft_kval value, const weft_kinstr *instr) {
    weft_kval object = weft_koperand(p->kernel, instr, 0), index = weft_koperand(p->kernel, instr, 1);
    weft_spirv_type type = weft_spirv_carrier((weft_dtype)weft_ktype_of(p->kernel, object).elem);
    for (int lane = 0; lane < weft_spirv_lanes(p, object); lane++) {
        id pointer = register_pointer(p, object, index, lane);
        if (instr->op == WEFT_K_get)
            weft_spirv_define(p, value, lane, one(p, type, "OpLoad", pointer));
        else
            weft_spirv_do(p, &p->code, "OpStore $ $", pointer,
                          weft_spirv_lane(p, weft_koperand(p->kernel, instr, 2), lane));
    }
}

static void declare_shared(weft_spirv *p, weft_kval value, const weft_kinstr *instr) {
    span a = {.elem = (weft_dtype)instr->type.elem, .word = p->whole[value]};
    if (!weft_dim_is_number(instr->extent) || instr->extent > UINT32_MAX) {
        weft_spirv_fail(p, WEFT_UNSUPPORTED, "shared memory of a symbolic extent");
        return;
    }
    id array = weft_spirv_new(p), pointer = weft_spirv_new(p), variable = weft_spirv_new(p);
    int64_t count = instr->extent > 0 ? instr->extent : 1;
    if (a.word) count = (count * bytes_of(a.elem) + a.word - 1) / a.word;
    id length = weft_spirv_u32(p, (uint32_t)count);
    weft_spirv_do(p, &p->globals, "$ = OpTypeArray $ $", array, weft_spirv_type_name(p, stored_type(&a)), length);
    weft_spirv_do(p, &p->globals, "$ = OpTypePointer Workgroup $", pointer, array);
    weft_spirv_do(p, &p->globals, "$ = OpVariable $ Workgroup", variable, pointer);
    weft_text_append(&p->interfaces, " %%%d", variable);
    weft_spirv_define(p, value, 0, variable);
}

/* Of the workgroup, or the subgroup; AcquireRelease of shared memory, and of buffers where the kernel passes values
   through them. */
static void print_barrier(weft_spirv *p, uint32_t scope_number) {
    enum { ACQUIRE_RELEASE = 0x8, BUFFERS = 0x40, SHARED = 0x100, MAKE_AVAILABLE = 0x2000, MAKE_VISIBLE = 0x4000 };
    id scope = weft_spirv_u32(p, scope_number);
    weft_spirv_do(p, &p->code, "OpControlBarrier $ $ $", scope, scope,
                  weft_spirv_u32(p, ACQUIRE_RELEASE | SHARED | (p->shares_buffers ? BUFFERS : 0) |
                                        (p->matrices ? MAKE_AVAILABLE | MAKE_VISIBLE : 0)));
}

bool weft_spirv_memory(weft_spirv *p, weft_kval value) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, value);
    switch ((int)instr->op) {
    case WEFT_K_buffer:
    case WEFT_K_prefetch: return true; /* an argument; no such hint */
    case WEFT_K_shared: declare_shared(p, value, instr); return true;
    case WEFT_K_load: print_load(p, value, instr); return true;
    case WEFT_K_store: print_store(p, instr); return true;
    case WEFT_K_atomic: print_atomic(p, value, instr); return true;
    case WEFT_K_var:
    case WEFT_K_regs: declare_registers(p, value, instr); return true;
    case WEFT_K_get:
    case WEFT_K_set: move_registers(p, value, instr); return true;
    case WEFT_K_barrier: print_barrier(p, 2); return true;
    case WEFT_K_warp_sync: print_barrier(p, 3); return true;
    default: return false;
    }
}
