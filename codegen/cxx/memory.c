/* Memory, registers, vars. Contiguous lanes move in accesses of up to 16 bytes, as wide as the known alignment allows;
   the elements are then cut out of 32-bit words, which ptxas turns into register names. See print.h. */
#include "codegen/cxx/print.h"

#include <stdio.h>

#include "base/dtype.h"

typedef weft_piece name;

static name memory_name(const weft_cxx_printer *p, weft_kval memory) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, memory);
    name out;
    if (instr->op == WEFT_K_buffer)
        out = weft_piece_format("a%d", (int)instr->i);
    else
        out = weft_piece_format("v%d", memory);
    return out;
}

static const char *space_of(const weft_cxx_printer *p, weft_kval memory) {
    return weft_kernel_get(p->kernel, memory)->op == WEFT_K_buffer ? p->dialect->buffer_space
                                                                   : p->dialect->shared_space;
}

/* Bytes of one access: the widest power of two up to 16 that alignment and the span permit. */
static int access_bytes(int element_bytes, int align_bytes, int lanes) {
    int width = 16;
    if (align_bytes < element_bytes) align_bytes = element_bytes;
    while (width > element_bytes && (align_bytes % width || lanes * element_bytes % width)) width /= 2;
    return width < element_bytes ? element_bytes : width;
}

static const char *word_type(int bytes, int element_bytes) {
    if (element_bytes == 8) return bytes == 16 ? "u64x2" : "u64";
    switch (bytes) {
    case 16: return "u32x4";
    case 8: return "u32x2";
    case 4: return "u32";
    case 2: return "u16";
    default: return "u8";
    }
}

static const char *const components[] = {".x", ".y", ".z", ".w"};

/* The expression of element `index` of word w. */
static name element_of(const char *w, int bytes, int element_bytes, weft_dtype elem, int index) {
    name bits, out;
    if (element_bytes >= 4)
        bits = weft_piece_format("%s%s", w, bytes > element_bytes ? components[index] : "");
    else {
        int per_word = 4 / element_bytes, shift = index % per_word * 8 * element_bytes;
        const char *component = bytes > 4 ? components[index / per_word] : "";
        bits = weft_piece_format("(%s)(%s%s >> %d)", element_bytes == 2 ? "u16" : "u8", w, component, shift);
    }
    if (elem == WEFT_F32)
        out = weft_piece_format("f32_of_bits(%s)", bits.text);
    else if (elem == WEFT_F64)
        out = weft_piece_format("f64_of_bits(%s)", bits.text);
    else if (elem == WEFT_BOOL)
        out = weft_piece_format("%s != 0", bits.text);
    else
        out = weft_piece_format("(%s)%s", weft_cxx_type(elem), bits.text);
    return out;
}

/* One condition for all lanes of a mask; "" = none. */
static weft_piece lane_mask(const weft_cxx_printer *p, weft_kval mask, int lane) {
    name none = {""};
    if (mask == WEFT_KNONE) return none;
    return weft_cxx_value(p, mask, weft_ktype_of(p->kernel, mask).lanes > 1 ? lane : 0);
}

static bool uniform_mask(const weft_cxx_printer *p, weft_kval mask) {
    return mask != WEFT_KNONE &&
           (weft_ktype_of(p->kernel, mask).lanes == 1 || weft_kernel_get(p->kernel, mask)->op == WEFT_K_splat);
}

weft_piece weft_cxx_element(const weft_cxx_printer *p, weft_kval memory, weft_kval index, int lane) {
    name out;
    bool gather = weft_ktype_of(p->kernel, index).lanes > 1;
    if (gather || lane == 0)
        out = weft_piece_format("%s[%s]", memory_name(p, memory).text, weft_cxx_value(p, index, lane).text);
    else
        out = weft_piece_format("%s[%s + %d]", memory_name(p, memory).text, weft_cxx_value(p, index, 0).text, lane);
    return out;
}

