/* Loads, stores, atomics and barriers.

   Contiguous lanes move in one access, as wide as the known alignment lets the backend make it. There are no masked
   accesses: a mask is a branch. All lanes of a vector mask set: the wide access; else lane by lane. BOOL is a byte in
   memory and i1 as a value. Read next: lanes.c. */
#include "codegen/amdgcn/llvm/print.h"

/* One load or store being printed. */
typedef struct access {
    weft_llvm_printer *printer;
    const weft_kinstr *instr;
    weft_kval memory, index, mask;
    weft_dtype elem;
    int lanes, align;
    const char *pointer;       /* type of the address */
    weft_llvm_name one, whole; /* types in memory: of an element, of all lanes */
} access;

static const char *pointer_type(const weft_llvm_printer *printer, weft_kval memory) {
    return printer->slots[memory].kind == WEFT_LLVM_SHARED ? "ptr addrspace(3)" : "ptr addrspace(1)";
}

static access access_of(weft_llvm_printer *printer, int32_t at, weft_ktype value) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    access a = {.printer = printer,
                .instr = instr,
                .memory = weft_koperand(printer->kernel, instr, 0),
                .index = weft_koperand(printer->kernel, instr, 1),
                .mask = weft_koperand(printer->kernel, instr, 2),
                .elem = (weft_dtype)value.elem,
                .lanes = value.lanes};
    int64_t known;
    if (weft_llvm_known(printer, a.mask, &known) && (known & 1)) a.mask = WEFT_KNONE;
    a.align = weft_llvm_alignment(instr, a.elem);
    a.pointer = pointer_type(printer, a.memory);
    a.one = weft_llvm_memory_type(a.elem, 1);
    a.whole = weft_llvm_memory_type(a.elem, a.lanes);
    return a;
}

static bool is_vector(const weft_llvm_printer *printer, weft_kval value) {
    return value != WEFT_KNONE && weft_ktype_of(printer->kernel, value).lanes > 1;
}

/* Lane `lane` of a value, or the value itself where it is a scalar. */
static weft_llvm_name lane_of(weft_llvm_printer *printer, weft_kval value, int lane) {
    weft_llvm_name name = weft_llvm_value(printer, value), type = weft_llvm_type_of(printer, value);
    if (!is_vector(printer, value)) return name;
    return weft_llvm_ssa(weft_llvm_define(printer, "extractelement %s %s, i64 %d", type.text, name.text, lane));
}

/* Address of the element of lane `lane`: of a gather's own index, else `lane` behind the scalar one. */
static int address(const access *a, int lane) {
    weft_llvm_printer *printer = a->printer;
    weft_ktype type = weft_ktype_of(printer->kernel, a->index);
    weft_llvm_name index = lane_of(printer, a->index, lane), integer = weft_llvm_elem_type((weft_dtype)type.elem, 1);
    int at = weft_llvm_define(printer, "getelementptr inbounds %s, %s %s, %s %s", a->one.text, a->pointer,
                              weft_llvm_value(printer, a->memory).text, integer.text, index.text);
    if (type.lanes > 1 || lane == 0) return at;
    return weft_llvm_define(printer, "getelementptr inbounds %s, %s %%t%d, i32 %d", a->one.text, a->pointer, at, lane);
}

/* One i1: all lanes of the mask are set. */
static weft_llvm_name all_lanes(const access *a) {
    weft_llvm_printer *printer = a->printer;
    weft_llvm_name mask = weft_llvm_value(printer, a->mask);
    if (!is_vector(printer, a->mask)) return mask;
    int bits = weft_llvm_define(printer, "bitcast <%d x i1> %s to i%d", a->lanes, mask.text, a->lanes);
    return weft_llvm_ssa(weft_llvm_define(printer, "icmp eq i%d %%t%d, -1", a->lanes, bits));
}

