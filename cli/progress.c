/* Progress and failure on the terminal. */
#include "cli/cli.h"

#include "base/printable.h"
#include "base/text.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, LINE_SECONDS = 10 };
static const double quiet_seconds = 2.0;

double cli_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cli_work_now(const cli_arguments *arguments) {
    if (cli_number(arguments, "threads", 0) != 1) return cli_now();
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void cli_progress_start(cli_progress *progress, const char *what) {
    *progress = (cli_progress){.what = what, .start = cli_now()};
    progress->last_line = progress->start;
}

void cli_progress_at(cli_progress *progress, long long done, long long total, const char *detail) {
    double now = cli_now();
    if (now - progress->start < quiet_seconds) return;
    if (!isatty(STDERR_FILENO)) {
        if (now - progress->last_line < LINE_SECONDS) return;
        progress->last_line = now;
        fprintf(stderr, "%s: %lld of %lld %s\n", progress->what, done, total, detail ? detail : "");
        return;
    }
    int filled = total > 0 ? (int)(BAR_WIDTH * done / total) : 0;
    fprintf(stderr, "\r%s [", progress->what);
    for (int i = 0; i < BAR_WIDTH; i++) fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %lld/%lld %.0fs %-24.24s", done, total, now - progress->start, detail ? detail : "");
    fflush(stderr);
    progress->shown = 1;
}

void cli_progress_end(cli_progress *progress) {
    if (progress->shown) fprintf(stderr, "\r%*s\r", 100, "");
}

void cli_print(const char *format, ...) {
    weft_text text;
    va_list arguments;
    weft_text_init(weft_allocator_system(), &text);
    va_start(arguments, format);
    weft_text_append_list(&text, format, arguments);
    va_end(arguments);
    size_t bytes = weft_printable(weft_text_string(&text), NULL, 0) + 1;
    char *shown = malloc(bytes);
    if (shown) weft_printable(weft_text_string(&text), shown, bytes);
    fputs(shown && !text.failed ? shown : "(no memory for this text)\n", stdout);
    free(shown);
    weft_text_deinit(&text);
}

int cli_fail(weft_status status) {
    size_t length = weft_status_format(status, NULL, 0);
    char *text = malloc(length + 1);
    if (text) weft_status_format(status, text, length + 1);
    fprintf(stderr, "weft: %s\n", text ? text : weft_code_name(weft_status_code(status)));
    free(text);
    weft_status_release(status);
    return 1;
}
