/* What the files of the importer share.

   An import walks the nodes of a model once. Each name of the model stands for a weft_onnx_value: a graph value, a
   static list of values (sequences) or nothing (an empty optional); strings are host data. An operator is one row of
   operators.def and one handler: it reads inputs and attributes of a weft_onnx_node and sets its outputs.
   Invariant: handlers never fail; a problem is recorded in the graph and outputs that stay unset are poisoned.
   Read next: model.c (bytes to messages), import.c (the walk), symbolic.c (values that decide shapes), operators.def.
 */
#ifndef WEFT_FRONTEND_ONNX_IMPORT_H
#define WEFT_FRONTEND_ONNX_IMPORT_H

#define WEFT_OPS_NO_LOCATION
#include "base/map.h"
#include "ir/build.h"
#include "onnx.pb-c.h"
#include "weft/onnx.h"
#include "weft/ops.h"

enum {
    WEFT_ONNX_OPSET_MAX = 27,
    WEFT_ONNX_DEPTH_MAX = 48,      /* nested subgraphs and functions */
    WEFT_ONNX_SYMBOLIC_MAX = 4096, /* elements of a value that is followed symbolically */
    WEFT_ONNX_FOLD_MAX = 1 << 20,  /* elements of a value that is folded at import */
    WEFT_ONNX_UNROLL_MAX = 1024    /* trips of a loop that is written out */
};

typedef enum weft_onnx_kind { WEFT_ONNX_NONE, WEFT_ONNX_TENSOR, WEFT_ONNX_SEQUENCE } weft_onnx_kind;

typedef struct weft_onnx_value {
    weft_onnx_kind kind;
    weft_value *value; /* TENSOR */
    int count;         /* SEQUENCE */
    struct weft_onnx_value *const *items;
} weft_onnx_value;

typedef struct weft_onnx_scope {
    struct weft_onnx_scope *outer; /* of a subgraph; NULL for models and functions */
    weft_map names;                /* -> weft_onnx_value */
} weft_onnx_scope;

/* A call of a model-local function: attributes of its body may refer to the call's. */
typedef struct weft_onnx_frame {
    struct weft_onnx_frame *outer;
    const struct weft_onnx_node *call;
    const Onnx__FunctionProto *function;
} weft_onnx_frame;

/* One entry of weft_onnx_options.dims. Fixed: minimum == maximum. */
typedef struct weft_onnx_declared {
    const char *name;
    int64_t minimum, maximum, divisor;
    bool used;
} weft_onnx_declared;

/* Where external data may lie: in the folder of the model, and in the one that the model's file really lies in when
   its path is a link (caches of downloads are full of such). */
typedef struct weft_onnx_folder {
    const char *path; /* NULL = nowhere */
    const char *home; /* without links; NULL = none */
} weft_onnx_folder;

typedef struct weft_onnx_import_state {
    weft_context *context;
    weft_graph *graph;
    weft_arena arena; /* messages, values, scratch of the import */
    const Onnx__ModelProto *model;
    weft_onnx_folder folder; /* of external data */
    const weft_onnx_options *options;
    int declared_count;
    weft_onnx_declared *declared;
    weft_onnx_scope *scope;
    weft_onnx_frame *frame;
    int depth;
    int evaluation_depth;
    int64_t node_budget; /* nodes still to be imported: functions must not blow up without bound */
    weft_map symbols;    /* dim_param -> (weft_dim *) */
    weft_map symbolic;   /* weft_value * -> weft_onnx_symbolic * */
    weft_map folded;     /* weft_value * -> weft_tensor * (owned) */
    weft_map needed;     /* names of inputs reported to options->need */
} weft_onnx_import_state;

typedef struct weft_onnx_node {
    weft_onnx_import_state *import;
    weft_graph *graph;
    const Onnx__NodeProto *proto;
    int version; /* of the operator set in force */
    int input_count, output_count;
    weft_onnx_value *const *inputs; /* NULL = not given */
    weft_onnx_value **outputs;
} weft_onnx_node;

typedef void (*weft_onnx_handler)(weft_onnx_node *node);

typedef struct weft_onnx_operator {
    const char *name, *domain;
    int first, last;        /* versions */
    const char *attributes; /* all that any version knows, space separated */
    weft_onnx_handler handler;
} weft_onnx_operator;

