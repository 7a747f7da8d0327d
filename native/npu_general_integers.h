/* Stages of integers that npu.c doesn't take, for npu_general.c: everything is a whole double, which callers
 * prove exact. */
#ifndef ANYNPU_NPU_GENERAL_INTEGERS_H
#define ANYNPU_NPU_GENERAL_INTEGERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "npu_arithmetic.h"
#include "npu_general_stages.h"

static void load_integers(const struct operand *o, int64_t g, double nothing, double *numbers) {
    float stored[GROUP];
    if (o->values) {
        memcpy(numbers, (const double *)o->values + g * GROUP, GROUP * sizeof *numbers);
        return;
    }
    for (int l = 0; l < GROUP; l++)
        numbers[l] = nothing;
    if (!o->stored)
        return;
    load_operand(o, g, 0, stored);
    for (int l = 0; l < GROUP; l++) {
        const int64_t c = g * GROUP + l;
        int32_t word = 0;
        if (o->element == INT32 && c < o->channels)
            memcpy(&word, o->stored + c / o->group * o->stride + c % o->group * 4, 4);
        numbers[l] = o->element == INT32 ? (double)word : (double)stored[l];
    }
}

INLINE void calculate_integers_inline(const struct stage *s, const double *add,
                                      const double *multiply, double *v, int64_t count) {
    const double up = s->positive, down = s->negative, lowest = s->lowest, highest = s->highest;
    double before[GROUP], behind[GROUP], m[GROUP], p[GROUP];
    for (int l = 0; l < GROUP; l++) {
        const double a = s->subtracts ? -add[l] : add[l];
        before[l] = s->multiply_first ? 0 : a;
        behind[l] = s->multiply_first ? a : 0;
        m[l] = multiply[l];
        p[l] = s->only_negatives ? 1 : m[l];
    }
    for (int64_t i = 0; i < count * GROUP; i += GROUP)
        for (int l = 0; l < GROUP; l++) {
            double x = v[i + l] + before[l];
            x = x * (x < 0 ? m[l] : p[l]) + behind[l];
            v[i + l] = clamp(nearest(x * (x < 0 ? down : up)), lowest, highest);
        }
}

IN_EACH_FORM(calculate_integers,
             (const struct stage *s, const double *add, const double *multiply, double *v,
              int64_t count),
             (s, add, multiply, v, count))

static void run_integer_stage(const struct stage *s, int64_t g, double *v, int64_t count) {
    double add[GROUP], multiply[GROUP];
    load_integers(&s->add, g, 0, add);
    load_integers(&s->multiply, g, 1, multiply);
    calculate_integers(s, add, multiply, v, count);
}

static void look_up_integers(const struct table *t, double *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        v[i] = __builtin_floor(interpolated(t, v[i]));
}

INLINE void operate_integers_inline(const struct dpu *d, double *v, const double *e,
                                    int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const double converted = (e[i] + d->operand_offset) * d->operand_scale;
        const double x = v[i], y = nearest_or_away(converted, d->operand_away);
        switch (d->operation) {
        case MAX: v[i] = x < y ? y : x; break;
        case MIN: v[i] = x > y ? y : x; break;
        case ADD: v[i] = x + y; break;
        case SUBTRACT: v[i] = x - y; break;
        default: v[i] = nearest(x * y * d->product);
        }
    }
}

IN_EACH_FORM(operate_integers, (const struct dpu *d, double *v, const double *e, int64_t count),
             (d, v, e, count))

/* To float16, ties to even. A float that is odd where it isn't exact keeps what the tie hangs on. */
INLINE uint16_t half_of_double(double value) {
    const float near = (float)value;
    uint32_t bits = bits_of_float(near);
    const double distance = fabs((double)near) - fabs(value);
    bits -= distance > 0 && !(bits & 1);
    bits |= distance < 0;
    return stored_half(float_of_bits(bits));
}

/* A value of the output. */
INLINE double to_integer(const struct dpu *d, double v) {
    return nearest_or_away(v * d->scale + d->offset, d->output_away);
}

