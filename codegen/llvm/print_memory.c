/* Buffers, scratch, variables and register arrays.

   Variables and registers are allocas of the function's first block, one per element: sroa turns them into values.
   Scalar accesses under a mask go to a dummy alloca when the mask is false, so that no branch is needed.
   BOOL is a byte in memory and i1 as a value. Read next: print_structure.c. */
#include "codegen/llvm/print.h"

int weft_llvm_alignment(const weft_kinstr *instr, weft_dtype elem) {
    int natural = weft_dtype_bits(elem) / 8;
    return instr->align_bytes > natural ? instr->align_bytes : natural;
}

/* Address of element `index` (operand 1) of the buffer or scratch in operand 0; a vector of addresses for a vector
 * index. */
static int address(weft_llvm_printer *printer, const weft_kinstr *instr) {
    weft_kval memory = weft_koperand(printer->kernel, instr, 0), index = weft_koperand(printer->kernel, instr, 1);
    weft_llvm_name elem = weft_llvm_memory_type((weft_dtype)weft_ktype_of(printer->kernel, memory).elem, 1);
    weft_llvm_name base = weft_llvm_value(printer, memory), type = weft_llvm_type_of(printer, index),
                   at = weft_llvm_value(printer, index);
    return weft_llvm_define(printer, "getelementptr inbounds %s, ptr %s, %s %s", elem.text, base.text, type.text,
                            at.text);
}

/* The address, or the dummy's where the scalar mask is false. */
static int guarded_address(weft_llvm_printer *printer, const weft_kinstr *instr, int pointer) {
    if (!printer->dummy) {
        printer->dummy = printer->next++;
        weft_text_append(printer->entry, "  %%t%d = alloca i64, align 16\n  store i64 0, ptr %%t%d, align 16\n",
                         printer->dummy, printer->dummy);
    }
    weft_llvm_name mask = weft_llvm_operand(printer, instr, 2);
    return weft_llvm_define(printer, "select i1 %s, ptr %%t%d, ptr %%t%d", mask.text, pointer, printer->dummy);
}

/* A mask (operand 2) as a vector: all lanes when absent, splat when scalar. */
static weft_llvm_name vector_mask(weft_llvm_printer *printer, const weft_kinstr *instr, int lanes) {
    weft_kval mask = weft_koperand(printer->kernel, instr, 2);
    if (mask == WEFT_KNONE) return weft_llvm_integer(1, 1, lanes);
    if (weft_ktype_of(printer->kernel, mask).lanes == lanes || printer->slots[mask].kind == WEFT_LLVM_INTEGER) {
        int64_t number;
        if (weft_llvm_known(printer, mask, &number)) return weft_llvm_integer(number, 1, lanes);
        return weft_llvm_value(printer, mask);
    }
    weft_llvm_name scalar = weft_llvm_value(printer, mask);
    int one = weft_llvm_define(printer, "insertelement <%d x i1> poison, i1 %s, i64 0", lanes, scalar.text);
    return weft_llvm_ssa(weft_llvm_define(printer,
                                          "shufflevector <%d x i1> %%t%d, <%d x i1> poison, <%d x i32> zeroinitializer",
                                          lanes, one, lanes, lanes));
}

weft_llvm_name weft_llvm_other(weft_llvm_printer *printer, const weft_kinstr *instr, weft_dtype elem, int lanes) {
    weft_kval other = weft_koperand(printer->kernel, instr, 3);
    if (other == WEFT_KNONE)
        return elem == WEFT_F32 || elem == WEFT_F64 ? weft_llvm_float(0, elem, lanes)
                                                    : weft_llvm_integer(0, weft_dtype_bits(elem), lanes);
    weft_llvm_name value = weft_llvm_value(printer, other);
    if (elem != WEFT_BOOL) return value;
    weft_llvm_name narrow = weft_llvm_integer_type(1, lanes), wide = weft_llvm_integer_type(8, lanes);
    return weft_llvm_ssa(weft_llvm_define(printer, "zext %s %s to %s", narrow.text, value.text, wide.text));
}