const weft_onnx_operator *weft_onnx_operator_find(const char *domain, const char *name); /* NULL */
bool weft_onnx_operator_has(const weft_onnx_operator *row, const char *attribute);

#define WEFT_ONNX_OPERATOR(name, domain, first, last, attributes, handler)                                             \
    void weft_onnx_import_##handler(weft_onnx_node *node);
#include "frontend/onnx/operators.def"
#undef WEFT_ONNX_OPERATOR

/* -- model.c, tensor.c, audit.c */
weft_status weft_onnx_model_unpack(weft_arena *arena, const void *data, size_t bytes,
                                   const Onnx__ModelProto **out_model) WEFT_MUST_USE;
weft_status weft_onnx_message_unpack(weft_arena *arena, const ProtobufCMessageDescriptor *descriptor, const void *data,
                                     size_t bytes, ProtobufCMessage **out_message) WEFT_MUST_USE;
/* Moves the text to the caller (weft_string_release) and ends it. */
weft_status weft_onnx_text_take(weft_context *context, weft_text *text, char **out_text) WEFT_MUST_USE;
weft_dtype weft_onnx_dtype(int64_t data_type); /* WEFT_INVALID when unknown */
weft_status weft_onnx_tensor_create(weft_context *context, const Onnx__TensorProto *proto,
                                    const weft_onnx_folder *folder, weft_tensor **out_tensor) WEFT_MUST_USE;
weft_status weft_onnx_sparse_tensor_create(weft_context *context, const Onnx__SparseTensorProto *proto,
                                           const weft_onnx_folder *folder, weft_tensor **out_tensor) WEFT_MUST_USE;
/* Lines about everything unknown in the model. */
void weft_onnx_audit_model(const Onnx__ModelProto *model, weft_text *text);
const Onnx__FunctionProto *weft_onnx_function_find(const Onnx__ModelProto *model, const Onnx__NodeProto *node);
/* Version of a domain in force ("" = ai.onnx); 0 when the model does not import it. */
int weft_onnx_version(const weft_onnx_frame *frame, const Onnx__ModelProto *model, const char *domain);

/* -- import.c */
void weft_onnx_import_nodes(weft_onnx_import_state *import, size_t count, Onnx__NodeProto *const *nodes);
weft_onnx_value *weft_onnx_find(const weft_onnx_import_state *import, const char *name); /* NULL */
void weft_onnx_define(weft_onnx_import_state *import, const char *name, weft_onnx_value *value);
weft_onnx_value *weft_onnx_value_tensor(weft_onnx_import_state *import, weft_value *value);
weft_onnx_value *weft_onnx_value_sequence(weft_onnx_import_state *import, int count, weft_onnx_value *const *items);
weft_onnx_value *weft_onnx_value_none(weft_onnx_import_state *import);
/* A subgraph in the current block: its inputs are bound to arguments (count of them), its outputs come back. */
void weft_onnx_import_subgraph(weft_onnx_import_state *import, const Onnx__GraphProto *graph, int count,
                               weft_onnx_value *const *arguments, weft_onnx_value **results);
void weft_onnx_discard(weft_block *block); /* removes every node, nested ones included */
weft_value *weft_onnx_constant(weft_onnx_import_state *import, weft_status status, weft_tensor *tensor,
                               const char *name);
void *weft_onnx_allocate(weft_onnx_import_state *import, size_t count,
                         size_t bytes); /* of the arena; NULL + sticky error */

/* -- node.c: what handlers read and set */
bool weft_onnx_has(const weft_onnx_node *node, int input);
weft_value *weft_onnx_input(weft_onnx_node *node, int input);    /* poison and a problem when missing */
weft_value *weft_onnx_optional(weft_onnx_node *node, int input); /* NULL when not given */
void weft_onnx_output(weft_onnx_node *node, int output, weft_value *value);
bool weft_onnx_wants(const weft_onnx_node *node, int output); /* has a name */
/* A problem of this node; the text should say what would be right. */
void weft_onnx_problem(const weft_onnx_node *node, const char *format, ...) WEFT_PRINTF(2, 3);
const Onnx__AttributeProto *weft_onnx_attribute(const weft_onnx_node *node, const char *name); /* NULL */
bool weft_onnx_require(const weft_onnx_node *node, const char *name); /* false and a problem when it is not there */
/* An attribute of another type than the one asked for is a problem. */
int64_t weft_onnx_int(const weft_onnx_node *node, const char *name, int64_t fallback);
int weft_onnx_int32(const weft_onnx_node *node, const char *name, int fallback); /* a problem beyond 32 bits */
double weft_onnx_float(const weft_onnx_node *node, const char *name, double fallback);
const char *weft_onnx_string(const weft_onnx_node *node, const char *name, const char *fallback);
bool weft_onnx_string_is(const weft_onnx_node *node, const char *name, const char *fallback, const char *value);
/* false when absent. At most WEFT_MAX_RANK * 2 entries are looked at by callers that copy. */
bool weft_onnx_ints(const weft_onnx_node *node, const char *name, int *out_count, const int64_t **out_values);
/* exactly count entries, else a problem and false; absent: fallback in all */
bool weft_onnx_ints_exact(const weft_onnx_node *node, const char *name, int count, int64_t fallback,
                          int64_t *out_values);
