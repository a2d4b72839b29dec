/* Sections, names, types and constants of a module; the entry point of a kernel. See print.h. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/context.h"
#include "codegen/kernel/narrow.h"
#include "codegen/kernel/scalar.h"
#include "codegen/spirv/print.h"

static const char *const type_names[WEFT_SPIRV_TYPES] = {
    "", "void", "bool", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "u32x2", "u32x4", "u32_pair", "u64_pair"};
static const char *const type_texts[WEFT_SPIRV_TYPES] = {
    "",
    "OpTypeVoid",
    "OpTypeBool",
    "OpTypeInt 8 0",
    "OpTypeInt 16 0",
    "OpTypeInt 32 0",
    "OpTypeInt 64 0",
    "OpTypeFloat 16",
    "OpTypeFloat 32",
    "OpTypeFloat 64",
    "OpTypeVector %u32 2",
    "OpTypeVector %u32 4",
    "OpTypeStruct %u32 %u32",
    "OpTypeStruct %u64 %u64",
};
static const char *const storage_names[] = {"PhysicalStorageBuffer", "Workgroup", "Function"};

enum { POINTERS = WEFT_SPIRV_TYPES, NUMBERS = POINTERS + 3 * WEFT_SPIRV_TYPES };

const char *weft_spirv_type_text(weft_spirv_type type) { return type_names[type]; }

void weft_spirv_fail(weft_spirv *p, weft_code code, const char *problem) {
    if (p->failure == WEFT_OK) {
        p->failure = code;
        p->problem = problem;
    }
}

weft_spirv_id weft_spirv_new(weft_spirv *p) { return p->next_id++; }

static void append_id(weft_text *text, weft_spirv_id id) {
    static const char prefixes[] = {'p', 'w', 'v'};
    if (id >= NUMBERS)
        weft_text_append(text, "%%%d", id);
    else if (id >= POINTERS)
        weft_text_append(text, "%%%c_%s", prefixes[(id - POINTERS) / WEFT_SPIRV_TYPES],
                         type_names[(id - POINTERS) % WEFT_SPIRV_TYPES]);
    else
        weft_text_append(text, "%%%s", type_names[id]);
}

static void append_list(weft_text *text, const char *format, va_list list) {
    for (const char *c = format; *c; c++) {
        if (*c == '~' && !c[1]) return;
        if (*c == '$')
            append_id(text, va_arg(list, weft_spirv_id));
        else if (*c == '#')
            weft_text_append(text, "%lld", (long long)va_arg(list, int64_t));
        else if (*c == '@')
            weft_text_append(text, "%s", va_arg(list, const char *));
        else
            weft_text_append_bytes(text, c, 1);
    }
    weft_text_append_bytes(text, "\n", 1);
}

void weft_spirv_do(weft_spirv *p, weft_text *section, const char *format, ...) {
    (void)p;
    va_list list;
    va_start(list, format);
    append_list(section, format, list);
    va_end(list);
}

/* Written before? Then the line is taken back. before: length of the section without the line. */
static weft_spirv_id reused(weft_spirv *p, weft_spirv_reuse *reuse, weft_text *section, size_t before,
                            weft_spirv_id id) {
    if (section->failed) return id;
    const char *line = weft_text_string(section) + before, *key = strchr(line, '=');
    weft_spirv_id known = weft_spirv_reuse_find(reuse, key, section->length - before - (size_t)(key - line), id);
    if (known == id) return id;
    section->length = before;
    if (p->next_id == id + 1) p->next_id = id;
    return known;
}