static void load_each(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, bool declared) {
    weft_kval memory = weft_koperand(p->kernel, instr, 0), index = weft_koperand(p->kernel, instr, 1);
    weft_kval mask = weft_koperand(p->kernel, instr, 2), other = weft_koperand(p->kernel, instr, 3);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    for (int lane = 0; lane < instr->type.lanes; lane++) {
        name at = weft_cxx_element(p, memory, index, lane), to = weft_cxx_value(p, id, lane);
        char type[16] = "";
        if (!declared) snprintf(type, sizeof type, "const %s ", weft_cxx_type(elem));
        const char *test = elem == WEFT_BOOL ? " != 0" : "";
        if (mask == WEFT_KNONE)
            weft_cxx_line(p, "%s%s = %s%s;", type, to.text, at.text, test);
        else
            weft_cxx_line(p, "%s%s = %s ? (%s)(%s%s) : %s;", type, to.text, lane_mask(p, mask, lane).text,
                          weft_cxx_type(elem), at.text, test,
                          other == WEFT_KNONE
                              ? "0"
                              : weft_cxx_value(p, other, weft_ktype_of(p->kernel, other).lanes > 1 ? lane : 0).text);
    }
}

static void load_wide(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int bytes, bool declared) {
    weft_kval memory = weft_koperand(p->kernel, instr, 0), index = weft_koperand(p->kernel, instr, 1);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    int element_bytes = weft_dtype_bits(elem) / 8, per = bytes / element_bytes;
    const char *type = word_type(bytes, element_bytes);
    for (int lane = 0; lane < instr->type.lanes; lane += per) {
        name word;
        word = weft_piece_format("w%d_%d", id, lane);
        weft_cxx_line(p, "const %s %s = *(const %s%s *)&%s[%s + %d];", type, word.text, space_of(p, memory), type,
                      memory_name(p, memory).text, weft_cxx_value(p, index, 0).text, lane);
        for (int i = 0; i < per; i++) {
            char prefix[24] = "";
            if (!declared) snprintf(prefix, sizeof prefix, "const %s ", weft_cxx_type(elem));
            weft_cxx_line(p, "%s%s = %s;", prefix, weft_cxx_value(p, id, lane + i).text,
                          element_of(word.text, bytes, element_bytes, elem, i).text);
        }
    }
}

/* "m0 && m1 && ..." over all lanes */
static void all_lanes(weft_cxx_printer *p, weft_kval mask, int lanes) {
    for (int lane = 0; lane < lanes; lane++)
        weft_text_append(p->text, "%s%s", lane ? " && " : "", lane_mask(p, mask, lane).text);
}

static void open_condition(weft_cxx_printer *p, weft_kval mask, int lanes) {
    for (int i = 0; i < p->depth; i++) weft_text_append(p->text, "  ");
    weft_text_append(p->text, "if (");
    all_lanes(p, mask, uniform_mask(p, mask) ? 1 : lanes);
    weft_text_append(p->text, ") {\n");
    p->depth++;
}

static void print_load(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    weft_kval index = weft_koperand(p->kernel, instr, 1), mask = weft_koperand(p->kernel, instr, 2),
              other = weft_koperand(p->kernel, instr, 3);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    int lanes = instr->type.lanes, element_bytes = weft_dtype_bits(elem) / 8;
    bool gather = weft_ktype_of(p->kernel, index).lanes > 1;
    int bytes = access_bytes(element_bytes, instr->align_bytes, lanes);
    if (gather || lanes == 1 || bytes <= element_bytes) {
        load_each(p, id, instr, false);
        return;
    }
    if (mask == WEFT_KNONE) {
        load_wide(p, id, instr, bytes, false);
        return;
    }
    for (int lane = 0; lane < lanes; lane++)
        weft_cxx_line(p, "%s %s;", weft_cxx_type(elem), weft_cxx_value(p, id, lane).text);
    open_condition(p, mask, lanes);
    load_wide(p, id, instr, bytes, true);
    p->depth--;
    weft_cxx_line(p, "} else {");
    p->depth++;
    if (uniform_mask(p, mask))
        for (int lane = 0; lane < lanes; lane++)
            weft_cxx_line(p, "%s = %s;", weft_cxx_value(p, id, lane).text,
                          other == WEFT_KNONE
                              ? "0"
                              : weft_cxx_value(p, other, weft_ktype_of(p->kernel, other).lanes > 1 ? lane : 0).text);
    else
        load_each(p, id, instr, true);
    p->depth--;
    weft_cxx_line(p, "}");
}