/* Results of one group, (count, GROUP), into memory. */
static void store_integers(const struct dpu *d, const struct writer *w, int64_t g, int64_t first,
                           int64_t count, const double *v) {
    const int64_t all = count * GROUP;
    union {
        int8_t bytes[BLOCK * GROUP];
        int16_t shorts[BLOCK * GROUP];
        uint16_t halves[BLOCK * GROUP];
        int32_t words[BLOCK * GROUP];
    } q;
    switch (d->element) {
    case INT8:
        for (int64_t i = 0; i < all; i++)
            q.bytes[i] = (int8_t)(int32_t)clamp(to_integer(d, v[i]), -128, 127);
        break;
    case INT16:
        for (int64_t i = 0; i < all; i++)
            q.shorts[i] = (int16_t)(int32_t)clamp(to_integer(d, v[i]), INT16_MIN, INT16_MAX);
        break;
    case FLOAT16:
        for (int64_t i = 0; i < all; i++)
            q.halves[i] = half_of_double(v[i] * d->factor + d->addend);
        break;
    default:
        for (int64_t i = 0; i < all; i++)
            q.words[i] = (int32_t)clamp(to_integer(d, v[i]), INT32_MIN, INT32_MAX);
    }
    store(w, g, first, count, (uint8_t *)&q, size_of(d->element));
}

/* A group's int32, which float doesn't hold, of `count` pixels from number `first` on. */
static void load_words(const struct features *f, int64_t g, int64_t first, int64_t count,
                       double *v) {
    const int64_t last = least(f->channels, (g + 1) * GROUP);
    memset(v, 0, count * GROUP * sizeof *v);
    for (int64_t i = 0; i < count; i++) {
        const int64_t y = (first + i) / f->width, x = (first + i) % f->width;
        for (int64_t c = g * GROUP; c < last; c++) {
            int32_t word;
            memcpy(&word,
                   surface_of(f, c / f->lanes) + y * f->line + x * f->pixel +
                       c % f->lanes * sizeof word,
                   sizeof word);
            v[i * GROUP + c % GROUP] = word;
        }
    }
}

static void load_second_integers(const struct dpu *d, int64_t g, int64_t first, int64_t count,
                                 double *e) {
    float narrow[BLOCK * GROUP];
    if (!d->has_operand) {
        /* It may have more digits than a float. */
        for (int64_t i = 0; i < count * GROUP; i++)
            e[i] = d->number;
        return;
    }
    if (d->operand.element == INT32) {
        load_words(&d->operand, g, first, count, e);
        return;
    }
    load_second(d, g, first, count, narrow);
    for (int64_t i = 0; i < count * GROUP; i++)
        e[i] = narrow[i];
}

/* Integer sums without their last bits. */
static void truncate_sums(double *sums, int64_t count, double truncate, int64_t up) {
    for (int64_t i = 0; truncate != 1 && i < count; i++)
        sums[i] = up ? __builtin_floor(sums[i] * truncate + 0.5) : nearest(sums[i] * truncate);
}

static void finish_integers(const struct dpu *d, const struct writer *w, int64_t g, int64_t first,
                            int64_t count, double *v) {
    for (; count > 0; first += BLOCK, count -= BLOCK, v += BLOCK * GROUP) {
        const int64_t n = least(count, BLOCK);
        double e[BLOCK * GROUP];
        if (d->has_bs)
            run_integer_stage(&d->bs, g, v, n);
        if (d->has_bn)
            run_integer_stage(&d->bn, g, v, n);
        if (d->has_table)
            look_up_integers(&d->table, v, n * GROUP);
        if (d->operation != NONE) {
            load_second_integers(d, g, first, n, e);
            operate_integers(d, v, e, n * GROUP);
        }
        for (int64_t i = 0; d->has_limits && i < n * GROUP; i++)
            v[i] = clamp(v[i], d->lowest, d->highest);
        store_integers(d, w, g, first, n, v);
    }
}

#endif
