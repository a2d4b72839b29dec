/* The kernel record: creation, the one general instruction constructor, the op table, text and hash.

   Invariant: instrs always has room for one instruction, so that a value index handed out after a failed allocation (0)
   can be looked at; `failed` stays set and weft_kernel_verify reports it.
   Read next: build.c (how builders make instructions), verify.c, simulate.c (what they mean). */
#include "codegen/kernel/kernel.h"

#include <string.h>

#include "base/map.h"

typedef struct op_row {
    const char *name;
    int operands, flags;
} op_row;

#define PURE      WEFT_KFLAG_PURE
#define EFFECT    WEFT_KFLAG_EFFECT
#define STRUCTURE WEFT_KFLAG_STRUCTURE
#define UNIFORM   WEFT_KFLAG_UNIFORM
#define ASYNC     WEFT_KFLAG_ASYNC
static const op_row rows[WEFT_K_COUNT] = {
#define KERNEL_OP(id, operands, flags, c, llvm) {#id, operands, flags},
#include "codegen/kernel/kernel_ops.def"
#undef KERNEL_OP
};

const char *weft_kop_name(weft_kop op) { return (unsigned)op < WEFT_K_COUNT ? rows[op].name : "unknown"; }
int weft_kop_flags(weft_kop op) { return (unsigned)op < WEFT_K_COUNT ? rows[op].flags : 0; }
int weft_kop_operands(weft_kop op) { return (unsigned)op < WEFT_K_COUNT ? rows[op].operands : 0; }

weft_kernel *weft_kernel_create(weft_arena *arena, weft_dim_table *dims, const weft_capability *capability,
                                const char *name) {
    weft_kernel *kernel = weft_arena_allocate(arena, sizeof *kernel);
    if (!kernel) return NULL;
    enum { FIRST_CAPACITY = 64 };
    *kernel = (weft_kernel){.arena = arena, .dims = dims, .capability = capability, .threads = 1, .cluster = 1};
    kernel->grid = 1;
    kernel->name = weft_arena_copy_string(arena, name, strlen(name));
    kernel->instrs = weft_arena_allocate_array(arena, FIRST_CAPACITY, sizeof *kernel->instrs);
    kernel->instr_capacity = FIRST_CAPACITY;
    return kernel->name && kernel->instrs ? kernel : NULL;
}

/* Doubles an arena array; the old one stays behind in the arena. */
static bool reserve(weft_arena *arena, void **items, size_t count, size_t *capacity, size_t more, size_t item_bytes) {
    size_t needed;
    if (!weft_size_add(count, more, &needed)) return false;
    if (needed <= *capacity) return true;
    size_t grown = *capacity ? *capacity : 16;
    while (grown < needed)
        if (!weft_size_multiply(grown, 2, &grown)) return false;
    void *copy = weft_arena_allocate_array(arena, grown, item_bytes);
    if (!copy) return false;
    if (count) memcpy(copy, *items, count * item_bytes);
    *items = copy;
    *capacity = grown;
    return true;
}

#define RESERVE(kernel, items, count, capacity, more)                                                                  \
    reserve((kernel)->arena, (void **)&(items), (count), &(capacity), (more), sizeof *(items))

/* Which buffers a kernel reads and writes follows from its instructions. */
static void note_access(weft_kernel *kernel, weft_kop op, int operand_count, const weft_kval *operands) {
    bool reads = op == WEFT_K_load || op == WEFT_K_atomic || op == WEFT_K_copy_async || op == WEFT_K_tensor_load;
    bool writes = op == WEFT_K_store || op == WEFT_K_atomic || op == WEFT_K_tensor_store;
    if (!reads && !writes) return;
    for (int n = 0; n < operand_count; n++) {
        if (operands[n] < 0 || (size_t)operands[n] >= kernel->instr_count) continue;
        const weft_kinstr *instr = &kernel->instrs[operands[n]];
        if (instr->type.kind != WEFT_KIND_BUFFER && instr->type.kind != WEFT_KIND_TENSOR_MAP) continue;
        if (instr->i < 0 || (size_t)instr->i >= kernel->argument_count) continue;
        kernel->arguments[instr->i].reads |= reads;
        kernel->arguments[instr->i].stores |= writes;
        if (instr->type.kind == WEFT_KIND_TENSOR_MAP) kernel->arguments[instr->i].writes |= writes;
    }
}

