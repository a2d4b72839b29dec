/* The entry point of libFuzzer for the target FUZZ_TARGET. */
#ifdef FUZZ_TARGET
#include "tests/fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    FUZZ_TARGET(data, bytes);
    return 0;
}
#endif