/* Bits of a stored element as an unsigned word. */
static name bits_of(const weft_cxx_printer *p, weft_kval value, weft_dtype elem, int lane) {
    name x = weft_cxx_value(p, value, weft_ktype_of(p->kernel, value).lanes > 1 ? lane : 0), out;
    const char *wrap = "(u32)";
    if (elem == WEFT_F32)
        wrap = "bits_of_f32";
    else if (elem == WEFT_F64)
        wrap = "bits_of_f64";
    else if (weft_dtype_bits(elem) == 64)
        wrap = "(u64)";
    else if (weft_dtype_bits(elem) == 16)
        wrap = "(u32)(u16)";
    else if (weft_dtype_bits(elem) == 8)
        wrap = "(u32)(u8)";
    out = weft_piece_format("%s(%s)", wrap, x.text);
    return out;
}

static void store_wide(weft_cxx_printer *p, weft_kval memory, weft_kval index, weft_kval value, int lanes, int bytes,
                       weft_dtype elem) {
    int element_bytes = weft_dtype_bits(elem) / 8, per = bytes / element_bytes;
    const char *type = word_type(bytes, element_bytes);
    for (int lane = 0; lane < lanes; lane += per) {
        for (int i = 0; i < p->depth; i++) weft_text_append(p->text, "  ");
        weft_text_append(p->text, "*(%s%s *)&%s[%s + %d] = ", space_of(p, memory), type, memory_name(p, memory).text,
                         weft_cxx_value(p, index, 0).text, lane);
        int words = element_bytes == 8 ? per : bytes < 4 ? 1 : bytes / 4, per_word = per / words;
        weft_text_append(p->text, words > 1 ? "%s_of(" : "(%s)(", type);
        for (int word = 0; word < words; word++) {
            if (word) weft_text_append(p->text, ", ");
            for (int i = 0; i < per_word; i++)
                weft_text_append(p->text, i ? " | %s << %d" : "%s",
                                 bits_of(p, value, elem, lane + word * per_word + i).text, i * 8 * element_bytes);
        }
        weft_text_append(p->text, ");\n");
    }
}

static void store_each(weft_cxx_printer *p, weft_kval memory, weft_kval index, weft_kval mask, weft_kval value,
                       int lanes) {
    for (int lane = 0; lane < lanes; lane++) {
        name at = weft_cxx_element(p, memory, index, lane),
             x = weft_cxx_value(p, value, weft_ktype_of(p->kernel, value).lanes > 1 ? lane : 0);
        if (mask == WEFT_KNONE)
            weft_cxx_line(p, "%s = %s;", at.text, x.text);
        else
            weft_cxx_line(p, "if (%s) %s = %s;", lane_mask(p, mask, lane).text, at.text, x.text);
    }
}