/* Without memory, effects or decorations of its own. */
static bool is_plain(const char *op) {
    static const char *const starts[] = {"OpI", "OpU", "OpS", "OpBit", "OpLogical", "OpCompositeExtract", "OpConvert"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(op, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

weft_spirv_id weft_spirv_emit(weft_spirv *p, weft_spirv_type type, const char *op, const char *format, ...) {
    weft_spirv_id id = weft_spirv_new(p);
    size_t before = p->code.length;
    append_id(&p->code, id);
    weft_text_append(&p->code, " = %s ", op);
    append_id(&p->code, weft_spirv_type_name(p, type));
    weft_text_append_bytes(&p->code, " ", 1);
    va_list list;
    va_start(list, format);
    append_list(&p->code, format, list);
    va_end(list);
    return is_plain(op) ? reused(p, &p->values, &p->code, before, id) : id;
}

weft_spirv_id weft_spirv_type_name(weft_spirv *p, weft_spirv_type type) {
    if (p->types >> type & 1) return (weft_spirv_id)type;
    if (type == WEFT_SPIRV_U32X2 || type == WEFT_SPIRV_U32X4 || type == WEFT_SPIRV_U32_PAIR)
        (void)weft_spirv_type_name(p, WEFT_SPIRV_U32);
    if (type == WEFT_SPIRV_U64_PAIR) (void)weft_spirv_type_name(p, WEFT_SPIRV_U64);
    p->types |= UINT32_C(1) << type;
    weft_text_append(&p->globals, "%%%s = %s\n", type_names[type], type_texts[type]);
    return (weft_spirv_id)type;
}

weft_spirv_id weft_spirv_pointer_name(weft_spirv *p, weft_spirv_storage storage, weft_spirv_type type) {
    weft_spirv_id id = POINTERS + (int)storage * WEFT_SPIRV_TYPES + (int)type;
    if (p->pointers[storage] >> type & 1) return id;
    (void)weft_spirv_type_name(p, type);
    p->pointers[storage] |= UINT32_C(1) << type;
    append_id(&p->globals, id);
    weft_text_append(&p->globals, " = OpTypePointer %s %%%s\n", storage_names[storage], type_names[type]);
    return id;
}

/* Finite floats in hexadecimal; the assembler reads exponents beyond the largest as inf and NaN. */
static void append_float(weft_text *text, double value, bool wide) {
    if (isfinite(value))
        weft_text_append(text, "%a", value);
    else
        weft_text_append(text, "%s0x1%sp+%d", signbit(value) ? "-" : "", isnan(value) ? ".8" : "", wide ? 1024 : 128);
}

weft_spirv_id weft_spirv_constant(weft_spirv *p, weft_spirv_type type, uint64_t bits) {
    weft_spirv_id id = weft_spirv_new(p);
    (void)weft_spirv_type_name(p, type);
    size_t before = p->globals.length;
    append_id(&p->globals, id);
    if (type == WEFT_SPIRV_BOOL) {
        weft_text_append(&p->globals, " = %s %%bool\n", bits ? "OpConstantTrue" : "OpConstantFalse");
        return reused(p, &p->constants, &p->globals, before, id);
    }
    weft_text_append(&p->globals, " = OpConstant %%%s ", type_names[type]);
    if (type == WEFT_SPIRV_F32)
        append_float(&p->globals, (double)weft_kscalar_f32(bits), false);
    else if (type == WEFT_SPIRV_F64)
        append_float(&p->globals, weft_kscalar_f64(bits), true);
    else
        weft_text_append(&p->globals, "%llu", (unsigned long long)bits);
    weft_text_append_bytes(&p->globals, "\n", 1);
    return reused(p, &p->constants, &p->globals, before, id);
}

weft_spirv_id weft_spirv_u32(weft_spirv *p, uint32_t value) {
    if (value >= WEFT_SPIRV_SMALL) return weft_spirv_constant(p, WEFT_SPIRV_U32, value);
    if (!p->small[value]) p->small[value] = weft_spirv_constant(p, WEFT_SPIRV_U32, value);
    return p->small[value];
}

/* Of the open function; count 0: a scalar, else an array. */
weft_spirv_id weft_spirv_variable(weft_spirv *p, weft_spirv_type type, int64_t count) {
    weft_spirv_id id = weft_spirv_new(p), pointer = weft_spirv_pointer_name(p, WEFT_SPIRV_FUNCTION, type);
    if (count) {
        weft_spirv_id array = weft_spirv_new(p), length = weft_spirv_u32(p, (uint32_t)count);
        pointer = weft_spirv_new(p);
        weft_spirv_do(p, &p->globals, "$ = OpTypeArray $ $", array, (weft_spirv_id)type, length);
        weft_spirv_do(p, &p->globals, "$ = OpTypePointer Function $", pointer, array);
    }
    weft_spirv_do(p, &p->variables, "$ = OpVariable $ Function", id, pointer);
    return id;
}

void weft_spirv_open_block(weft_spirv *p, weft_spirv_id label) {
    weft_spirv_do(p, &p->code, "$ = OpLabel", label);
    p->label = label;
}

weft_spirv_type weft_spirv_carrier(weft_dtype elem) {
    switch ((int)elem) {
    case WEFT_BOOL: return WEFT_SPIRV_BOOL;
    case WEFT_I8:
    case WEFT_I16:
    case WEFT_I32:
    case WEFT_U8:
    case WEFT_U16:
    case WEFT_U32:
    case WEFT_F16:
    case WEFT_BF16: return WEFT_SPIRV_U32;
    case WEFT_I64:
    case WEFT_U64: return WEFT_SPIRV_U64;
    case WEFT_F32: return WEFT_SPIRV_F32;
    default: return WEFT_SPIRV_NONE;
    }
}

int weft_spirv_lanes(const weft_spirv *p, weft_kval value) {
    return p->scalar_body ? 1 : weft_ktype_of(p->kernel, value).lanes;
}

static weft_spirv_id constant_of(weft_spirv *p, const weft_kinstr *instr) {
    weft_spirv_type type = weft_spirv_carrier((weft_dtype)instr->type.elem);
    uint64_t value = weft_kscalar_constant(instr);
    if (type == WEFT_SPIRV_U32 && (value & UINT32_MAX) < WEFT_SPIRV_SMALL)
        return weft_spirv_u32(p, (uint32_t)(value & UINT32_MAX));
    return weft_spirv_constant(p, type, type == WEFT_SPIRV_U32 ? value & UINT32_MAX : value);
}

weft_spirv_id weft_spirv_lane(weft_spirv *p, weft_kval value, int lane) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, value);
    while (instr->op == WEFT_K_splat) {
        value = weft_koperand(p->kernel, instr, 0);
        instr = weft_kernel_get(p->kernel, value);
    }
    if (weft_spirv_lanes(p, value) == 1) lane = 0;
    if (instr->op == WEFT_K_constant) {
        weft_spirv_id *slot = &p->lanes[p->first[value]];
        if (!*slot) *slot = constant_of(p, instr);
        return *slot;
    }
    return p->lanes[p->first[value] + lane];
}

void weft_spirv_define(weft_spirv *p, weft_kval value, int lane, weft_spirv_id id) {
    p->lanes[p->first[value] + lane] = id;
}

/* -- the entry point */

static void check_types(weft_spirv *p) {
    for (size_t i = 0; i < p->kernel->instr_count; i++) {
        weft_ktype type = p->kernel->instrs[i].type;
        bool memory = type.kind == WEFT_KIND_BUFFER || type.kind == WEFT_KIND_SHARED || type.kind == WEFT_KIND_VAR ||
                      type.kind == WEFT_KIND_REGS;
        if ((memory || type.kind == WEFT_KIND_VALUE) && weft_spirv_carrier((weft_dtype)type.elem) == WEFT_SPIRV_NONE)
            weft_spirv_fail(p, WEFT_UNSUPPORTED, weft_dtype_name((weft_dtype)type.elem));
    }
    if (p->kernel->cluster > 1) weft_spirv_fail(p, WEFT_UNSUPPORTED, "clusters of blocks");
}

/* Tables by instruction; ids of lanes lie one after the other. */
static bool prepare(weft_spirv *p) {
    const weft_kernel *kernel = p->kernel;
    size_t total = 0, count = kernel->instr_count;
    p->first = weft_arena_allocate_array(kernel->arena, count + 1, sizeof *p->first);
    p->arguments = weft_arena_allocate_array(kernel->arena, kernel->argument_count + 1, sizeof *p->arguments);
    p->whole = weft_arena_allocate_array(kernel->arena, count + 1, sizeof *p->whole);
    if (!p->first || !p->arguments || !p->whole) return false;
    memset(p->whole, 0, count + 1);
    for (size_t i = 0; i < count; i++) {
        p->first[i] = (weft_spirv_id)total;
        total += kernel->instrs[i].type.lanes ? kernel->instrs[i].type.lanes : 1;
    }
    if (total > INT32_MAX) return false;
    p->lanes = weft_arena_allocate_array(kernel->arena, total + 1, sizeof *p->lanes);
    if (!p->lanes) return false;
    memset(p->lanes, 0, (total + 1) * sizeof *p->lanes);
    return true;
}

/* Does the kernel read what its own threads write to buffers? */
static bool shares_buffers(const weft_kernel *kernel) {
    bool read = false, written = false;
    for (size_t i = 0; i < kernel->argument_count; i++) written |= kernel->arguments[i].writes;
    for (size_t i = 0; i < kernel->instr_count; i++) {
        if (kernel->instrs[i].op == WEFT_K_atomic) return true;
        if (kernel->instrs[i].op != WEFT_K_load) continue;
        const weft_kinstr *memory = weft_kernel_get(kernel, weft_koperand(kernel, &kernel->instrs[i], 0));
        read |= memory->op == WEFT_K_buffer && kernel->arguments[memory->i].writes;
    }
    return read && written;
}

static weft_spirv_id component(weft_spirv *p, weft_spirv_id vector, int which) {
    return weft_spirv_emit(p, WEFT_SPIRV_U32, "OpCompositeExtract", "$ #", vector, (int64_t)which);
}

static weft_spirv_id word(weft_spirv *p, weft_spirv_id base, size_t index) {
    weft_spirv_id offset = weft_spirv_constant(p, WEFT_SPIRV_U64, index * 8);
    weft_spirv_id at = weft_spirv_emit(p, WEFT_SPIRV_U64, "OpIAdd", "$ $", base, offset), pointer = weft_spirv_new(p);
    weft_spirv_do(p, &p->code, "$ = OpConvertUToPtr $ $", pointer,
                  weft_spirv_pointer_name(p, WEFT_SPIRV_PHYSICAL, WEFT_SPIRV_U64), at);
    return weft_spirv_emit(p, WEFT_SPIRV_U64, "OpLoad", "$ Aligned 8", pointer);
}

/* Where a thread stands, and its arguments. Blocks are numbered over two axes of the dispatch, since one may end at
   65535; those past the grid do nothing. */
static void print_entry(weft_spirv *p) {
    weft_spirv_id id = weft_spirv_new(p), at = weft_spirv_new(p);
    weft_spirv_do(p, &p->code, "$ = OpLoad %vec3 %workgroup", id);
    weft_spirv_id x = component(p, id, 0), y = component(p, id, 1);
    id = weft_spirv_new(p);
    weft_spirv_do(p, &p->code, "$ = OpLoad %vec3 %groups", id);
    weft_spirv_id width = component(p, id, 0);
    y = weft_spirv_emit(p, WEFT_SPIRV_U32, "OpIMul", "$ $", y, width);
    p->block = weft_spirv_emit(p, WEFT_SPIRV_U32, "OpIAdd", "$ $", x, y);
    p->local = weft_spirv_emit(p, WEFT_SPIRV_U32, "OpLoad", "%local");
    weft_spirv_do(p, &p->code, "$ = OpAccessChain %push_u64 %push $", at, weft_spirv_u32(p, 0));
    weft_spirv_id base = weft_spirv_emit(p, WEFT_SPIRV_U64, "OpLoad", "$", at);
    p->grid = weft_spirv_emit(p, WEFT_SPIRV_U32, "OpUConvert", "$", word(p, base, 0));
    size_t at_word = 1; /* buffers first, then extents */
    for (int extents = 0; extents < 2; extents++)
        for (size_t i = 0; i < p->kernel->argument_count; i++)
            if ((p->kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT) == (extents == 1))
                p->arguments[i] = word(p, base, at_word++);
}

void weft_spirv_instruction(weft_spirv *p, weft_kval id) {
    if (weft_spirv_structure(p, id) || weft_spirv_value(p, id) || weft_spirv_matrix(p, id) || weft_spirv_memory(p, id))
        return;
    weft_spirv_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)weft_kernel_get(p->kernel, id)->op));
}

