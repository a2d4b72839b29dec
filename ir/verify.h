/* Checks every invariant of ir/graph.h and collects all problems into one status (invalid argument), each with
   location. Used after building, after parsing, and after every pass in debug builds. */
#ifndef WEFT_IR_VERIFY_H
#define WEFT_IR_VERIFY_H

#include "ir/graph.h"

weft_status weft_verify(weft_graph *graph) WEFT_MUST_USE;

#endif