static void print_store(weft_cxx_printer *p, const weft_kinstr *instr) {
    weft_kval memory = weft_koperand(p->kernel, instr, 0), index = weft_koperand(p->kernel, instr, 1);
    weft_kval mask = weft_koperand(p->kernel, instr, 2), value = weft_koperand(p->kernel, instr, 3);
    weft_dtype elem = (weft_dtype)weft_ktype_of(p->kernel, memory).elem;
    int lanes = weft_ktype_of(p->kernel, value).lanes, element_bytes = weft_dtype_bits(elem) / 8;
    if (weft_ktype_of(p->kernel, index).lanes > lanes) lanes = weft_ktype_of(p->kernel, index).lanes;
    bool scatter = weft_ktype_of(p->kernel, index).lanes > 1;
    int bytes = access_bytes(element_bytes, instr->align_bytes, lanes);
    if (scatter || lanes == 1 || bytes <= element_bytes) {
        store_each(p, memory, index, mask, value, lanes);
        return;
    }
    if (mask == WEFT_KNONE) {
        store_wide(p, memory, index, value, lanes, bytes, elem);
        return;
    }
    open_condition(p, mask, lanes);
    store_wide(p, memory, index, value, lanes, bytes, elem);
    p->depth--;
    if (!uniform_mask(p, mask)) {
        weft_cxx_line(p, "} else {");
        p->depth++;
        store_each(p, memory, index, mask, value, lanes);
        p->depth--;
    }
    weft_cxx_line(p, "}");
}

/* -- registers */

static name register_name(const weft_cxx_printer *p, weft_kval object, weft_kval index, int lane) {
    int lanes = weft_ktype_of(p->kernel, object).lanes;
    name out;
    if (index == WEFT_KNONE)
        out = weft_piece_format(lanes > 1 ? "x%d_%d" : "x%d", object, lane);
    else if (lanes > 1)
        out = weft_piece_format("r%d[%s * %d + %d]", object, weft_cxx_value(p, index, 0).text, lanes, lane);
    else
        out = weft_piece_format("r%d[%s]", object, weft_cxx_value(p, index, 0).text);
    return out;
}

static void print_register(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    const char *type = weft_cxx_type((weft_dtype)instr->type.elem);
    if (instr->op == WEFT_K_regs) {
        weft_cxx_line(p, "%s r%d[%lld];", type, id, (long long)instr->i * instr->type.lanes);
        return;
    }
    if (instr->op == WEFT_K_var) {
        weft_kval first = weft_koperand(p->kernel, instr, 0);
        for (int lane = 0; lane < instr->type.lanes; lane++)
            weft_cxx_line(p, "%s %s = %s;", type, register_name(p, id, WEFT_KNONE, lane).text,
                          weft_cxx_value(p, first, weft_ktype_of(p->kernel, first).lanes > 1 ? lane : 0).text);
        return;
    }
    weft_kval object = weft_koperand(p->kernel, instr, 0), index = weft_koperand(p->kernel, instr, 1);
    int lanes = weft_ktype_of(p->kernel, object).lanes;
    for (int lane = 0; lane < lanes; lane++) {
        name at = register_name(p, object, index, lane);
        if (instr->op == WEFT_K_get)
            weft_cxx_line(p, "const %s %s = %s;", type, weft_cxx_value(p, id, lane).text, at.text);
        else {
            weft_kval value = weft_koperand(p->kernel, instr, 2);
            weft_cxx_line(p, "%s = %s;", at.text,
                          weft_cxx_value(p, value, weft_ktype_of(p->kernel, value).lanes > 1 ? lane : 0).text);
        }
    }
}

bool weft_cxx_print_memory(weft_cxx_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    switch ((int)instr->op) {
    case WEFT_K_buffer: return true; /* a parameter */
    case WEFT_K_load: print_load(p, id, instr); return true;
    case WEFT_K_store: print_store(p, instr); return true;
    case WEFT_K_prefetch:
        weft_cxx_line(
            p, "prefetch(&%s);",
            weft_cxx_element(p, weft_koperand(p->kernel, instr, 0), weft_koperand(p->kernel, instr, 1), 0).text);
        return true;
    case WEFT_K_var:
    case WEFT_K_regs:
    case WEFT_K_get:
    case WEFT_K_set: print_register(p, id, instr); return true;
    case WEFT_K_barrier: weft_cxx_line(p, "%s", p->dialect->barrier); return true;
    default: return false;
    }
}