static void print_instructions(weft_spirv *p) {
    bool inside = false;
    for (size_t i = 0; i < p->kernel->instr_count && p->failure == WEFT_OK; i++) {
        int op = p->kernel->instrs[i].op;
        if (op == WEFT_K_func) inside = true;
        if (!inside) weft_spirv_instruction(p, (weft_kval)i);
        if (op == WEFT_K_func_end) inside = false;
    }
}

void weft_spirv_open_function(weft_spirv *p, weft_spirv_id label) {
    p->code.length = 0;
    p->variables.length = 0;
    weft_spirv_reuse_forget(&p->values, 0);
    p->label = label;
}

void weft_spirv_close_function(weft_spirv *p, weft_spirv_id label) {
    weft_spirv_do(p, &p->functions, "$ = OpLabel", label);
    weft_text_append_bytes(&p->functions, weft_text_string(&p->variables), p->variables.length);
    weft_text_append_bytes(&p->functions, weft_text_string(&p->code), p->code.length);
    weft_text_append(&p->functions, "OpFunctionEnd\n");
}

static void print_main(weft_spirv *p) {
    weft_spirv_id label = weft_spirv_new(p), body = weft_spirv_new(p), exit = weft_spirv_new(p);
    weft_spirv_open_function(p, label);
    print_entry(p);
    weft_spirv_id in = weft_spirv_emit(p, WEFT_SPIRV_BOOL, "OpULessThan", "$ $", p->block, p->grid);
    weft_spirv_do(p, &p->code, "OpSelectionMerge $ None", exit);
    weft_spirv_do(p, &p->code, "OpBranchConditional $ $ $", in, body, exit);
    weft_spirv_open_block(p, body);
    print_instructions(p);
    weft_spirv_do(p, &p->code, "OpBranch $", exit);
    weft_spirv_open_block(p, exit);
    weft_text_append(&p->code, "OpReturn\n");
    weft_text_append(&p->functions, "%%main = OpFunction %%void None %%main_type\n");
    weft_spirv_close_function(p, label);
}

