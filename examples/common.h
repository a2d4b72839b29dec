/* What every example needs: fail with the whole message. */
#ifndef WEFT_EXAMPLES_COMMON_H
#define WEFT_EXAMPLES_COMMON_H

#include <stdio.h>
#include <stdlib.h>

#include "weft/status.h"

static inline void check(weft_status status) {
    if (!status) return;
    char text[4000];
    weft_status_format(status, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    weft_status_release(status);
    exit(1);
}

#endif