static void print_load(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    int lanes = instr->type.lanes, align = weft_llvm_alignment(instr, elem), id;
    weft_kval mask = weft_koperand(printer->kernel, instr, 2), index = weft_koperand(printer->kernel, instr, 1);
    bool gathers = weft_ktype_of(printer->kernel, index).lanes > 1;
    weft_llvm_name type = weft_llvm_memory_type(elem, lanes),
                   suffix = weft_llvm_suffix(elem == WEFT_BOOL ? WEFT_U8 : elem, lanes);
    int64_t known = 1;
    bool masked = mask != WEFT_KNONE && !(weft_llvm_known(printer, mask, &known) && known);
    int pointer = address(printer, instr);
    if (gathers) {
        weft_llvm_name lanes_mask = vector_mask(printer, instr, lanes),
                       other = weft_llvm_other(printer, instr, elem, lanes);
        id = weft_llvm_define(printer,
                              "call %s @llvm.masked.gather.%s.v%dp0(<%d x ptr> %%t%d, i32 %d, <%d x i1> %s, %s %s)",
                              type.text, suffix.text, lanes, lanes, pointer, weft_dtype_bits(elem) / 8, lanes,
                              lanes_mask.text, type.text, other.text);
    } else if (!masked) {
        id = weft_llvm_define(printer, "load %s, ptr %%t%d, align %d", type.text, pointer, align);
    } else if (lanes > 1) {
        weft_llvm_name lanes_mask = vector_mask(printer, instr, lanes),
                       other = weft_llvm_other(printer, instr, elem, lanes);
        id = weft_llvm_define(printer, "call %s @llvm.masked.load.%s.p0(ptr %%t%d, i32 %d, <%d x i1> %s, %s %s)",
                              type.text, suffix.text, pointer, align, lanes, lanes_mask.text, type.text, other.text);
    } else {
        weft_llvm_name other = weft_llvm_other(printer, instr, elem, 1), condition = weft_llvm_value(printer, mask);
        id = weft_llvm_define(printer, "load %s, ptr %%t%d, align 1", type.text,
                              guarded_address(printer, instr, pointer));
        id = weft_llvm_define(printer, "select i1 %s, %s %%t%d, %s %s", condition.text, type.text, id, type.text,
                              other.text);
    }
    if (elem == WEFT_BOOL)
        id = weft_llvm_define(printer, "icmp ne %s %%t%d, %s", type.text, id, weft_llvm_integer(0, 8, lanes).text);
    weft_llvm_bind(printer, at, id);
}

static void print_store(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_kval mask = weft_koperand(printer->kernel, instr, 2), index = weft_koperand(printer->kernel, instr, 1),
              value = weft_koperand(printer->kernel, instr, 3);
    weft_ktype from = weft_ktype_of(printer->kernel, value);
    weft_dtype elem = (weft_dtype)from.elem;
    int lanes = from.lanes, align = weft_llvm_alignment(instr, elem);
    weft_llvm_name type = weft_llvm_memory_type(elem, lanes),
                   suffix = weft_llvm_suffix(elem == WEFT_BOOL ? WEFT_U8 : elem, lanes);
    weft_llvm_name stored = weft_llvm_value(printer, value);
    if (elem == WEFT_BOOL)
        stored = weft_llvm_ssa(weft_llvm_define(printer, "zext %s %s to %s", weft_llvm_integer_type(1, lanes).text,
                                                stored.text, type.text));
    int64_t known = 1;
    bool masked = mask != WEFT_KNONE && !(weft_llvm_known(printer, mask, &known) && known);
    int pointer = address(printer, instr);
    if (weft_ktype_of(printer->kernel, index).lanes > 1) {
        weft_llvm_name lanes_mask = vector_mask(printer, instr, lanes);
        weft_llvm_line(printer,
                       "call void @llvm.masked.scatter.%s.v%dp0(%s %s, <%d x ptr> %%t%d, i32 %d, <%d x i1> %s)",
                       suffix.text, lanes, type.text, stored.text, lanes, pointer, weft_dtype_bits(elem) / 8, lanes,
                       lanes_mask.text);
    } else if (!masked) {
        weft_llvm_line(printer, "store %s %s, ptr %%t%d, align %d", type.text, stored.text, pointer, align);
    } else if (lanes > 1) {
        weft_llvm_name lanes_mask = vector_mask(printer, instr, lanes);
        weft_llvm_line(printer, "call void @llvm.masked.store.%s.p0(%s %s, ptr %%t%d, i32 %d, <%d x i1> %s)",
                       suffix.text, type.text, stored.text, pointer, align, lanes, lanes_mask.text);
    } else {
        weft_llvm_line(printer, "store %s %s, ptr %%t%d, align 1", type.text, stored.text,
                       guarded_address(printer, instr, pointer));
    }
}