static bool uses(const weft_spirv *p, weft_spirv_type type) { return p->types >> type & 1; }

static void print_head(const weft_spirv *p, weft_text *text) {
    weft_text_append(text, "; %s\n", p->kernel->name);
    static const char *const always[] = {"Shader", "PhysicalStorageBufferAddresses", "Int64"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) weft_text_append(text, "OpCapability %s\n", always[i]);
    if (p->atomics64) weft_text_append(text, "OpCapability Int64Atomics\n");
    if (uses(p, WEFT_SPIRV_U8)) weft_text_append(text, "OpCapability StorageBuffer8BitAccess\n");
    if (uses(p, WEFT_SPIRV_U16)) weft_text_append(text, "OpCapability StorageBuffer16BitAccess\nOpCapability Int16\n");
    if (uses(p, WEFT_SPIRV_F16)) weft_text_append(text, "OpCapability Float16\nOpCapability RoundingModeRTE\n");
    if (uses(p, WEFT_SPIRV_F64)) weft_text_append(text, "OpCapability Float64\n");
    if (p->shuffles) weft_text_append(text, "OpCapability GroupNonUniform\nOpCapability GroupNonUniformShuffle\n");
    if (p->matrices) weft_spirv_matrix_capability(p, text);
    weft_text_append(
        text,
        "OpCapability SignedZeroInfNanPreserve\nOpCapability DenormPreserve\n%s%s%%glsl = OpExtInstImport \"GLSL.std.450\"\n"
        "OpMemoryModel PhysicalStorageBuffer64 %s\n"
        "OpEntryPoint GLCompute %%main \"main\" %%workgroup %%groups %%local %%push%s\n"
        "OpExecutionMode %%main LocalSize %d 1 1\n"
        "OpExecutionMode %%main SignedZeroInfNanPreserve 32\n"
        "OpExecutionMode %%main DenormPreserve 32\n",
        p->matrices ? "OpExtension \"SPV_KHR_cooperative_matrix\"\n" : "",
        p->bfloat ? "OpExtension \"SPV_KHR_bfloat16\"\n" : "", p->matrices ? "Vulkan" : "GLSL450",
        weft_text_string(&p->interfaces), p->kernel->threads);
    if (uses(p, WEFT_SPIRV_F16)) weft_text_append(text, "OpExecutionMode %%main RoundingModeRTE 16\n");
    weft_text_append(text, "OpDecorate %%workgroup BuiltIn WorkgroupId\nOpDecorate %%groups BuiltIn NumWorkgroups\n"
                           "OpDecorate %%local BuiltIn LocalInvocationIndex\nOpDecorate %%arguments Block\n"
                           "OpMemberDecorate %%arguments 0 Offset 0\n");
    weft_text_append_bytes(text, weft_text_string(&p->decorations), p->decorations.length);
}

