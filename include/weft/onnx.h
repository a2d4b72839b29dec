/* Importing ONNX models.

   Purpose: read a .onnx file (opsets 1 to 27 of ai.onnx, some of ai.onnx.ml and the preview domains) into a graph.
   Shapes: extents that the model names (dim_param) become one symbol per name, other dynamic axes one symbol each.
   dims declares or fixes them. Values that decide shapes are followed symbolically; where an input's VALUE decides a
   shape, the import names the input (need) and wants it in constants.
   Ownership: the graph is the caller's; tensors in constants are retained where used; strings are copied.
   Errors: everything in the file that cannot be imported (operators, attributes, types, versions) is collected with
   node names into one UNSUPPORTED status; damage is INVALID_DATA. A file never crashes the importer. Threading:
   thread-safe for different graphs. Source: ONNX 1.22 operator specifications. */
#ifndef WEFT_ONNX_H
#define WEFT_ONNX_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_onnx_options {
    size_t struct_bytes;
    /* Comma-separated: "B=1..64" declares bounds, "T=1..*" has no upper one, "H=32..960/32" is a multiple of 32, "N=4"
       fixes the extent. Names are the model's dim_params; an unnamed axis k of input x is x.k. For a
       sequence input x, "x=3" is its length (items enter as x.0, x.1, x.2); "x=0" leaves an optional input x out.
       Default: none */
    const char *dims;
    int constant_count; /* inputs whose values are known: they are not inputs of the graph any more */
    const char *const *constant_names;
    weft_tensor *const *constants;
    /* Called once for each input whose value decides a shape and that is not among the constants; the import then
     * fails. */
    void (*need)(void *self, const char *input);
    void *need_self;
} weft_onnx_options;
#define WEFT_ONNX_OPTIONS_INIT {sizeof(weft_onnx_options), 0, 0, 0, 0, 0, 0}

/* options may be NULL. */
WEFT_API weft_status weft_onnx_import(weft_context *context, const char *path, const weft_onnx_options *options,
                                      weft_graph **out_graph) WEFT_MUST_USE;
/* folder: where external data lies; NULL = external data is an error. Links of it that lead elsewhere are refused, but
   for those to the folder that the model's own path leads to. The bytes may go after the call. */
WEFT_API weft_status weft_onnx_import_memory(weft_context *context, const void *data, size_t bytes, const char *folder,
                                             const weft_onnx_options *options, weft_graph **out_graph) WEFT_MUST_USE;
/* Every operator, attribute and version that the importer does not know, one line each with the node's name; "" when
   the model is fine. The text is the caller's: weft_string_release. */
WEFT_API weft_status weft_onnx_audit(weft_context *context, const char *path, char **out_text) WEFT_MUST_USE;
/* A tensor file of the ONNX test suites (TensorProto). out_name: may be NULL; else weft_string_release. */
WEFT_API weft_status weft_onnx_tensor_read(weft_context *context, const void *data, size_t bytes,
                                           weft_tensor **out_tensor, char **out_name) WEFT_MUST_USE;
/* The operator table as lines of Markdown (docs/onnx-ops.md). */
WEFT_API weft_status weft_onnx_operator_table(weft_context *context, char **out_text) WEFT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
