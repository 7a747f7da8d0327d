/* What most tables of floats are part of, for npu_general.c: a sum, a product, the table, and products again, to
 * float16 in one go. Every operation is that of npu_general_stages.h, in its order. */
#ifndef ANYNPU_NPU_GENERAL_ACTIVATIONS_H
#define ANYNPU_NPU_GENERAL_ACTIVATIONS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "npu_general_stages.h"

/* (v + before) * factor, a table, * one * other + behind. */
struct activation {
    ALIGNED float before[GROUP];
    ALIGNED float factor[GROUP];
    ALIGNED float one[GROUP];
    ALIGNED float other[GROUP];
    float behind;
    int has_origin; /* the table is 0 at 0 */
};

static int are_bits(const float *numbers, float number) {
    int same = 1;
    for (int l = 0; l < GROUP; l++)
        same &= bits_of_float(numbers[l]) == bits_of_float(number);
    return same;
}

static void set_all(float *numbers, float number) {
    for (int l = 0; l < GROUP; l++)
        numbers[l] = number;
}

/* A stage's numbers, if it is a sum and then a product. */
static int load_stage(const struct stage *s, int64_t g, float *add, float *multiply) {
    /* A zero that changes nothing is negative. */
    load_operand(&s->add, g, s->subtracts ? 0.0f : -0.0f, add);
    load_operand(&s->multiply, g, 1, multiply);
    for (int l = 0; s->subtracts && l < GROUP; l++)
        add[l] = -add[l];
    return (float)s->lowest == -INFINITY && (float)s->highest == INFINITY &&
           (!s->multiply_first || are_bits(add, -0.0f) || are_bits(multiply, 1)) &&
           (!s->only_negatives || are_bits(multiply, 1));
}

/* One product more in the first place that has none; whether there is one. */
static int add_product(const float *factors, float *one, float *other) {
    float *to = are_bits(one, 1) ? one : other;
    if (are_bits(factors, 1))
        return 1;
    if (!are_bits(to, 1))
        return 0;
    memcpy(to, factors, GROUP * sizeof *to);
    return 1;
}

/* A stage that is but a product. */
static int add_stage(const struct stage *s, int64_t g, float *one, float *other) {
    float add[GROUP], multiply[GROUP];
    return load_stage(s, g, add, multiply) && are_bits(add, -0.0f) &&
           add_product(multiply, one, other);
}

/* What lies before the table. */
static int begin_activation(const struct dpu *d, int64_t g, struct activation *to) {
    set_all(to->before, -0.0f);
    set_all(to->factor, 1);
    if (d->has_bs && !load_stage(&d->bs, g, to->before, to->factor))
        return 0;
    return !d->has_bn || add_stage(&d->bn, g, to->factor, to->factor);
}

/* What lies behind it. */
static int end_activation(const struct dpu *d, int64_t g, struct activation *to) {
    const struct dpu *last = d->after ? d->after : d;
    float factors[GROUP];
    set_all(to->one, 1);
    set_all(to->other, 1);
    set_all(factors, (float)d->factor);
    to->behind = last->addend ? (float)last->addend : -0.0f;
    if (last->element != FLOAT16 || !add_product(factors, to->one, to->other))
        return 0;
    if (last == d)
        return 1;
    set_all(factors, (float)last->factor);
    return !d->addend && (!last->has_bs || add_stage(&last->bs, g, to->one, to->other)) &&
           (!last->has_bn || add_stage(&last->bn, g, to->one, to->other)) &&
           add_product(factors, to->one, to->other);
}

/* Whether a task's stages are an activation that may use a table's lines; and which. */
static int prepare_activation(const struct dpu *d, int64_t g, struct activation *to) {
    const struct table *t = &d->table;
    if (!d->has_table || !t->lines || t->step[0] != t->step[1] || d->operation != NONE ||
        d->has_limits)
        return 0;
    to->has_origin = t->entries[TABLE_ENTRIES] == 0;
    return begin_activation(d, g, to) && end_activation(d, g, to);
}

#ifdef X86
/* What all of a table's look-ups need. */
struct eight_table {
    __m256 step;
    __m256i first, last, least, reach;
};

WITH_AVX2 INLINE struct eight_table prepare_eight(const struct table *t) {
    const __m256 least = _mm256_set1_ps((float)(-LEAST_STEPS / t->step[1]));
    return (struct eight_table){
        _mm256_set1_ps((float)t->step[1]),
        _mm256_set1_epi16(-(TABLE_ENTRIES)),
        _mm256_set1_epi16(TABLE_ENTRIES - 1),
        _mm256_castps_si256(least),
        _mm256_castps_si256(_mm256_set1_ps((float)(t->reach / t->step[1]))),
    };
}