static void print_sections(const weft_spirv *p, weft_text *text) {
    print_head(p, text);
    weft_text_append_bytes(text, weft_text_string(&p->globals), p->globals.length);
    weft_text_append_bytes(text, weft_text_string(&p->functions), p->functions.length);
}

static void print_globals(weft_spirv *p) {
    static const weft_spirv_type types[] = {WEFT_SPIRV_VOID, WEFT_SPIRV_BOOL, WEFT_SPIRV_U32, WEFT_SPIRV_U64};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) (void)weft_spirv_type_name(p, types[i]);
    weft_text_append(&p->globals, "%%main_type = OpTypeFunction %%void\n%%vec3 = OpTypeVector %%u32 3\n"
                                  "%%in_vec3 = OpTypePointer Input %%vec3\n%%in_u32 = OpTypePointer Input %%u32\n"
                                  "%%arguments = OpTypeStruct %%u64\n"
                                  "%%push_arguments = OpTypePointer PushConstant %%arguments\n"
                                  "%%push_u64 = OpTypePointer PushConstant %%u64\n"
                                  "%%workgroup = OpVariable %%in_vec3 Input\n%%groups = OpVariable %%in_vec3 Input\n"
                                  "%%local = OpVariable %%in_u32 Input\n"
                                  "%%push = OpVariable %%push_arguments PushConstant\n");
}

