/* What a public call must be given. Every function that returns a status starts with these lines: a missing object,
   path or list is the caller's mistake and a status, not a crash. */
#ifndef WEFT_BASE_NEED_H
#define WEFT_BASE_NEED_H

#include "weft/status.h"

/* what: "the graph" */
#define WEFT_NEED(pointer, what)                                                                                       \
    do {                                                                                                               \
        if (!(pointer)) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s is missing", what);                              \
    } while (0)
/* A list of count entries. */
#define WEFT_NEED_LIST(pointer, count, what)                                                                           \
    do {                                                                                                               \
        if ((count) > 0) WEFT_NEED(pointer, what);                                                                     \
    } while (0)

#endif