/* Whether float32 is exact for sixteen values, in a table that is 0 at 0: all but the smallest negative ones,
 * which as whole numbers are the least. */
WITH_AVX2 INLINE int are_exact_pairs(const struct eight_table *t, __m256 low, __m256 high) {
    const __m256i a = _mm256_castps_si256(low), b = _mm256_castps_si256(high);
    const __m256i magnitude = _mm256_set1_epi32(INT32_MAX);
    const __m256i far =
        _mm256_max_epi32(_mm256_and_si256(a, magnitude), _mm256_and_si256(b, magnitude));
    const __m256i is_near = _mm256_cmpgt_epi32(t->least, _mm256_min_epi32(a, b));
    return _mm256_testc_si256(_mm256_andnot_si256(is_near, _mm256_cmpgt_epi32(t->reach, far)),
                              _mm256_set1_epi32(-1));
}

/* Lines of sixteen values, in words of four: values 0 to 3, 8 to 11, 4 to 7, the others. */
WITH_AVX2 INLINE __m256i find_sixteen(const struct eight_table *t, __m256 low, __m256 high) {
    const __m256i a = _mm256_cvttps_epi32(_mm256_floor_ps(_mm256_mul_ps(low, t->step)));
    const __m256i b = _mm256_cvttps_epi32(_mm256_floor_ps(_mm256_mul_ps(high, t->step)));
    const __m256i at = _mm256_max_epi16(_mm256_packs_epi32(a, b), t->first);
    return _mm256_min_epi16(at, t->last);
}

WITH_AVX2 INLINE __m256 on_eight_lines(const float *lines, int64_t low, int64_t high, __m256 x) {
    const __m256 even = _mm256_set_m128(two_lines(lines, (int16_t)high, (int16_t)(high >> 16)),
                                        two_lines(lines, (int16_t)low, (int16_t)(low >> 16)));
    const __m256 odd = _mm256_set_m128(two_lines(lines, (int16_t)(high >> 32), high >> 48),
                                       two_lines(lines, (int16_t)(low >> 32), low >> 48));
    return _mm256_fmadd_ps(_mm256_shuffle_ps(even, odd, 0xDD), x,
                           _mm256_shuffle_ps(even, odd, 0x88));
}

WITH_AVX2 INLINE void store_activated(const struct activation *a, int l, __m256 y, uint16_t *q) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000));
    y = _mm256_mul_ps(_mm256_mul_ps(y, _mm256_load_ps(a->one + l)), _mm256_load_ps(a->other + l));
    y = _mm256_add_ps(y, _mm256_set1_ps(a->behind));
    y = _mm256_blendv_ps(y, nan, _mm256_cmp_ps(y, y, _CMP_UNORD_Q));
    store_eight_halves(q + l, y);
}

/* (count, GROUP) sums to float16. */
WITH_AVX2 static void activate_avx2(const struct activation *a, const struct table *table,
                                    const float *v, int64_t count, uint16_t *q) {
    const struct table own = *table;
    const struct eight_table t = prepare_eight(table);
    const float *lines = own.lines + 2 * TABLE_ENTRIES;
    for (; count > 0; count--, v += GROUP, q += GROUP) {
        __m256 x[2];
        for (int h = 0; h < 2; h++)
            x[h] = _mm256_mul_ps(
                _mm256_add_ps(_mm256_loadu_ps(v + 8 * h), _mm256_load_ps(a->before + 8 * h)),
                _mm256_load_ps(a->factor + 8 * h));
        if (a->has_origin && are_exact_pairs(&t, x[0], x[1])) {
            int64_t at[4];
            _mm256_storeu_si256((__m256i *)at, find_sixteen(&t, x[0], x[1]));
            for (int h = 0; h < 2; h++)
                x[h] = on_eight_lines(lines, at[h], at[2 + h], x[h]);
        } else
            for (int h = 0; h < 2; h++)
                x[h] = look_up_eight(&own, x[h]);
        for (int h = 0; h < 2; h++)
            store_activated(a, 8 * h, x[h], q);
    }
}
#endif

/* Whether a form computes activations at once. */
INLINE int has_activations(int32_t form) {
    return has_avx2(form);
}

static void activate(const struct activation *a, const struct table *t, const float *v,
                     int64_t count, uint16_t *q) {
#ifdef X86
    activate_avx2(a, t, v, count, q);
#else
    (void)a, (void)t, (void)v, (void)count, (void)q;
#endif
}

#endif
