/* weft train: a GPT on a text, a network on images, from a configuration file. Read next: train_model.c. */
#include "cli/train.h"

#include <math.h>

static bool show(void *self, const weft_train_progress *p) {
    char detail[64];
    snprintf(detail, sizeof detail, "%.4f %.1f/s", p->loss, p->steps_per_second);
    cli_progress_at(self, p->step, p->steps, detail);
    return true;
}

static weft_status train(weft_context *context, cli_train_settings *s, const cli_train_data *data) {
    cli_train_phase training = {0}, evaluation = {0};
    cli_progress progress;
    weft_train_result result;
    weft_status status = cli_train_begin(context, s, data, &training, CLI_TRAIN_STEP);
    if (!status) status = cli_train_begin(context, s, data, &evaluation, CLI_TRAIN_EVALUATION);
    if (!status) {
        weft_train_options *o = &s->loop;
        o->program = training.program, o->session = training.session, o->loader = training.loader;
        o->evaluation_program = evaluation.program, o->evaluation_session = evaluation.session;
        o->evaluation_loader = evaluation.loader, o->steps = s->steps, o->folder = s->folder;
        o->progress = show, o->progress_self = &progress;
        cli_progress_start(&progress, "train");
        status = weft_train(context, o, &result);
        cli_progress_end(&progress);
    }
    if (!status) {
        if (result.first_step) printf("resumed after step %lld\n", (long long)result.first_step);
        if (result.steps == result.first_step)
            printf("nothing is left of %lld steps\n", (long long)s->steps);
        else
            printf("%lld steps in %.1f s: loss %.4f, validation loss %.4f\n",
                   (long long)(result.steps - result.first_step), result.seconds, result.loss, result.validation);
        if (s->kind != CLI_TRAIN_GPT && result.steps > result.first_step)
            printf("%.2f %% of the images held back right\n", 100 * result.further[0]);
        if (result.best_step)
            printf("best validation loss %.4f after step %lld\n", result.best_validation, (long long)result.best_step);
        if (s->folder) printf("%s: metrics.csv, metrics.jsonl, report.html, checkpoints\n", s->folder);
    }
    cli_train_end(&training);
    cli_train_end(&evaluation);
    return status;
}

enum { SEARCH_STEPS = 100 };

/* --find-rate: the rate grows from 1e-7 to 10, nothing is written. */
static weft_status find_rate(weft_context *context, cli_train_settings *s, const cli_train_data *data) {
    double rates[SEARCH_STEPS], losses[SEARCH_STEPS], found = 0;
    int64_t count = 0;
    cli_train_phase training = {0};
    s->schedule = (weft_rate_schedule)WEFT_RATE_SCHEDULE_INIT;
    s->schedule.kind = WEFT_RATE_SCHEDULE_EXPONENTIAL, s->schedule.base = 1e-7;
    s->schedule.power = pow(1e8, 1.0 / (SEARCH_STEPS - 1));
    weft_status status = cli_train_begin(context, s, data, &training, CLI_TRAIN_STEP);
    if (!status)
        status = weft_train_find_rate(training.program, training.session, training.loader, SEARCH_STEPS, rates, losses,
                                      &count, &found);
    for (int64_t i = 0; !status && i < count; i += 5) printf("rate %.2e: loss %.4f\n", rates[i], losses[i]);
    if (!status && found > 0) printf("the loss falls fastest at a rate of %.1e\n", found);
    if (!status && !(found > 0))
        status = WEFT_STATUS(WEFT_OUT_OF_RANGE, "the loss grows from the start: no rate found");
    cli_train_end(&training);
    return status;
}

int cli_run_train(cli_arguments *arguments) {
    if (arguments->positional_count != 1) return fprintf(stderr, "usage: weft train CONFIG.toml\n"), 2;
    cli_config config;
    cli_train_settings s;
    cli_train_data data = {0};
    weft_status status = cli_config_read(arguments->positional[0], &config);
    if (status) return cli_fail(status);
    status = cli_train_read(&config, &s);
    if (!status) status = cli_train_open(arguments->context, &s, &data);
    if (!status)
        status = cli_flag(arguments, "find-rate") ? find_rate(arguments->context, &s, &data)
                                                  : train(arguments->context, &s, &data);
    cli_train_close(&data);
    cli_config_release(&config);
    return status ? cli_fail(status) : 0;
}
