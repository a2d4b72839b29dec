/* Weights by their names in a file, for models whose parameters are read, not trained. */
#ifndef WEFT_STDLIB_NN_WEIGHTS_H
#define WEFT_STDLIB_NN_WEIGHTS_H

#include "weft/graph.h"
#include "weft/safetensors.h"

/* A tensor of the file as a parameter of the graph. A missing one is a problem of the graph that names it; the value is
   then a scalar, so that the rest of the model can be built. */
weft_value *weft_nn_weight(weft_graph *g, weft_safetensors *file, const char *name);

#endif
