/* The text form, .wir: print and parse are inverse on verified graphs.

       graph @mlp {
         symbol B in [1, 64] divisor 1                       // anonymous | data after it; inf = no bound
         assume B == 2*C, by "build" at "file.c:12"           // guards
         state @w : f32[784, 128] = weights "w"
         input %0 "x" : f32[B, 784]
         %1 "w0" = constant {value = weights "w0"} : f32[784, 128]
         %2 = constant {value = dense f32[2] [1, -inf]} : f32[2]
         %3 = dot_general %0, %1 {lhs_batch = [], ...} : f32[B, 128] at "file.c":12
         %4 = while %3 {bound = -1} { (%5 : f32[B, 128]) ... yield %6 } { (%7 : f32[B, 128]) ... yield %8 } : f32[B,
   128] output "y" %4
       }

   // starts a comment; names that are no identifiers are quoted: @"my graph". Complex elements are (re, im).
   Constants over 64 bytes are printed as `weights "key"` when a weft_tensor_source takes them: the data travels beside
   the text. Hostile text is refused with one status that has line:column. */
#ifndef WEFT_IR_PRINT_H
#define WEFT_IR_PRINT_H

#include "ir/graph.h"

/* Where large constants go to and come from. */
typedef struct weft_tensor_source {
    void *self;
    /* printing: returns the key, borrowed; NULL = inline all. */
    const char *(*put)(void *self, weft_tensor *tensor);
    /* parsing: *out is retained for the graph. */
    weft_status (*get)(void *self, const char *key, weft_tensor **out_tensor);
} weft_tensor_source;

typedef struct weft_print_options {
    const weft_tensor_source *tensors; /* NULL = everything inline */
    bool locations;
    bool elide_constants; /* for people: large constants as `...` */
} weft_print_options;

weft_status weft_print(weft_graph *graph, const weft_print_options *options, weft_text *text) WEFT_MUST_USE;
weft_status weft_parse(weft_context *context, const char *text, size_t bytes, const weft_tensor_source *tensors,
                       weft_graph **out_graph) WEFT_MUST_USE;

#endif
