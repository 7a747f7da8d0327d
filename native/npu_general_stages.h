/* Stages of floats between sums and memory in any form, for npu_general.c: every operation is the reference's,
 * in its order. Tables compute in double. */
#ifndef ANYNPU_NPU_GENERAL_STAGES_H
#define ANYNPU_NPU_GENERAL_STAGES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "npu_arithmetic.h"
#include "npu_general_memory.h"

INLINE float limited(float v, float lowest, float highest) {
    v = v < lowest ? lowest : v;
    return v > highest ? highest : v;
}

INLINE void calculate_inline(const struct stage *s, const float *add, const float *multiply,
                             float *v, int64_t count) {
    const float lowest = (float)s->lowest, highest = (float)s->highest;
    float a[GROUP], m[GROUP], p[GROUP];
    for (int l = 0; l < GROUP; l++) {
        a[l] = s->subtracts ? -add[l] : add[l];
        m[l] = multiply[l];
        p[l] = s->only_negatives ? 1 : m[l]; /* v * 1 is v */
    }
    if (s->multiply_first)
        for (int64_t i = 0; i < count * GROUP; i += GROUP)
            for (int l = 0; l < GROUP; l++) {
                const float x = v[i + l] * (v[i + l] < 0 ? m[l] : p[l]);
                v[i + l] = limited(x + a[l], lowest, highest);
            }
    else
        for (int64_t i = 0; i < count * GROUP; i += GROUP)
            for (int l = 0; l < GROUP; l++) {
                const float x = v[i + l] + a[l];
                v[i + l] = limited(x * (x < 0 ? m[l] : p[l]), lowest, highest);
            }
}

IN_EACH_FORM(calculate,
             (const struct stage *s, const float *add, const float *multiply, float *v,
              int64_t count),
             (s, add, multiply, v, count))

static void run_stage(const struct stage *s, int64_t g, float *v, int64_t count) {
    float add[GROUP], multiply[GROUP];
    /* A zero that changes nothing is negative. */
    load_operand(&s->add, g, s->subtracts ? 0.0f : -0.0f, add);
    load_operand(&s->multiply, g, 1, multiply);
    calculate(s, add, multiply, v, count);
}

INLINE void look_up_any_inline(const struct table *t, float *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        v[i] = (float)interpolated(t, v[i]);
}

IN_EACH_FORM(look_up_any, (const struct table *t, float *v, int64_t count), (t, v, count))

#ifdef X86
/* The same for four values, with the operands of minima and maxima in the order that NaN needs. */
WITH_AVX2 INLINE __m128 look_up_four(const struct table *t, __m128 v) {
    const __m256d zero = _mm256_setzero_pd(), one = _mm256_set1_pd(1);
    const __m256d low = _mm256_set1_pd(t->start[0]), high = _mm256_set1_pd(t->end);
    const __m256d x = _mm256_cvtps_pd(v), sign = _mm256_cmp_pd(x, zero, _CMP_LT_OQ);
    const __m256d start = _mm256_blendv_pd(_mm256_set1_pd(t->start[1]), low, sign);
    const __m256d step =
        _mm256_blendv_pd(_mm256_set1_pd(t->step[1]), _mm256_set1_pd(t->step[0]), sign);
    const __m256d place = _mm256_mul_pd(_mm256_sub_pd(x, start), step);
    __m256d index = _mm256_max_pd(_mm256_floor_pd(place), zero);
    index = _mm256_min_pd(index, _mm256_set1_pd(TABLE_ENTRIES - 2));
    __m256d fraction = _mm256_max_pd(zero, _mm256_sub_pd(place, index));
    fraction = _mm256_min_pd(one, fraction);
    /* Positive values find their entries after the others. */
    index = _mm256_add_pd(index, _mm256_andnot_pd(sign, _mm256_set1_pd(TABLE_ENTRIES)));
    int32_t at[4];
    _mm_storeu_si128((__m128i *)at, _mm256_cvttpd_epi32(index));
    const __m256d even =
        _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(t->entries + at[0])),
                             _mm_loadu_pd(t->entries + at[2]), 1);
    const __m256d odd =
        _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(t->entries + at[1])),
                             _mm_loadu_pd(t->entries + at[3]), 1);
    const __m256d left = _mm256_unpacklo_pd(even, odd), right = _mm256_unpackhi_pd(even, odd);
    __m256d y = _mm256_add_pd(left, _mm256_mul_pd(_mm256_sub_pd(right, left), fraction));
    const __m256d is_below = _mm256_cmp_pd(x, low, _CMP_LT_OQ);
    const __m256d is_above = _mm256_cmp_pd(x, high, _CMP_GE_OQ);
    if (_mm256_movemask_pd(_mm256_or_pd(is_below, is_above))) {
        const __m256d below = _mm256_mul_pd(_mm256_sub_pd(x, low), _mm256_set1_pd(t->slope[0]));
        const __m256d above = _mm256_mul_pd(_mm256_sub_pd(x, high), _mm256_set1_pd(t->slope[1]));
        y = _mm256_blendv_pd(y, _mm256_add_pd(_mm256_set1_pd(t->entries[0]), below), is_below);
        y = _mm256_blendv_pd(
            y, _mm256_add_pd(_mm256_set1_pd(t->entries[2 * TABLE_ENTRIES - 1]), above), is_above);
    }
    return _mm256_cvtpd_ps(y);
}