/* Opens what runs where `condition` holds; returns the label behind it. */
static int open_where(weft_llvm_printer *printer, weft_llvm_name condition) {
    int then = weft_llvm_label(printer), after = weft_llvm_label(printer);
    weft_llvm_line(printer, "br i1 %s, label %%l%d, label %%l%d", condition.text, then, after);
    weft_llvm_open(printer, then);
    return after;
}

static void close_where(weft_llvm_printer *printer, int after) {
    weft_llvm_line(printer, "br label %%l%d", after);
    weft_llvm_open(printer, after);
}

/* -- loads */

static int load_now(const access *a) {
    return weft_llvm_define(a->printer, "load %s, %s %%t%d, align %d", a->whole.text, a->pointer, address(a, 0),
                            a->align);
}

/* What `loaded` is where `condition` holds, `other` elsewhere; the load is printed by `lane`: -1 = all lanes. */
static int load_where(const access *a, weft_llvm_name condition, const char *type, weft_llvm_name other, int lane) {
    weft_llvm_printer *printer = a->printer;
    int before = printer->label, after = open_where(printer, condition), loaded;
    if (lane < 0)
        loaded = load_now(a);
    else
        loaded = weft_llvm_define(printer, "load %s, %s %%t%d, align %d", type, a->pointer, address(a, lane),
                                  weft_dtype_bits(a->elem) / 8);
    int inside = printer->label;
    close_where(printer, after);
    return weft_llvm_define(printer, "phi %s [ %%t%d, %%l%d ], [ %s, %%l%d ]", type, loaded, inside, other.text,
                            before);
}

static int load_each(const access *a, weft_llvm_name other) {
    weft_llvm_printer *printer = a->printer;
    int result = weft_llvm_define(printer, "bitcast %s %s to %s", a->whole.text, other.text, a->whole.text);
    for (int lane = 0; lane < a->lanes; lane++) {
        int one;
        if (a->mask == WEFT_KNONE) {
            one = weft_llvm_define(printer, "load %s, %s %%t%d, align %d", a->one.text, a->pointer, address(a, lane),
                                   weft_dtype_bits(a->elem) / 8);
        } else {
            weft_llvm_name otherwise = weft_llvm_ssa(
                weft_llvm_define(printer, "extractelement %s %%t%d, i64 %d", a->whole.text, result, lane));
            one = load_where(a, lane_of(printer, a->mask, lane), a->one.text, otherwise, lane);
        }
        result = weft_llvm_define(printer, "insertelement %s %%t%d, %s %%t%d, i64 %d", a->whole.text, result,
                                  a->one.text, one, lane);
    }
    return result;
}

static void print_load(weft_llvm_printer *printer, int32_t at) {
    access a = access_of(printer, at, weft_llvm_instr(printer, at)->type);
    int id;
    if (a.mask == WEFT_KNONE && !is_vector(printer, a.index)) {
        id = load_now(&a);
    } else {
        weft_llvm_name other = weft_llvm_other(printer, a.instr, a.elem, a.lanes);
        if (is_vector(printer, a.index))
            id = load_each(&a, other);
        else if (!is_vector(printer, a.mask))
            id = load_where(&a, weft_llvm_value(printer, a.mask), a.whole.text, other, -1);
        else {
            weft_llvm_name all = all_lanes(&a);
            int whole = weft_llvm_label(printer), each = weft_llvm_label(printer), after = weft_llvm_label(printer);
            weft_llvm_line(printer, "br i1 %s, label %%l%d, label %%l%d", all.text, whole, each);
            weft_llvm_open(printer, whole);
            int together = load_now(&a);
            weft_llvm_line(printer, "br label %%l%d", after);
            weft_llvm_open(printer, each);
            int apart = load_each(&a, other), last = printer->label;
            close_where(printer, after);
            id = weft_llvm_define(printer, "phi %s [ %%t%d, %%l%d ], [ %%t%d, %%l%d ]", a.whole.text, together, whole,
                                  apart, last);
        }
    }
    if (a.elem == WEFT_BOOL)
        id = weft_llvm_define(printer, "icmp ne %s %%t%d, %s", a.whole.text, id, weft_llvm_integer(0, 8, a.lanes).text);
    weft_llvm_bind(printer, at, id);
}

