/* Readers of files that come from elsewhere, one function each for any bytes: it returns when a status came back, and
   never crashes, leaks or asks for memory that the bytes do not justify. Replayed over corpus/ by main.c; with
   WEFT_FUZZ=ON each is a libFuzzer program fuzz-<name> (entry.c). */
#ifndef WEFT_TESTS_FUZZ_TARGETS_H
#define WEFT_TESTS_FUZZ_TARGETS_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_TARGETS(X) X(onnx) X(wir) X(passes) X(artifact) X(program) X(npy) X(safetensors) X(zip)

#define X(name) void fuzz_##name(const uint8_t *data, size_t bytes);
FUZZ_TARGETS(X)
#undef X

struct weft_context;
/* A context of the process without cache and log. */
struct weft_context *fuzz_context(void);
/* A path under which the bytes can be opened; close with the descriptor. */
int fuzz_file(const uint8_t *data, size_t bytes, char *path, size_t capacity);

#endif
