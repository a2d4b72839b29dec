/* The graphs that run in the browser: each is interpreted, compiled for webgpu, run, compared. */
#ifndef WEFT_TESTS_WEBGPU_CASES_H
#define WEFT_TESTS_WEBGPU_CASES_H

#include <check.h>

#include "base/tolerance.h"
#include "ir/build.h"
#include "tests/webgpu/browser.h"

enum { WEB_OUTPUTS_MAX = 16, WEB_INPUTS_MAX = 16, WEB_SYMBOLS_MAX = 4 };

typedef struct web_case {
    char name[96];
    const char *arch;
    weft_context *context;
    weft_graph *graph;
    int64_t symbols[WEB_SYMBOLS_MAX];
    weft_tolerance_class class[WEB_OUTPUTS_MAX]; /* of each output */
    double terms, scale;                         /* of sums */
    bool by_inputs;                              /* terms and scale grow with what the inputs and results are */
    bool special;                                /* infinities, NaN and extremes among the inputs */
    int output_count;
    weft_tensor *expected[WEB_OUTPUTS_MAX];
    char *refusal; /* why it does not compile, from malloc; NULL: it does */
} web_case;

typedef struct web_list {
    weft_context *context;
    int count, capacity;
    web_case *cases;
} web_list;

/* Every family, or with `all` every op at every dtype too. */
void web_list_fill(web_list *list, bool all);
void web_list_clear(web_list *list);
/* Inputs, expected outputs, program: what the browser needs. */
void web_case_prepare(web_case *c, browser_case *out);
/* A picture of any width in, two classes out; its weights say something about where stripes are. */
void web_page_graph(weft_graph *graph);

/* halves.c: what needs no browser. */
TCase *case_halves(void);
/* Interprets the input that the page posted and compares as below. */
const char *web_page_compare(web_case *c, const browser_case *from, char *room, size_t bytes);
/* NULL: right. Otherwise what differs, in a buffer of the caller. */
const char *web_case_compare(const web_case *c, const browser_case *from, char *room, size_t bytes);

#endif