weft_kval weft_kernel_emit(weft_kernel *kernel, weft_kop op, weft_ktype type, int operand_count,
                           const weft_kval *operands, int64_t i, double f) {
    if (kernel->failed) return 0;
    if (operand_count < 0 || operand_count > UINT16_MAX || kernel->instr_count >= INT32_MAX ||
        kernel->operand_count > INT32_MAX - UINT16_MAX ||
        !RESERVE(kernel, kernel->instrs, kernel->instr_count, kernel->instr_capacity, 1) ||
        !RESERVE(kernel, kernel->operands, kernel->operand_count, kernel->operand_capacity, (size_t)operand_count)) {
        kernel->failed = true;
        return 0;
    }
    note_access(kernel, op, operand_count, operands);
    kernel->instrs[kernel->instr_count] = (weft_kinstr){.op = (uint16_t)op,
                                                        .operand_count = (uint16_t)operand_count,
                                                        .type = type,
                                                        .first_operand = (int32_t)kernel->operand_count,
                                                        .i = i,
                                                        .f = f};
    for (int n = 0; n < operand_count; n++) kernel->operands[kernel->operand_count++] = operands[n];
    if (op == WEFT_K_for || op == WEFT_K_if || op == WEFT_K_while || op == WEFT_K_role || op == WEFT_K_func)
        kernel->depth++;
    if (op == WEFT_K_end || op == WEFT_K_func_end) kernel->depth--;
    return (weft_kval)kernel->instr_count++;
}

int weft_kernel_argument(weft_kernel *kernel, weft_kargument argument) {
    if (kernel->failed || !RESERVE(kernel, kernel->arguments, kernel->argument_count, kernel->argument_capacity, 1)) {
        kernel->failed = true;
        return -1;
    }
    argument.name = argument.name ? weft_arena_copy_string(kernel->arena, argument.name, strlen(argument.name))
                                  : weft_arena_format(kernel->arena, "a%zu", kernel->argument_count);
    if (!argument.name) {
        kernel->failed = true;
        return -1;
    }
    kernel->arguments[kernel->argument_count] = argument;
    return (int)kernel->argument_count++;
}

weft_kval weft_kernel_buffer(weft_kernel *kernel, weft_argument_source source, int index, weft_dtype dtype, bool writes,
                             const char *name) {
    int argument = weft_kernel_argument(
        kernel, (weft_kargument){.source = source, .index = index, .dtype = dtype, .writes = writes, .name = name});
    bool map = source == WEFT_ARGUMENT_TENSOR_MAP;
    weft_ktype type = {map ? WEFT_KIND_TENSOR_MAP : WEFT_KIND_BUFFER, (uint8_t)dtype, 1};
    return weft_kernel_emit(kernel, map ? WEFT_K_tensor_map : WEFT_K_buffer, type, 0, NULL, argument, 0);
}

/* -- text */

static void print_type(weft_text *text, weft_ktype type) {
    static const char *const kinds[] = {"void", "",     "buffer",     "shared",  "var",
                                        "regs", "func", "tensor_map", "mbarrier"};
    if (type.kind == WEFT_KIND_VOID) return;
    const char *kind = type.kind < sizeof kinds / sizeof *kinds ? kinds[type.kind] : "?";
    weft_text_append(text, ": %s", kind);
    bool element = type.kind != WEFT_KIND_FUNC && type.kind != WEFT_KIND_MBARRIER && type.kind != WEFT_KIND_TENSOR_MAP;
    if (!element) return;
    if (*kind) weft_text_append(text, "<");
    weft_text_append(text, "%s", weft_dtype_name((weft_dtype)type.elem));
    if (type.lanes != 1) weft_text_append(text, "x%d", type.lanes);
    if (*kind) weft_text_append(text, ">");
}

static void print_arguments(const weft_kernel *kernel, weft_text *text) {
    static const char *const sources[] = {"operand", "result", "temp", "extent", "tensor_map"};
    for (size_t n = 0; n < kernel->argument_count; n++) {
        const weft_kargument *argument = &kernel->arguments[n];
        weft_text_append(text, "  argument %zu \"%s\": %s ", n, argument->name, sources[argument->source]);
        if (argument->source == WEFT_ARGUMENT_EXTENT)
            weft_dim_print(kernel->dims, argument->extent, text);
        else
            weft_text_append(text, "%d", argument->index);
        weft_text_append(text, " %s%s%s\n", weft_dtype_name(argument->dtype), argument->reads ? " reads" : "",
                         argument->writes ? " writes" : "");
    }
}

static void print_instr(const weft_kernel *kernel, weft_kval value, weft_text *text) {
    const weft_kinstr *instr = weft_kernel_get(kernel, value);
    bool defines = instr->type.kind != WEFT_KIND_VOID;
    if (defines) weft_text_append(text, "%%%d", value);
    print_type(text, instr->type);
    weft_text_append(text, "%s%s", defines ? " = " : "", weft_kop_name((weft_kop)instr->op));
    for (int n = 0; n < instr->operand_count; n++) {
        weft_kval operand = weft_koperand(kernel, instr, n);
        const char *comma = n ? "," : "";
        if (operand == WEFT_KNONE)
            weft_text_append(text, "%s -", comma);
        else
            weft_text_append(text, "%s %%%d", comma, operand);
    }
    if (instr->op == WEFT_K_constant && weft_dtype_is_float((weft_dtype)instr->type.elem)) {
        weft_text_append(text, " ");
        weft_text_append_double(text, instr->f);
    } else {
        if (instr->i || instr->op == WEFT_K_constant) weft_text_append(text, " #%lld", (long long)instr->i);
        if (instr->f != 0) {
            weft_text_append(text, " f=");
            weft_text_append_double(text, instr->f);
        }
    }
    if (instr->op == WEFT_K_shared) {
        weft_text_append(text, " [");
        weft_dim_print(kernel->dims, instr->extent, text);
        weft_text_append(text, "]");
    }
    if (instr->align_bytes) weft_text_append(text, " align %d", instr->align_bytes);
    weft_text_append(text, "\n");
}