static weft_status print_kernel(weft_spirv *p) {
    if (!prepare(p)) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "printing kernel %s", p->kernel->name);
    p->shares_buffers = shares_buffers(p->kernel);
    check_types(p);
    weft_spirv_find_matrices(p);
    print_globals(p);
    if (p->failure == WEFT_OK) weft_spirv_functions(p);
    if (p->failure == WEFT_OK) print_main(p);
    if (p->failure != WEFT_OK)
        return WEFT_STATUS(p->failure, "kernel %s cannot be printed as SPIR-V: %s", p->kernel->name, p->problem);
    return NULL;
}

weft_status weft_spirv_print(const weft_kernel *kernel, weft_text *text) {
    return weft_spirv_print_as(kernel, false, text);
}

weft_status weft_spirv_print_as(const weft_kernel *kernel, bool numbers, weft_text *text) {
    WEFT_TRY(weft_kernel_without_f8(kernel, &kernel), "printing SPIR-V");
    weft_spirv *p = weft_allocate(text->allocator, sizeof *p);
    if (!p) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "printing kernel %s", kernel->name);
    *p = (weft_spirv){.kernel = kernel, .next_id = NUMBERS, .numbers = numbers};
    weft_text *sections[] = {&p->interfaces, &p->decorations, &p->globals, &p->functions, &p->variables, &p->code};
    enum { SECTIONS = sizeof sections / sizeof *sections };
    for (int i = 0; i < SECTIONS; i++) weft_text_init(text->allocator, sections[i]);
    weft_spirv_reuse_init(&p->constants, text->allocator);
    weft_spirv_reuse_init(&p->values, text->allocator);
    weft_status status = print_kernel(p);
    for (int i = 0; i < SECTIONS && !status; i++) status = weft_text_status(sections[i]);
    if (!status) {
        print_sections(p, text);
        status = weft_text_status(text);
    }
    for (int i = 0; i < SECTIONS; i++) weft_text_deinit(sections[i]);
    weft_spirv_reuse_deinit(&p->constants);
    weft_spirv_reuse_deinit(&p->values);
    weft_free(text->allocator, p, sizeof *p);
    return status;
}