/* Values that are fewer steps from 0 are left to doubles. */
#define LEAST_STEPS 0x1p-13f

/* Two lines side by side, by their numbers. */
WITH_AVX2 INLINE __m128 two_lines(const float *lines, int64_t one, int64_t other) {
    double a, b;
    memcpy(&a, lines + 2 * one, sizeof a);
    memcpy(&b, lines + 2 * other, sizeof b);
    return _mm_castpd_ps(_mm_set_pd(b, a));
}

/* The same for eight values, as far as float32 is exact (see FloatTable): a fused step is rounded once,
 * as what doubles make of them is. Zero, and from 2^-13 steps on, which powers of two leave as they are;
 * anything else is left to doubles. */
WITH_AVX2 INLINE __m256 look_up_eight(const struct table *t, __m256 x) {
    const __m256 zero = _mm256_setzero_ps(), sign = _mm256_cmp_ps(x, zero, _CMP_LT_OQ);
    const __m256 step = _mm256_blendv_ps(_mm256_set1_ps((float)t->step[1]),
                                         _mm256_set1_ps((float)t->step[0]), sign);
    const __m256 steps = _mm256_mul_ps(x, step);
    const __m256 far = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), steps);
    const __m256 is_large =
        _mm256_or_ps(_mm256_cmp_ps(far, _mm256_set1_ps(LEAST_STEPS), _CMP_GE_OQ),
                     _mm256_cmp_ps(x, zero, _CMP_EQ_OQ));
    const __m256 is_near = _mm256_cmp_ps(far, _mm256_set1_ps((float)t->reach), _CMP_LT_OQ);
    if (_mm256_movemask_ps(_mm256_and_ps(is_large, is_near)) != 0xFF) {
        const __m128 low = look_up_four(t, _mm256_castps256_ps128(x));
        return _mm256_set_m128(look_up_four(t, _mm256_extractf128_ps(x, 1)), low);
    }
    const __m256i places = _mm256_add_epi32(_mm256_cvttps_epi32(_mm256_floor_ps(steps)),
                                            _mm256_set1_epi32(TABLE_ENTRIES));
    int32_t at[8];
    _mm256_storeu_si256((__m256i *)at,
                        _mm256_min_epi32(_mm256_max_epi32(places, _mm256_setzero_si256()),
                                         _mm256_set1_epi32(2 * TABLE_ENTRIES - 1)));
    const float *lines = t->lines;
    const __m256 low =
        _mm256_set_m128(two_lines(lines, at[4], at[5]), two_lines(lines, at[0], at[1]));
    const __m256 high =
        _mm256_set_m128(two_lines(lines, at[6], at[7]), two_lines(lines, at[2], at[3]));
    return _mm256_fmadd_ps(_mm256_shuffle_ps(low, high, 0xDD), x,
                           _mm256_shuffle_ps(low, high, 0x88));
}

