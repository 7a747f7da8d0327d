/* What the NPU's kernels have in common: rounding, look-up tables, where a surface lies. */
#ifndef ANYNPU_NPU_ARITHMETIC_H
#define ANYNPU_NPU_ARITHMETIC_H

#include <float.h>
#include <stdint.h>

#include "cpu.h"
#include "npu.h"

INLINE int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

INLINE double clamp(double v, double lowest, double highest) {
    v = v < lowest ? lowest : v;
    return v > highest ? highest : v;
}

/* To the nearest whole number, ties to the even one: as a sum is rounded whose last place is worth 1,
 * which vectors of any processor can do. Above 2^51 it need not be the nearest; limits follow there. */
INLINE double nearest(double v) {
#if FLT_EVAL_METHOD == 0
    return v + 0x1.8p52 - 0x1.8p52;
#else
    return __builtin_rint(v);
#endif
}

/* Or with ties away from zero. */
INLINE double nearest_or_away(double v, int64_t away) {
    return away ? __builtin_trunc(v + __builtin_copysign(0.5, v)) : nearest(v);
}

/* a * b + c of floats whose results are exact: in one step where every processor has it. */
INLINE float multiplied(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* A table's entry for a value, or what lies between two, or on the straight lines beyond. */
INLINE double interpolated(const struct table *t, double x) {
    const double *entries = t->entries;
    const int is_negative = x < 0;
    const double start = is_negative ? t->start[0] : t->start[1];
    const double place = (x - start) * (is_negative ? t->step[0] : t->step[1]);
    double index = __builtin_floor(place);
    /* NaN finds the first entry, and stays NaN through the fraction. */
    index = index > 0 ? index : 0;
    index = index < TABLE_ENTRIES - 2 ? index : TABLE_ENTRIES - 2;
    double fraction = place - index;
    fraction = fraction < 0 ? 0 : fraction;
    fraction = fraction > 1 ? 1 : fraction;
    const int32_t at = (int32_t)index + (is_negative ? 0 : TABLE_ENTRIES);
    double y = entries[at] + (entries[at + 1] - entries[at]) * fraction;
    y = x < t->start[0] ? entries[0] + (x - t->start[0]) * t->slope[0] : y;
    return x >= t->end ? entries[2 * TABLE_ENTRIES - 1] + (x - t->end) * t->slope[1] : y;
}

INLINE const uint8_t *surface_of(const struct features *f, int64_t s) {
    if (f->odd)
        return (s & 1 ? f->odd : f->base) + (s >> 1) * f->surface;
    return f->base + s * f->surface;
}

#endif
