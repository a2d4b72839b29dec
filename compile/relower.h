/* graph.wir inside an artifact: the graph as it was before any pass. Constants over 64 bytes travel in the weights
   entry under the key "DTYPE EXTENTxEXTENT @OFFSET" ("f32 16x3x3x3 @1024"), shared with what the programs use where the
   bytes are equal. Read next: relower.c. */
#ifndef WEFT_COMPILE_RELOWER_H
#define WEFT_COMPILE_RELOWER_H

#include "base/artifact.h"
#include "compile/unit.h"

typedef struct weft_graph_text {
    weft_allocator allocator;
    weft_text text;
    void *weights; /* the unit's, and behind them the constants that no program has */
    size_t weights_bytes, weights_capacity;
} weft_graph_text;

weft_status weft_graph_text_make(weft_graph *graph, const weft_unit *unit, weft_graph_text *out_text) WEFT_MUST_USE;
void weft_graph_text_deinit(weft_graph_text *text);

#endif