void weft_kernel_print(const weft_kernel *kernel, weft_text *text) {
    weft_text_append(text, "kernel %s target=%s-%s threads=%d grid=", kernel->name, kernel->capability->target,
                     kernel->capability->arch, kernel->threads);
    weft_dim_print(kernel->dims, kernel->grid, text);
    if (kernel->cluster != 1) weft_text_append(text, " cluster=%d", kernel->cluster);
    if (kernel->registers) weft_text_append(text, " registers=%d", kernel->registers);
    weft_text_append(text, "\n");
    print_arguments(kernel, text);
    int depth = 1;
    for (size_t n = 0; n < kernel->instr_count; n++) {
        weft_kop op = (weft_kop)kernel->instrs[n].op;
        bool closes = op == WEFT_K_end || op == WEFT_K_else || op == WEFT_K_func_end;
        bool opens = (weft_kop_flags(op) & WEFT_KFLAG_STRUCTURE) && op != WEFT_K_end && op != WEFT_K_func_end;
        if (closes && depth > 1) depth--;
        for (int d = 0; d < depth; d++) weft_text_append(text, "  ");
        print_instr(kernel, (weft_kval)n, text);
        if (opens) depth++;
    }
    if (kernel->failed) weft_text_append(text, "  (incomplete: out of memory while building)\n");
}

/* -- hash */

static uint64_t mix(uint64_t hash, uint64_t value) { return weft_hash(&value, sizeof value, hash); }

/* By structure and symbol name: independent of the table's numbering. */
static uint64_t mix_dim(const weft_dim_table *dims, weft_dim dim, uint64_t hash) {
    if (weft_dim_is_number(dim) || dim == WEFT_DIM_ANY || dim == WEFT_DIM_INVALID) return mix(hash, (uint64_t)dim);
    weft_dim_node node = weft_dim_get(dims, dim);
    hash = mix(hash, (uint64_t)node.kind + 0x100);
    if (node.kind == WEFT_DIM_NUMBER) return mix(hash, (uint64_t)node.number);
    if (node.kind == WEFT_DIM_SYMBOL) {
        const char *name = weft_dim_symbol_get(dims, (int)node.a)->name;
        return weft_hash(name, strlen(name), hash);
    }
    return mix_dim(dims, node.b, mix_dim(dims, node.a, hash));
}

uint64_t weft_kernel_hash(const weft_kernel *kernel) {
    const char *target = kernel->capability->target, *arch = kernel->capability->arch;
    uint64_t hash = weft_hash(arch, strlen(arch), weft_hash(target, strlen(target), 1));
    hash = mix(hash, (uint64_t)kernel->threads);
    hash = mix(hash, (uint64_t)kernel->cluster);
    hash = mix(hash, (uint64_t)kernel->registers);
    for (size_t n = 0; n < kernel->argument_count; n++) {
        const weft_kargument *argument = &kernel->arguments[n];
        bool extent = argument->source == WEFT_ARGUMENT_EXTENT, map = argument->source == WEFT_ARGUMENT_TENSOR_MAP;
        hash = mix(hash, (uint64_t)argument->dtype | (uint64_t)argument->reads << 8 | (uint64_t)argument->writes << 9 |
                             (uint64_t)extent << 10 | (uint64_t)map << 11);
    }
    for (size_t n = 0; n < kernel->instr_count; n++) {
        const weft_kinstr *instr = &kernel->instrs[n];
        uint64_t f;
        memcpy(&f, &instr->f, sizeof f);
        hash = mix(hash, (uint64_t)instr->op | (uint64_t)instr->operand_count << 16 | (uint64_t)instr->type.kind << 32 |
                             (uint64_t)instr->type.elem << 40 | (uint64_t)instr->type.lanes << 48);
        hash = mix(mix(mix(hash, (uint64_t)instr->i), f), (uint64_t)(uint32_t)instr->align_bytes);
        if (instr->op == WEFT_K_shared) hash = mix_dim(kernel->dims, instr->extent, hash);
        for (int m = 0; m < instr->operand_count; m++)
            hash = mix(hash, (uint64_t)(uint32_t)weft_koperand(kernel, instr, m));
    }
    return hash;
}
