/* What a public call must be given. Every function that returns a status starts with these lines: a missing object,
   path or list is the caller's mistake and a status, not a crash. Descriptors are copied as far as the caller knows
   them. */
#ifndef WEFT_BASE_NEED_H
#define WEFT_BASE_NEED_H

#include <string.h>

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

/* own: a descriptor with its defaults; options: the caller's, or NULL. A caller that was compiled when the descriptor
   had fewer fields says so by struct_bytes and gets the defaults of the rest. */
#define WEFT_OPTIONS_READ(own, options)                                                                                \
    do {                                                                                                               \
        if (options)                                                                                                   \
            memcpy(&(own), (options), (options)->struct_bytes < sizeof(own) ? (options)->struct_bytes : sizeof(own));  \
    } while (0)

#endif