const char *weft_llvm_atomic(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_ktype type = weft_ktype_of(printer->kernel, weft_koperand(printer->kernel, instr, 2));
    weft_dtype_kind kind = weft_dtype_kind_of((weft_dtype)type.elem);
    if ((kind != WEFT_KIND_SIGNED && kind != WEFT_KIND_UNSIGNED) || type.lanes != 1) {
        weft_llvm_problem(printer, WEFT_UNSUPPORTED, at, "has atomics of one integer only");
        return NULL;
    }
    bool sign = kind == WEFT_KIND_SIGNED;
    return instr->i == WEFT_ATOMIC_ADD   ? "add"
           : instr->i == WEFT_ATOMIC_MIN ? sign ? "min" : "umin"
           : sign                        ? "max"
                                         : "umax";
}

static void print_atomic(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    const char *op = weft_llvm_atomic(printer, at);
    if (!op) return;
    weft_kval value = weft_koperand(printer->kernel, instr, 2);
    weft_llvm_name type = weft_llvm_type_of(printer, value), number = weft_llvm_value(printer, value);
    int pointer = address(printer, instr),
        id = weft_llvm_define(printer, "atomicrmw %s ptr %%t%d, %s %s monotonic", op, pointer, type.text, number.text);
    if (instr->type.kind == WEFT_KIND_VALUE) weft_llvm_bind(printer, at, id);
}

static void print_variable(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    bool array = instr->op == WEFT_K_regs;
    int count = array ? (int)instr->i : 1, first = printer->next;
    weft_llvm_name type = weft_llvm_elem_type((weft_dtype)instr->type.elem, instr->type.lanes);
    printer->next += count;
    for (int i = 0; i < count; i++)
        weft_text_append(printer->entry, "  %%v%d = alloca %s%s\n", first + i, type.text,
                         printer->dialect->stack_place);
    printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_STORAGE, .id = first};
    if (!array)
        weft_llvm_line(printer, "store %s %s, %s %%v%d", type.text, weft_llvm_operand(printer, instr, 0).text,
                       printer->dialect->stack, first);
}

int weft_llvm_storage(weft_llvm_printer *printer, int32_t at, weft_kval object, weft_kval index) {
    const weft_kinstr *definition = weft_llvm_instr(printer, object);
    int64_t number = 0;
    if (index != WEFT_KNONE && !weft_llvm_known(printer, index, &number)) {
        weft_llvm_problem(printer, WEFT_INTERNAL, at, "has a register index that is neither constant nor unrolled");
        return -1;
    }
    if (printer->slots[object].kind != WEFT_LLVM_STORAGE || number < 0 ||
        (index != WEFT_KNONE && number >= definition->i)) {
        weft_llvm_problem(printer, WEFT_INTERNAL, at, "has a register index out of range");
        return -1;
    }
    return printer->slots[object].id + (int)number;
}

static void print_access(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    int id = weft_llvm_storage(printer, at, weft_koperand(printer->kernel, instr, 0),
                               weft_koperand(printer->kernel, instr, 1));
    if (id < 0) return;
    if (instr->op == WEFT_K_get) {
        weft_llvm_bind(printer, at,
                       weft_llvm_define(printer, "load %s, %s %%v%d", weft_llvm_type_of(printer, at).text,
                                        printer->dialect->stack, id));
        return;
    }
    weft_kval value = weft_koperand(printer->kernel, instr, 2);
    weft_llvm_name type = weft_llvm_type_of(printer, value), name = weft_llvm_value(printer, value);
    weft_llvm_line(printer, "store %s %s, %s %%v%d", type.text, name.text, printer->dialect->stack, id);
}

bool weft_llvm_print_memory(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    switch ((int)instr->op) {
    case WEFT_K_load: print_load(printer, at); return true;
    case WEFT_K_store: print_store(printer, at); return true;
    case WEFT_K_prefetch:
        weft_llvm_line(printer, "call void @llvm.prefetch.p0(ptr %%t%d, i32 %d, i32 %d, i32 1)",
                       address(printer, instr), (int)(instr->i >> 2 & 1), (int)(instr->i & 3));
        return true;
    case WEFT_K_atomic: print_atomic(printer, at); return true;
    case WEFT_K_var:
    case WEFT_K_regs: print_variable(printer, at); return true;
    case WEFT_K_get:
    case WEFT_K_set: print_access(printer, at); return true;
    default: return false;
    }
}
