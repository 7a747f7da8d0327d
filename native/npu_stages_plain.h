/* Stages of int8 between sums and memory in plain C, for npu.c: they compute in double. Atoms are stored
 * here, and second operands loaded. */
#ifndef ANYNPU_NPU_STAGES_PLAIN_H
#define ANYNPU_NPU_STAGES_PLAIN_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "npu.h"
#include "npu_arithmetic.h"

INLINE const double *numbers(const struct operand *o, int64_t channel) {
    return (const double *)o->values + channel;
}

INLINE void run_stage(const struct stage *s, int64_t channel, double *v, int64_t count,
                      const int lanes) {
    const double *a = numbers(&s->add, channel), *m = numbers(&s->multiply, channel);
    const double up = s->positive, down = s->negative, lowest = s->lowest, highest = s->highest;
    if (s->only_negatives) {
        for (int64_t i = 0; i < count; i++)
            for (int l = 0; l < lanes; l++) {
                double x = v[i * lanes + l];
                if (!s->multiply_first)
                    x += a[l];
                x = x < 0 ? x * m[l] : x;
                v[i * lanes + l] = s->multiply_first ? x + a[l] : x;
            }
    } else if (s->multiply_first) {
        for (int64_t i = 0; i < count; i++)
            for (int l = 0; l < lanes; l++)
                v[i * lanes + l] = v[i * lanes + l] * m[l] + a[l];
    } else {
        for (int64_t i = 0; i < count; i++)
            for (int l = 0; l < lanes; l++)
                v[i * lanes + l] = (v[i * lanes + l] + a[l]) * m[l];
    }
    const int64_t all = count * lanes;
    if (up == down) {
        if (up == 1)
            for (int64_t i = 0; i < all; i++)
                v[i] = clamp(v[i], lowest, highest);
        else
            for (int64_t i = 0; i < all; i++)
                v[i] = clamp(nearest(v[i] * up), lowest, highest);
    } else {
        for (int64_t i = 0; i < all; i++)
            v[i] = clamp(nearest(v[i] * (v[i] < 0 ? down : up)), lowest, highest);
    }
}

static void look_up(const struct table *t, double *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        v[i] = __builtin_floor(interpolated(t, v[i]));
}

/* The operand's atoms for `count` pixels from number `first` on, side by side. */
INLINE void load_operand(const struct dpu *d, int64_t s, int64_t first, int64_t count, int8_t *e,
                         const int lanes) {
    const struct features *f = &d->operand;
    const uint8_t *surface = surface_of(f, s);
    int64_t y = first / f->width, x = first % f->width;
    for (int64_t i = 0; i < count; i++) {
        memcpy(e + i * lanes, surface + y * f->line + x * f->pixel, lanes);
        if (++x == f->width)
            x = 0, y++;
    }
}

INLINE void operate(const struct dpu *d, double *v, const int8_t *atoms, int64_t count) {
    double e[BLOCK * LANES];
    for (int64_t i = 0; i < count; i++)
        e[i] = nearest_or_away((atoms[i] + d->operand_offset) * d->operand_scale, d->operand_away);
    switch (d->operation) {
    case ADD:
        for (int64_t i = 0; i < count; i++)
            v[i] += e[i];
        break;
    case SUBTRACT:
        for (int64_t i = 0; i < count; i++)
            v[i] -= e[i];
        break;
    case MAX:
        for (int64_t i = 0; i < count; i++)
            v[i] = v[i] < e[i] ? e[i] : v[i];
        break;
    case MIN:
        for (int64_t i = 0; i < count; i++)
            v[i] = v[i] > e[i] ? e[i] : v[i];
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            v[i] = nearest(v[i] * e[i] * d->product);
    }
}

/* The atoms from number `first` on where they lie one after another; else NULL. */
INLINE int8_t *atoms_in_a_row(uint8_t *surface, int64_t line, int64_t pixel, int64_t width,
                              int64_t first, const int lanes) {
    return pixel == lanes && line == width * lanes ? (int8_t *)surface + first * lanes : NULL;
}

INLINE uint8_t *surface_of_writer(const struct writer *w, int64_t s) {
    return w->base + s / w->group * w->group_stride + s % w->group * w->surface;
}

/* Store `count` atoms of surface `s`; lanes past the last channel hold the padding. */
INLINE void store(const struct writer *w, int64_t s, int64_t first, int64_t count, const int8_t *q,
                  const int lanes) {
    uint8_t *surface = surface_of_writer(w, s);
    const int64_t rest = w->channels - s * lanes;
    int64_t y = first / w->width, x = first % w->width;
    while (count > 0) {
        const int64_t n = count < w->width - x ? count : w->width - x;
        uint8_t *atom = surface + y * w->line + x * w->pixel;
        if (w->pixel == lanes)
            memcpy(atom, q, n * lanes);
        else
            for (int64_t i = 0; i < n; i++)
                memcpy(atom + i * w->pixel, q + i * lanes, lanes);
        for (int64_t i = 0; rest < lanes && i < n; i++)
            memset(atom + i * w->pixel + rest, (int)w->padding, lanes - rest);
        q += n * lanes;
        count -= n;
        x = 0, y++;
    }
}

/* A value of the output. */
INLINE int8_t to_output(const struct dpu *d, double v) {
    return (int8_t)(int32_t)nearest_or_away(clamp(v * d->scale + d->offset, -128, 127),
                                            d->output_away);
}

/* All stages, one after another, for `count` atoms of sums. */
INLINE void run_stages(const struct dpu *d, int64_t s, int64_t first, int64_t count,
                       const int32_t *sums, int8_t *q, const int lanes) {
    const int64_t all = count * lanes;
    double v[BLOCK * LANES];
    for (int64_t i = 0; i < all; i++)
        v[i] = sums[i];
    if (d->has_bs)
        run_stage(&d->bs, s * lanes, v, count, lanes);
    if (d->has_bn)
        run_stage(&d->bn, s * lanes, v, count, lanes);
    if (d->has_table)
        look_up(&d->table, v, all);
    if (d->operation != NONE) {
        int8_t e[BLOCK * LANES];
        load_operand(d, s, first, count, e, lanes);
        operate(d, v, e, all);
    }
    if (d->has_limits)
        for (int64_t i = 0; i < all; i++)
            v[i] = clamp(v[i], d->lowest, d->highest);
    for (int64_t i = 0; i < all; i++)
        q[i] = to_output(d, v[i]);
}

#endif
