/* Rates by layer. Sources: weft/optim.h. */
#include "weft/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 0 first ones, i + 1 layer i, layers + 1 the rest. */
static int number_of(const char *name, const char *prefix, int layers, const char *const *first) {
    size_t length = prefix ? strlen(prefix) : 0;
    for (; first && *first; first++)
        if (!strncmp(name, *first, strlen(*first))) return 0;
    if (!prefix || strncmp(name, prefix, length) != 0 || name[length] < '0' || name[length] > '9') return layers + 1;
    char *end;
    long i = strtol(name + length, &end, 10);
    return *end == '.' && i < layers ? (int)i + 1 : layers + 1;
}

void weft_optim_layer_decay(int count, weft_parameter *parameters, const char *prefix, int layers,
                            const char *const *first, double decay) {
    for (int i = 0; parameters && i < count; i++) {
        if (!parameters[i].name) continue;
        int number = number_of(parameters[i].name, prefix, layers, first);
        parameters[i].rate_scale *= pow(decay, (double)(layers + 1 - number));
    }
}
