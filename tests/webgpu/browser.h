/* Headless Chromium as a device: serves a page, the module runtime/web/weft.js and the cases on a loopback port, starts
   the browser, takes results back. One browser runs all cases; when a case gives no answer within its limit, that is
   its error and a new browser goes on behind it. */
#ifndef WEFT_TESTS_WEBGPU_BROWSER_H
#define WEFT_TESTS_WEBGPU_BROWSER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct browser_case {
    const char *name;
    char *text; /* JSON: program, image, inputs */
    void *data; /* weights, then inputs */
    size_t data_bytes;
    unsigned char *result; /* outputs one after the other; from malloc; NULL when there is none */
    size_t result_bytes;
    char *error; /* from malloc; NULL: none */
    double load_ms, run_ms;
} browser_case;

/* The program that would be run, or NULL. */
const char *browser_find(void);
typedef struct browser_job {
    const char *program;
    const char *page;          /* a file of tests/webgpu, which is served as / */
    const char *folder;        /* served below /site/; may be NULL */
    int case_seconds, seconds; /* of one case; of all */
    int count;
    browser_case *cases;
} browser_job;
/* false: the page did not finish within the limit; *out_log says what it said (adapter, errors), from malloc. */
bool browser_run(const browser_job *job, char **out_log);

#endif