weft_dtype weft_onnx_dtype_attribute(const weft_onnx_node *node, const char *name, weft_dtype fallback);
/* Axes from input number `input` (newer versions) or attribute `name`. false: not given at all. *ok false: a problem.
 */
bool weft_onnx_axes(weft_onnx_node *node, int input, const char *name, int *out_count, int64_t *out_axes, bool *ok);

/* -- symbolic.c: the value of a graph value at import. The first group records a problem when it is not known. */
bool weft_onnx_extents(weft_onnx_node *node, weft_value *value, int capacity, int *out_count, weft_dim *out_extents);
bool weft_onnx_integers(weft_onnx_node *node, weft_value *value, int capacity, int *out_count, int64_t *out_values);
bool weft_onnx_numbers(weft_onnx_node *node, weft_value *value, int capacity, int *out_count, double *out_values);
bool weft_onnx_extent(weft_onnx_node *node, weft_value *value, weft_dim *out_extent);
bool weft_onnx_integer(weft_onnx_node *node, weft_value *value, int64_t *out_value);
bool weft_onnx_number(weft_onnx_node *node, weft_value *value, double *out_value);
/* The second asks quietly. */
bool weft_onnx_try_extents(weft_onnx_import_state *import, weft_value *value, int capacity, int *out_count,
                           weft_dim *out_extents);
bool weft_onnx_try_integer(weft_onnx_import_state *import, weft_value *value, int64_t *out_value);
/* The folded tensor, borrowed; NULL when it depends on anything unknown or is too large. */
weft_tensor *weft_onnx_fold(weft_onnx_import_state *import, weft_value *value);
/* Reports the inputs that value depends on to options->need and records a problem. */
void weft_onnx_need(weft_onnx_node *node, weft_value *value, const char *what);
/* true and the number when the expression is one. */
bool weft_onnx_dim_number(const weft_graph *graph, weft_dim dim, int64_t *out_number);
weft_dim weft_onnx_dim(weft_graph *graph, int64_t number); /* negative numbers too */

/* -- shared between families */
weft_value *weft_onnx_scalar_like(weft_graph *graph, const weft_value *x, double value);
/* Adds the extent of axis to negative indices. */
weft_value *weft_onnx_wrap_indices(weft_graph *graph, weft_value *indices, weft_dim extent);
/* f32 for narrower floats, else the dtype. */
weft_dtype weft_onnx_wide(weft_dtype dtype);
weft_value *weft_onnx_widen(weft_graph *graph, weft_value *x);
/* A vector along axis 1 of a tensor of that rank. */
weft_value *weft_onnx_along_channels(weft_graph *graph, weft_value *vector, int rank);
/* i64 addresses [rank, count] of the non-zero elements; count is a data-dependent symbol. */
weft_value *weft_onnx_nonzero(weft_onnx_node *node, weft_value *x, weft_dim *out_count);
/* The first lengths[b] steps of each batch entry backwards; time is axis 0 or 1, the batch the other. */
weft_value *weft_onnx_reverse_sequence(weft_graph *graph, weft_value *x, weft_value *lengths, int time_axis);
/* round(x) + zero, saturated to zero's type. */
weft_value *weft_onnx_requantize(weft_graph *graph, weft_value *x, weft_value *zero);
/* Rounding of floats to powers of two: mode up, down or nearest. */
weft_value *weft_onnx_cast_e8m0(weft_graph *graph, weft_value *x, const char *mode, bool saturate);
/* extents -> i64 vector value */
weft_value *weft_onnx_extents_value(weft_graph *graph, int count, const weft_dim *extents);

#endif