/* A multiple of eight. */
WITH_AVX2 static void look_up_avx2(const struct table *table, float *v, int64_t count) {
    /* Stored vectors might overwrite the caller's, which would have to be read again for each. */
    const struct table own = *table, *t = &own;
    if (t->lines)
        for (int64_t i = 0; i < count; i += 8)
            _mm256_storeu_ps(v + i, look_up_eight(t, _mm256_loadu_ps(v + i)));
    else
        for (int64_t i = 0; i < count; i += 4)
            _mm_storeu_ps(v + i, look_up_four(t, _mm_loadu_ps(v + i)));
}
#endif

static void look_up(const struct table *t, float *v, int64_t count) {
#ifdef X86
    if (has_avx2(running_form)) {
        look_up_avx2(t, v, count);
        return;
    }
#endif
    look_up_any(t, v, count);
}

INLINE void operate_inline(int64_t operation, float *v, const float *e, int64_t count) {
    switch (operation) {
    case MAX:
        for (int64_t i = 0; i < count; i++)
            v[i] = v[i] < e[i] || e[i] != e[i] ? e[i] : v[i];
        break;
    case MIN:
        for (int64_t i = 0; i < count; i++)
            v[i] = v[i] > e[i] || e[i] != e[i] ? e[i] : v[i];
        break;
    case ADD:
        for (int64_t i = 0; i < count; i++)
            v[i] += e[i];
        break;
    case DIVIDE:
        for (int64_t i = 0; i < count; i++)
            v[i] /= e[i];
        break;
    case SUBTRACT:
        for (int64_t i = 0; i < count; i++)
            v[i] -= e[i];
        break;
    case ABS:
        for (int64_t i = 0; i < count; i++)
            v[i] = fabsf(v[i]);
        break;
    case NEGATE:
        for (int64_t i = 0; i < count; i++)
            v[i] = -v[i];
        break;
    case FLOOR:
        for (int64_t i = 0; i < count; i++)
            v[i] = __builtin_floorf(v[i]);
        break;
    case CEIL:
        for (int64_t i = 0; i < count; i++)
            v[i] = __builtin_ceilf(v[i]);
        break;
    case GREATER:
        for (int64_t i = 0; i < count; i++)
            v[i] = v[i] > e[i] ? 1 : 0;
        break;
    case MULTIPLY:
        for (int64_t i = 0; i < count; i++)
            v[i] *= e[i];
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            v[i] = v[i] < 0 ? v[i] * e[i] : v[i];
    }
}

IN_EACH_FORM(operate, (int64_t operation, float *v, const float *e, int64_t count),
             (operation, v, e, count))

/* The second operand for one group of `count` pixels from number `first` on. */
static void load_second(const struct dpu *d, int64_t g, int64_t first, int64_t count, float *e) {
    const struct features *f = &d->operand;
    if (!d->has_operand || f->channels * f->height * f->width == 1) {
        const float number = d->has_operand ? element_at(f->base, 0, f->element) : (float)d->number;
        for (int64_t i = 0; i < count * GROUP; i++)
            e[i] = number;
    } else if (f->height * f->width == 1) {
        load_row(f, g, 0, 0, 1, 1, e);
        for (int64_t i = 1; i < count; i++)
            memcpy(e + i * GROUP, e, GROUP * sizeof *e);
    } else if (d->has_operand == ONE_A_PIXEL) {
        load(f, 0, first, count, e);
        for (int64_t i = 0; i < count * GROUP; i++)
            e[i] = e[i / GROUP * GROUP];
    } else {
        load(f, g, first, count, e);
    }
}

INLINE void limit_inline(float lowest, float highest, float *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        v[i] = limited(v[i], lowest, highest);
}

IN_EACH_FORM(limit, (float lowest, float highest, float *v, int64_t count),
             (lowest, highest, v, count))

