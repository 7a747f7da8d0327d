/* What follows sums of floats, for npu_general.c: stages and outputs, in the form that runs. */
#ifndef ANYNPU_NPU_GENERAL_FINISH_H
#define ANYNPU_NPU_GENERAL_FINISH_H

#include <stdint.h>

#include "npu_general_quads.h"

/* What finishes one group's sums, prepared once for all of its pixels. */
struct finish {
    const struct dpu *dpu;
    const struct writer *writer;
    int64_t g;
    int is_activation;
    struct activation activation;
#ifdef AVX512
    int is_short;
    struct quad_task quad;
#endif
};

static void begin_finish(const struct dpu *d, const struct writer *w, int64_t g,
                         struct finish *to) {
    to->dpu = d;
    to->writer = w;
    to->g = g;
#ifdef AVX512
    to->is_short = has_avx512(running_form) && !d->is_integer && has_short_finish(d, w);
    if (to->is_short) {
        prepare(d, w, g, &to->quad);
        return;
    }
#endif
    to->is_activation = has_activations(running_form) && !d->is_integer &&
                        prepare_activation(d, g, &to->activation);
}

static void finish(const struct finish *f, int64_t first, int64_t count, float *v) {
    const struct dpu *d = f->dpu;
#ifdef AVX512
    if (f->is_short) {
        finish_short(d, f->writer, f->g, &f->quad, first, count, v);
        return;
    }
#endif
    for (int64_t n; count > 0; first += n, count -= n, v += n * GROUP) {
        n = least(count, BLOCK);
        if (f->is_activation) {
            uint16_t q[BLOCK * GROUP];
            activate(&f->activation, &d->table, v, n, q);
            store(f->writer, f->g, first, n, (uint8_t *)q, sizeof *q);
            continue;
        }
        run_stages(d, f->g, first, n, v);
        if (d->after) {
            convert_floats(d, v, n * GROUP);
            run_stages(d->after, f->g, first, n, v);
        }
        store_results(d->after ? d->after : d, f->writer, f->g, first, n, v);
    }
}

#endif
