/* The graph IR: SSA values in blocks, blocks in regions, ops from one table.

   Invariants, checked by ir/verify.h: every operand is a result of an earlier node of the same block or of an enclosing
   one, or a block argument; a node has exactly the attributes its row names; result types are what the row's infer hook
   says; use lists are exact. Everything lives in the graph's arena: removed nodes cost memory, never safety.
   Read next: ops.def, build.h (making nodes), verify.h, print.h, interpret.h. Thread-compatible. */
#ifndef WEFT_IR_GRAPH_H
#define WEFT_IR_GRAPH_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/context.h"
#include "base/dim.h"
#include "base/dtype.h"
#include "base/guard.h"
#include "base/map.h"
#include "base/text.h"
#include "weft/graph.h"

typedef enum weft_op {
#define WEFT_OP(id, ...) WEFT_OP_##id,
#include "ir/ops.def"
#undef WEFT_OP
    WEFT_OP_COUNT
} weft_op;

typedef enum weft_op_class { WEFT_CLASS_CORE, WEFT_CLASS_DERIVED } weft_op_class;

enum {
    WEFT_FLAG_ELEMENTWISE = 1,
    WEFT_FLAG_COMMUTATIVE = 2,
    WEFT_FLAG_VIEW = 4,
    WEFT_FLAG_EFFECT = 8,
    WEFT_FLAG_REGION = 16,
    WEFT_FLAG_TERMINATOR = 32
};

typedef enum weft_attribute_name {
#define WEFT_ATTRIBUTE(name, kind) WEFT_ATTR_##name,
#include "ir/attributes.def"
#undef WEFT_ATTRIBUTE
    WEFT_ATTR_COUNT
} weft_attribute_name;

typedef enum weft_attribute_kind {
    WEFT_ATTR_KIND_INT,
    WEFT_ATTR_KIND_FLOAT,
    WEFT_ATTR_KIND_INTS,
    WEFT_ATTR_KIND_FLOATS,
    WEFT_ATTR_KIND_DIMS,
    WEFT_ATTR_KIND_DTYPE,
    WEFT_ATTR_KIND_STRING,
    WEFT_ATTR_KIND_TENSOR
} weft_attribute_kind;

typedef struct weft_attribute {
    weft_attribute_name name;
    int count; /* of ints, floats, dims */
    union {
        int64_t integer;
        double number;
        const int64_t *ints;
        const double *numbers;
        const weft_dim *dims;
        weft_dtype dtype;
        const char *string;
        weft_tensor *tensor; /* retained by the graph */
    } as;
} weft_attribute;

typedef struct weft_op_info {
    const char *name;
    weft_op_class class;
    int operands_min, operands_max, results; /* -1 = any */
    unsigned flags;
    /* parsed from the row once: attributes in order, and which are optional */
    const char *attributes;
} weft_op_info;

const weft_op_info *weft_op_get(weft_op op);
/* WEFT_OP_COUNT when no op has that name. */
weft_op weft_op_find(const char *name, size_t bytes);
/* The i-th attribute of an op's row: false past the end. */
bool weft_op_attribute(weft_op op, int index, weft_attribute_name *out_name, bool *out_optional);
const char *weft_attribute_string(weft_attribute_name name);
weft_attribute_name weft_attribute_find(const char *name, size_t bytes); /* WEFT_ATTR_COUNT */
weft_attribute_kind weft_attribute_kind_of(weft_attribute_name name);

typedef struct weft_type {
    weft_dtype dtype;
    int rank;
    const weft_dim *dims; /* in the graph's arena */
} weft_type;

typedef struct weft_node weft_node;
typedef struct weft_block weft_block;
typedef struct weft_region weft_region;

typedef struct weft_use {
    weft_node *user;
    int index; /* operand number */
    struct weft_use *next, *previous;
} weft_use;

struct weft_value {
    weft_graph *graph;
    weft_type type;    /* dtype WEFT_INVALID = poisoned: a problem was recorded where it was made */
    weft_node *node;   /* producer; NULL for a block argument */
    weft_block *block; /* the owner of a block argument; NULL for a result */
    int index;         /* result or argument number */
    int id;            /* %id in text */
    const char *name;  /* inputs and named values; may be NULL */
    weft_use *uses;
};

typedef struct weft_location {
    const char *name; /* the ONNX node's name, or the C file; NULL = unknown */
    int line;         /* 0 for imported nodes */
    int scope;        /* rematerialisation scope of weft_remat_begin; 0 = none (passes/diff/remat.h) */
    int origin;       /* id of the node whose derivative it belongs to, in the graph where that was built; 0 = none */
} weft_location;

