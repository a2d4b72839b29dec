/* graph.wir inside an artifact: the graph behind the passes that know no target, from which its programs were made.
   Constants over 64 bytes travel in the weights entry under the key "DTYPE EXTENTxEXTENT @OFFSET"
   ("f32 16x3x3x3 @1024"), shared with what the programs use where the bytes are equal. Read next: relower.c. */
#ifndef WEFT_COMPILE_RELOWER_H
#define WEFT_COMPILE_RELOWER_H

#include "base/artifact.h"
#include "compile/constants.h"
#include "compile/unit.h"

/* Appends the graph's text; its constants are added and stay the graph's. */
weft_status weft_graph_text_make(weft_graph *graph, weft_constants *constants, weft_text *text) WEFT_MUST_USE;
/* The graph inside an artifact. */
weft_status weft_graph_read_artifact(weft_context *context, const char *path, weft_graph **out_graph) WEFT_MUST_USE;

#endif