/* -- stores */

static void store_now(const access *a, weft_llvm_name value) {
    weft_llvm_line(a->printer, "store %s %s, %s %%t%d, align %d", a->whole.text, value.text, a->pointer, address(a, 0),
                   a->align);
}

static void store_each(const access *a, weft_llvm_name value) {
    weft_llvm_printer *printer = a->printer;
    for (int lane = 0; lane < a->lanes; lane++) {
        int after = a->mask == WEFT_KNONE ? 0 : open_where(printer, lane_of(printer, a->mask, lane));
        int one = weft_llvm_define(printer, "extractelement %s %s, i64 %d", a->whole.text, value.text, lane);
        weft_llvm_line(printer, "store %s %%t%d, %s %%t%d, align %d", a->one.text, one, a->pointer, address(a, lane),
                       weft_dtype_bits(a->elem) / 8);
        if (after) close_where(printer, after);
    }
}

static void print_store(weft_llvm_printer *printer, int32_t at) {
    weft_kval operand = weft_koperand(printer->kernel, weft_llvm_instr(printer, at), 3);
    access a = access_of(printer, at, weft_ktype_of(printer->kernel, operand));
    weft_llvm_name value = weft_llvm_value(printer, operand);
    if (a.elem == WEFT_BOOL)
        value = weft_llvm_ssa(weft_llvm_define(printer, "zext %s %s to %s", weft_llvm_integer_type(1, a.lanes).text,
                                               value.text, a.whole.text));
    if (is_vector(printer, a.index)) {
        store_each(&a, value);
    } else if (a.mask == WEFT_KNONE) {
        store_now(&a, value);
    } else if (!is_vector(printer, a.mask)) {
        int after = open_where(printer, weft_llvm_value(printer, a.mask));
        store_now(&a, value);
        close_where(printer, after);
    } else {
        weft_llvm_name all = all_lanes(&a);
        int whole = weft_llvm_label(printer), each = weft_llvm_label(printer), after = weft_llvm_label(printer);
        weft_llvm_line(printer, "br i1 %s, label %%l%d, label %%l%d", all.text, whole, each);
        weft_llvm_open(printer, whole);
        store_now(&a, value);
        weft_llvm_line(printer, "br label %%l%d", after);
        weft_llvm_open(printer, each);
        store_each(&a, value);
        close_where(printer, after);
    }
}

/* -- atomics, barriers */

static void print_atomic(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    const char *op = weft_llvm_atomic(printer, at);
    if (!op) return;
    weft_kval operand = weft_koperand(printer->kernel, instr, 2);
    access a = access_of(printer, at, weft_ktype_of(printer->kernel, operand));
    weft_llvm_name value = weft_llvm_value(printer, operand);
    int id = weft_llvm_define(printer, "atomicrmw %s %s %%t%d, %s %s syncscope(\"agent\") monotonic", op, a.pointer,
                              address(&a, 0), a.one.text, value.text);
    if (instr->type.kind == WEFT_KIND_VALUE) weft_llvm_bind(printer, at, id);
}

bool weft_amdgcn_print_memory(weft_llvm_printer *printer, int32_t at) {
    switch ((int)weft_llvm_instr(printer, at)->op) {
    case WEFT_K_load: print_load(printer, at); return true;
    case WEFT_K_store: print_store(printer, at); return true;
    case WEFT_K_prefetch: return true; /* a hint without an instruction */
    case WEFT_K_atomic: print_atomic(printer, at); return true;
    case WEFT_K_barrier: /* the block's accesses to LDS and to memory are ordered by it */
        weft_llvm_line(printer, "fence syncscope(\"workgroup\") release");
        weft_llvm_line(printer, "call void @llvm.amdgcn.s.barrier()");
        weft_llvm_line(printer, "fence syncscope(\"workgroup\") acquire");
        return true;
    default: return false;
    }
}