struct weft_node {
    weft_op op;
    int id;
    weft_block *block;
    weft_node *next, *previous; /* in the block; order = execution order */
    int operand_count, result_count, attribute_count, region_count;
    weft_value **operands;
    weft_use *uses; /* operand_count entries, linked into the operands' use lists */
    weft_value *results;
    weft_attribute *attributes;
    weft_region **regions;
    weft_location location;
    void *note; /* scratch of the running pass; NULL between passes */
};

struct weft_block {
    weft_graph *graph;
    weft_region *region;
    int argument_count;
    size_t argument_capacity;
    weft_value **arguments;
    weft_node *first, *last;
};

struct weft_region {
    weft_graph *graph;
    weft_node *parent; /* NULL for the graph's body and while the region is being built */
    weft_block *block; /* exactly one: control flow is structured */
    weft_block *outer; /* the block of the insertion point when it was made; NULL for the body */
};
/* The block around the one of a region, also while that is being built; NULL for the body. */
static inline weft_block *weft_block_around(const weft_block *block) {
    return block->region->parent ? block->region->parent->block : block->region->outer;
}

/* What a derivative may keep of the nodes made between weft_remat_begin and _end; see weft/transform.h. */
typedef struct weft_remat_scope {
    int id, parent; /* parent 0 = none */
    int save;       /* weft_save */
    int name_count;
    const char *const *names;
    int64_t budget_bytes;
    struct weft_remat_scope *next; /* made before */
} weft_remat_scope;

typedef struct weft_state_value {
    const char *name;
    weft_type type;
    weft_tensor *initial; /* may be NULL: zeros */
} weft_state_value;

typedef struct weft_problem {
    weft_location location;
    const char *text;
} weft_problem;

struct weft_graph {
    atomic_int references;
    weft_context *context;
    weft_arena arena;
    const char *name;
    weft_dim_table *dims;
    weft_region *body;        /* arguments = inputs; its block ends in yield(outputs) once finished */
    weft_block *insertion;    /* where builders append */
    weft_node *insert_before; /* NULL = at the end of insertion */
    weft_location location;   /* given to new nodes */
    int next_id;
    size_t output_count, output_capacity, output_name_capacity;
    const char **output_names;
    weft_value **outputs; /* mirrored as the operands of the body's yield by weft_graph_finish */
    size_t state_count, state_capacity;
    weft_state_value *states;
    size_t problem_count, problem_capacity;
    weft_problem *problems;
    size_t guard_count, guard_capacity;
    weft_guard *guards; /* facts about extents that node types rely on: weft_graph_assume_equal */
    size_t tensor_count, tensor_capacity;
    weft_tensor **tensors;          /* retained, released with the graph */
    weft_remat_scope *remat_scopes; /* newest first; location.scope names the current one */
    bool out_of_memory;             /* sticky: weft_graph_verify reports it */
    weft_value poison;              /* what a failed op returns; never an operand */
};

/* Zeroed arena memory; NULL sets out_of_memory. */
void *weft_graph_allocate(weft_graph *graph, size_t count, size_t item_bytes);
/* A terminated copy in the arena; NULL stays NULL. */
const char *weft_graph_copy_string(weft_graph *graph, const char *text);
/* NULL when no state has that name. */
const weft_state_value *weft_graph_find_state(const weft_graph *graph, const char *name);
/* "file.c:12", an imported node's name, or "" into the text. */
void weft_location_print(const weft_location *location, weft_text *text);

/* Attribute access: the row guarantees presence and kind; optional ones go through find. */
const weft_attribute *weft_node_attribute(const weft_node *node, weft_attribute_name name); /* NULL when absent */
int64_t weft_node_int(const weft_node *node, weft_attribute_name name, int64_t fallback);
double weft_node_float(const weft_node *node, weft_attribute_name name, double fallback);
const char *weft_node_string(const weft_node *node, weft_attribute_name name, const char *fallback);
weft_dtype weft_node_dtype(const weft_node *node, weft_attribute_name name, weft_dtype fallback);

static inline weft_value *weft_node_result(const weft_node *node, int index) { return &node->results[index]; }
static inline const weft_type *weft_operand_type(const weft_node *node, int index) {
    return &node->operands[index]->type;
}
/* Product of the extents. */
weft_dim weft_type_count(weft_graph *graph, const weft_type *type);
bool weft_type_equal(const weft_type *a, const weft_type *b);
void weft_type_print(const weft_graph *graph, const weft_type *type, weft_text *text);

#endif
