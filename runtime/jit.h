/* The JIT cache behind weft_function: which program serves these shapes, when to compile another, what to evict.
   The compiler is a callback, so that the runtime stays below it.

   Rules. The first call compiles with every anonymous symbol fixed to what it saw. An anonymous symbol that comes with
   a second value is symbolic from then on: one more program is compiled, for the old value the first one still serves.
   A guard that fails in a program which otherwise fits fixes the guard's symbols for one more program. Among programs
   that fit, the most specialised one serves. After `capacity` compiles everything anonymous becomes symbolic at once,
   with a warning; the least recently used program makes room. Every compile is logged at INFO with its reason. States
   move with the calls: the program that serves continues with the values the last one left. Thread-compatible. */
#ifndef WEFT_RUNTIME_JIT_H
#define WEFT_RUNTIME_JIT_H

#include "runtime/program.h"

typedef struct weft_jit weft_jit;

/* Compiles with symbols fixed: fixed[i] = value for symbol i of the signature, WEFT_DIM_ANY = keep symbolic. Declared
   symbols are fixed only when a guard on them failed. The program keeps the names of the symbols that stay. */
typedef weft_status (*weft_jit_compile)(void *self, const int64_t *fixed, weft_program **out_program);

typedef struct weft_jit_options {
    weft_context *context;
    const weft_program_data *signature; /* ports and symbols of the graph; no steps; borrowed for the life of the jit */
    weft_jit_compile compile;
    void *compile_self;
    int capacity; /* programs kept; 0 = 8 */
} weft_jit_options;

weft_status weft_jit_create(const weft_jit_options *options, weft_jit **out_jit) WEFT_MUST_USE;
void weft_jit_release(weft_jit *jit);
weft_status weft_jit_call(weft_jit *jit, int input_count, weft_tensor *const *inputs, int output_count,
                          weft_tensor **outputs) WEFT_MUST_USE;
int weft_jit_compile_count(const weft_jit *jit);
/* The session of the last call, which holds the states; NULL before the first. Borrowed until the next call. */
weft_session *weft_jit_session(const weft_jit *jit);

#endif