/* All stages of one group, (count, GROUP), but for the output's. */
static void run_stages(const struct dpu *d, int64_t g, int64_t first, int64_t count, float *v) {
    if (d->has_bs)
        run_stage(&d->bs, g, v, count);
    if (d->has_bn)
        run_stage(&d->bn, g, v, count);
    if (d->has_table)
        look_up(&d->table, v, count * GROUP);
    if (d->operation != NONE) {
        float e[BLOCK * GROUP];
        load_second(d, g, first, count, e);
        operate(d->operation, v, e, count * GROUP);
    }
    if (d->has_limits)
        limit((float)d->lowest, (float)d->highest, v, count * GROUP);
}

/* ------------------------------------------------------------------------------------------- outputs */

INLINE double clipped(double v, double lowest, double highest) {
    v = v < lowest ? lowest : v;
    v = v > highest ? highest : v;
    return v == v ? v : 0;
}

INLINE void scale_inline(float factor, float *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        v[i] *= factor;
}

IN_EACH_FORM(scale, (float factor, float *v, int64_t count), (factor, v, count))

INLINE void move_inline(float addend, float *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        v[i] += addend;
}

IN_EACH_FORM(move, (float addend, float *v, int64_t count), (addend, v, count))

/* A float that has been scaled as a whole number. */
INLINE double to_whole(const struct dpu *d, float v) {
    return nearest_or_away(v + d->addend, d->output_away);
}

INLINE void store_bytes_inline(const struct dpu *d, const float *v, int64_t count, int8_t *q) {
    for (int64_t i = 0; i < count; i++)
        q[i] = (int8_t)(int32_t)clipped(to_whole(d, v[i]), -128, 127);
}

IN_EACH_FORM(store_bytes, (const struct dpu *d, const float *v, int64_t count, int8_t *q),
             (d, v, count, q))

INLINE void keep_one_nan_inline(float *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        v[i] = v[i] == v[i] ? v[i] : float_of_bits(0x7FC00000);
}

IN_EACH_FORM(keep_one_nan, (float *v, int64_t count), (v, count))

/* To the mean of int8 sums, ties to even. */
static void store_means(int64_t factor, const float *v, int64_t count, int8_t *q) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t product = (int64_t)v[i] * factor, mean = product >> 32;
        const int64_t rest = product - mean * ((int64_t)1 << 32), half = (int64_t)1 << 31;
        q[i] = (int8_t)(mean + (rest > half || (rest == half && (mean & 1))));
    }
}

/* What float32 is stored as, of `count` values. */
static void convert_floats(const struct dpu *d, float *v, int64_t count) {
    if (d->factor != 1)
        scale((float)d->factor, v, count);
    if (d->addend)
        move((float)d->addend, v, count);
    keep_one_nan(v, count);
}

/* Results of one group, (count, GROUP), into memory. */
static void store_results(const struct dpu *d, const struct writer *w, int64_t g, int64_t first,
                          int64_t count, float *v) {
    const int64_t all = count * GROUP;
    union {
        int8_t bytes[BLOCK * GROUP];
        int16_t shorts[BLOCK * GROUP];
        uint16_t halves[BLOCK * GROUP];
        int32_t words[BLOCK * GROUP];
    } q;
    if (d->factor != 1 && d->element != FLOAT32)
        scale((float)d->factor, v, all);
    if (d->addend && (d->element == FLOAT16 || d->element == BFLOAT16))
        move((float)d->addend, v, all);
    switch (d->element) {
    case INT8:
        if (d->average)
            store_means(d->average, v, all, q.bytes);
        else
            store_bytes(d, v, all, q.bytes);
        break;
    case INT16:
        for (int64_t i = 0; i < all; i++)
            q.shorts[i] = (int16_t)clipped(to_whole(d, v[i]), INT16_MIN, INT16_MAX);
        break;
    case FLOAT16: store_halves(v, all, q.halves); break;
    case BFLOAT16:
        for (int64_t i = 0; i < all; i++)
            q.halves[i] = bfloat_of_float(v[i]);
        break;
    case INT32:
        for (int64_t i = 0; i < all; i++)
            q.words[i] = (int32_t)clipped(to_whole(d, v[i]), INT32_MIN, INT32_MAX);
        break;
    default: convert_floats(d, v, all);
    }
    uint8_t *results = d->element == FLOAT32 ? (uint8_t *)v : (uint8_t *)&q;
    store(w, g, first, count, results, size_of(d->element));
}

#endif
