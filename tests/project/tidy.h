/* Included before every file by tidy.sh --analyzer: what the analyser cannot know of other files. A status that was
   made or carried on is not NULL, so what a failed call left unset is not read. */
#ifndef WEFT_TESTS_PROJECT_TIDY_H
#define WEFT_TESTS_PROJECT_TIDY_H

#include "weft/status.h"

#define WEFT_TIDY_MADE(expr)                                                                                           \
    __extension__({                                                                                                    \
        weft_status weft_made_status_ = (expr);                                                                        \
        if (!weft_made_status_) __builtin_unreachable();                                                               \
        weft_made_status_;                                                                                             \
    })
#undef WEFT_STATUS
#define WEFT_STATUS(code, ...) WEFT_TIDY_MADE(weft_status_create((code), __FILE__, __LINE__, __VA_ARGS__))
#undef WEFT_TRY
#define WEFT_TRY(expr, ...)                                                                                            \
    do {                                                                                                               \
        weft_status weft_try_status_ = (expr);                                                                         \
        if (weft_try_status_)                                                                                          \
            return WEFT_TIDY_MADE(weft_status_annotate(weft_try_status_, __FILE__, __LINE__, __VA_ARGS__));            \
    } while (0)

#endif
