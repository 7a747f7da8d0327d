/* Stages of floats between sums and memory with AVX-512: a register is a pixel's group of channels, and
 * four pixels go through all stages at a time. Every operation is that of npu_general_stages.h,
 * in its order. */
#ifndef ANYNPU_NPU_GENERAL_QUADS_H
#define ANYNPU_NPU_GENERAL_QUADS_H

#include <math.h>
#include <stdint.h>

#include "npu_general_activations.h"

#ifdef AVX512
enum { QUAD = 4, ATOM = 16 /* bytes of the larger atoms */ };

/* Loops are UNROLLED, so that pixels stay in registers from stage to stage. */

/* One group's numbers of a stage: (v + before) * factor + behind, then limits. */
struct quad_stage {
    __m512 before, positive, negative, behind, lowest, highest;
    int adds_before, adds_behind, multiplies, is_split, has_limits;
};

WITH_AVX512_VNNI INLINE int are_all(__m512 numbers, float number) {
    return _mm512_cmpeq_epi32_mask(_mm512_castps_si512(numbers),
                                   _mm512_castps_si512(_mm512_set1_ps(number))) == 0xFFFF;
}

WITH_AVX512_VNNI static void prepare_stage(const struct stage *s, int64_t g,
                                           struct quad_stage *to) {
    /* A zero that changes nothing is negative. */
    const __m512 nothing = _mm512_set1_ps(-0.0f), one = _mm512_set1_ps(1);
    float add[GROUP], multiply[GROUP];
    load_operand(&s->add, g, s->subtracts ? 0.0f : -0.0f, add);
    load_operand(&s->multiply, g, 1, multiply);
    const __m512 m = _mm512_loadu_ps(multiply);
    __m512 a = _mm512_loadu_ps(add);
    a = s->subtracts ? _mm512_xor_ps(a, nothing) : a;
    to->before = s->multiply_first ? nothing : a;
    to->behind = s->multiply_first ? a : nothing;
    to->negative = m;
    to->positive = s->only_negatives ? one : m;
    to->lowest = _mm512_set1_ps((float)s->lowest);
    to->highest = _mm512_set1_ps((float)s->highest);
    to->adds_before = !s->multiply_first && !are_all(a, -0.0f);
    to->adds_behind = s->multiply_first && !are_all(a, -0.0f);
    to->multiplies = !are_all(m, 1);
    to->is_split = to->multiplies && s->only_negatives;
    to->has_limits = !((float)s->lowest == -INFINITY && (float)s->highest == INFINITY);
}

/* Of two operands that are equal, or of which one is no number, these return the second. */
WITH_AVX512_VNNI INLINE __m512 limited_quad(__m512 v, __m512 lowest, __m512 highest) {
    return _mm512_min_ps(highest, _mm512_max_ps(lowest, v));
}

WITH_AVX512_VNNI INLINE void run_quad_stage(const struct quad_stage *s, __m512 *v) {
    const __m512 zero = _mm512_setzero_ps();
    if (s->adds_before)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = _mm512_add_ps(v[i], s->before);
    if (s->is_split)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] =
            _mm512_mul_ps(v[i], _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v[i], zero, _CMP_LT_OQ),
                                                     s->positive, s->negative));
    else if (s->multiplies)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = _mm512_mul_ps(v[i], s->positive);
    if (s->adds_behind)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = _mm512_add_ps(v[i], s->behind);
    if (s->has_limits)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = limited_quad(v[i], s->lowest, s->highest);
}

/* A table whose lines are found by adding to values, rounding down, what makes the sum's last bit worth a step:
 * its low bits are the number of the line, counted from the first one between entries. */
struct quad_table {
    const struct table *table;
    __m512 size, ratio;   /* of steps of negative values to others' */
    __m512i below, above; /* bits of sums on the lines beyond the entries */
    __m512i least;        /* bits of the smallest value that is exact, less 1; zero is none */
    __m512i least_negative;
    __m512i reach; /* bits as well */
    int is_even;   /* both sides have the same steps */
};

/* Lines between entries. */
enum { INSIDE = 2 * (TABLE_ENTRIES - 1) };

enum { GREATER_MAGNITUDE = 0xB /* of two, as _mm512_range_ps has it */ };

WITH_AVX512_VNNI static void prepare_table(const struct table *t, struct quad_table *to) {
    const double largest = t->step[0] < t->step[1] ? t->step[1] : t->step[0];
    const double smallest = t->step[0] < t->step[1] ? t->step[0] : t->step[1];
    const __m512i first = _mm512_castps_si512(_mm512_set1_ps((float)(0x1p23 / t->step[1])));
    const __m512i least = _mm512_castps_si512(_mm512_set1_ps((float)(LEAST_STEPS / smallest)));
    to->table = t;
    to->is_even = t->step[0] == t->step[1];
    to->size = _mm512_set1_ps((float)((0x1p23 + INSIDE / 2) / t->step[1]));
    to->ratio = _mm512_set1_ps((float)(t->step[0] / t->step[1]));
    to->below = _mm512_sub_epi32(first, _mm512_set1_epi32(1));
    to->above = _mm512_add_epi32(first, _mm512_set1_epi32(INSIDE));
    to->least = _mm512_sub_epi32(least, _mm512_set1_epi32(1));
    to->least_negative = _mm512_or_si512(least, _mm512_set1_epi32(INT32_MIN));
    to->reach = _mm512_castps_si512(_mm512_set1_ps((float)(t->reach / largest)));
}

/* The lines of four pixels' values. */
struct places {
    ALIGNED int16_t at[QUAD * GROUP];
    ALIGNED float x[QUAD * GROUP];
    int is_found; /* whether x is the result */
};

WITH_AVX512_VNNI INLINE void store_lines(struct places *to, int i, __m512i at) {
    _mm256_store_si256((__m256i *)(to->at + i * GROUP), _mm512_cvtepi32_epi16(at));
}

/* Values are looked up so many quads after their places are found, since a processor waits for what has just
 * been written. */
enum { LATER = 2, PLACES = 4 };

/* A quad of which some values are so small or large that float32 isn't exact. */
WITH_AVX512_VNNI __attribute__((noinline, cold)) static void find_anywhere(const struct table *t,
                                                                           struct places *to) {
    to->is_found = 1;
    for (int i = 0; i < QUAD * GROUP; i += 8)
        _mm256_store_ps(to->x + i, look_up_eight(t, _mm256_load_ps(to->x + i)));
}

/* Of all values of a quad: the bits of the one next to 0, and those of the farthest one's magnitude. */
struct extremes {
    __m512i nearest, farthest;
};

WITH_AVX512_VNNI INLINE struct extremes no_extremes(void) {
    return (struct extremes){_mm512_set1_epi32(-1), _mm512_setzero_si512()};
}

/* The lines of a pixel's values; what is no number stays that on any. A table that is 0 at 0 is exact for small
 * positive ones, too; its values have been calculated, so that no NaN among them is a signalling one. */
WITH_AVX512_VNNI INLINE __m512i find_lines(const struct quad_table *t, __m512 x, __m512 steps,
                                           const int has_origin, struct extremes *of) {
    const __m512i at = _mm512_castps_si512(
        _mm512_add_round_ps(steps, t->size, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    if (has_origin) {
        /* The least whole number with a negative float's bits is the one next to 0. */
        of->nearest = _mm512_min_epi32(of->nearest, _mm512_castps_si512(x));
        const __m512 farthest = _mm512_castsi512_ps(of->farthest);
        of->farthest = _mm512_castps_si512(_mm512_range_ps(farthest, x, GREATER_MAGNITUDE));
    } else {
        const __m512i far = _mm512_castps_si512(_mm512_abs_ps(x));
        of->nearest = _mm512_min_epu32(of->nearest, _mm512_sub_epi32(far, _mm512_set1_epi32(1)));
        of->farthest = _mm512_max_epu32(of->farthest, far);
    }
    return _mm512_min_epi32(_mm512_max_epi32(at, t->below), t->above);
}

/* Whether float32 is exact for all of these values. */
WITH_AVX512_VNNI INLINE int are_exact(const struct quad_table *t, const int has_origin,
                                      const struct extremes *of) {
    const __mmask16 is_small = has_origin ? _mm512_cmplt_epi32_mask(of->nearest, t->least_negative)
                                          : _mm512_cmplt_epu32_mask(of->nearest, t->least);
    return !(is_small | _mm512_cmpge_epu32_mask(of->farthest, t->reach));
}

/* Most are. */
WITH_AVX512_VNNI INLINE void find_quad(const struct quad_table *t, const __m512 *x,
                                       struct places *to) {
    struct extremes of = no_extremes();
    UNROLLED for (int i = 0; i < QUAD; i++) {
        const __mmask16 sign = _mm512_cmp_ps_mask(x[i], _mm512_setzero_ps(), _CMP_LT_OQ);
        const __m512 steps = t->is_even ? x[i] : _mm512_mask_mul_ps(x[i], sign, x[i], t->ratio);
        store_lines(to, i, find_lines(t, x[i], steps, 0, &of));
        _mm512_store_ps(to->x + i * GROUP, x[i]);
    }
    to->is_found = 0;
    if (!are_exact(t, 0, &of))
        find_anywhere(t->table, to);
}

/* Two lines from each of two words of four numbers: the first ones, or with `second` the others. */
WITH_AVX512_VNNI INLINE __m256d four_lines(const float *lines, const int64_t *at,
                                           const int second) {
    __m128 two[2];
    for (int i = 0; i < 2; i++)
        two[i] = second ? two_lines(lines, (int16_t)(at[i] >> 32), at[i] >> 48)
                        : two_lines(lines, (int16_t)at[i], (int16_t)(at[i] >> 16));
    return _mm256_castps_pd(_mm256_set_m128(two[1], two[0]));
}

WITH_AVX512_VNNI INLINE __m512 eight_lines(const float *lines, const int64_t *at,
                                           const int second) {
    const __m512d low = _mm512_castpd256_pd512(four_lines(lines, at, second));
    return _mm512_castpd_ps(_mm512_insertf64x4(low, four_lines(lines, at + 2, second), 1));
}

/* As look_up_eight, of a pixel whose lines are known. */
WITH_AVX512_VNNI INLINE __m512 on_lines(const float *lines, const struct places *places, int i) {
    int64_t at[GROUP / 4];
    memcpy(at, places->at + i * GROUP, sizeof at);
    const __m512 low = eight_lines(lines, at, 0), high = eight_lines(lines, at, 1);
    return _mm512_fmadd_ps(_mm512_shuffle_ps(low, high, 0xDD),
                           _mm512_load_ps(places->x + i * GROUP),
                           _mm512_shuffle_ps(low, high, 0x88));
}

WITH_AVX512_VNNI INLINE void look_up_quad(const float *lines, const struct places *places,
                                          __m512 *v) {
    if (places->is_found)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = _mm512_load_ps(places->x + i * GROUP);
    else
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = on_lines(lines, places, i);
}

WITH_AVX512_VNNI INLINE __m512 operated(int64_t operation, __m512 v, __m512 e) {
    const __m512 sign = _mm512_set1_ps(-0.0f);
    const __mmask16 is_no_number = _mm512_cmp_ps_mask(e, e, _CMP_UNORD_Q);
    switch (operation) {
    case MAX:
        return _mm512_mask_blend_ps(is_no_number | _mm512_cmp_ps_mask(v, e, _CMP_LT_OQ), v, e);
    case MIN:
        return _mm512_mask_blend_ps(is_no_number | _mm512_cmp_ps_mask(v, e, _CMP_GT_OQ), v, e);
    case ADD: return _mm512_add_ps(v, e);
    case DIVIDE: return _mm512_div_ps(v, e);
    case SUBTRACT: return _mm512_sub_ps(v, e);
    case ABS: return _mm512_andnot_ps(sign, v);
    case NEGATE: return _mm512_xor_ps(v, sign);
    case FLOOR: return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    case CEIL: return _mm512_roundscale_ps(v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    case GREATER:
        return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, e, _CMP_GT_OQ), _mm512_set1_ps(1));
    case MULTIPLY: return _mm512_mul_ps(v, e);
    default:
        return _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ), v, e);
    }
}

/* All stages of one group. */
struct quad_dpu {
    const struct dpu *dpu;
    struct quad_stage bs, bn;
    struct quad_table table;
    __m512 factor, addend, lowest, highest;
};

/* The same with those that follow, and with where results go. */
struct quad_task {
    struct quad_dpu dpu, after;
    __m256i padding;
    __mmask16 channels; /* those that aren't padding */
    int64_t atom;       /* bytes */
    int surfaces, has_after, is_float, is_full, is_activation;
    struct activation activation;
};

WITH_AVX512_VNNI static void prepare_stages(const struct dpu *d, int64_t g, struct quad_dpu *to) {
    to->dpu = d;
    if (d->has_bs)
        prepare_stage(&d->bs, g, &to->bs);
    if (d->has_bn)
        prepare_stage(&d->bn, g, &to->bn);
    if (d->has_table)
        prepare_table(&d->table, &to->table);
    to->factor = _mm512_set1_ps((float)d->factor);
    to->addend = _mm512_set1_ps((float)d->addend);
    to->lowest = _mm512_set1_ps((float)d->lowest);
    to->highest = _mm512_set1_ps((float)d->highest);
}

WITH_AVX512_VNNI static void prepare(const struct dpu *d, const struct writer *w, int64_t g,
                                     struct quad_task *to) {
    const int64_t channels = least(w->channels - g * GROUP, GROUP);
    prepare_stages(d, g, &to->dpu);
    if (d->after)
        prepare_stages(d->after, g, &to->after);
    to->has_after = d->after != NULL;
    to->is_float = (d->after ? d->after : d)->element == FLOAT32;
    to->padding = _mm256_set1_epi16((short)w->padding);
    to->channels = (__mmask16)((1u << channels) - 1);
    to->surfaces = (int)((channels + w->lanes - 1) / w->lanes);
    to->is_full = channels == GROUP;
    to->atom = w->lanes * (to->is_float ? 4 : 2);
    to->is_activation =
        to->is_full && to->atom == ATOM && prepare_activation(d, g, &to->activation);
}

WITH_AVX512_VNNI INLINE void run_quad_output(const struct quad_dpu *q, __m512 *v) {
    const struct dpu *d = q->dpu;
    if (d->factor != 1)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = _mm512_mul_ps(v[i], q->factor);
    if (d->addend)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = _mm512_add_ps(v[i], q->addend);
}

WITH_AVX512_VNNI INLINE void run_first_stages(const struct quad_dpu *q, __m512 *v) {
    if (q->dpu->has_bs)
        run_quad_stage(&q->bs, v);
    if (q->dpu->has_bn)
        run_quad_stage(&q->bn, v);
}

WITH_AVX512_VNNI INLINE void run_third_stage(const struct quad_dpu *q, const float *e, __m512 *v) {
    const struct dpu *d = q->dpu;
    if (d->operation != NONE)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] =
            operated(d->operation, v[i], _mm512_loadu_ps(e + i * GROUP));
    if (d->has_limits)
        UNROLLED for (int i = 0; i < QUAD; i++) v[i] = limited_quad(v[i], q->lowest, q->highest);
    run_quad_output(q, v);
}

/* Those of a task that has no third one. */
WITH_AVX512_VNNI INLINE void run_last_stages(const struct quad_dpu *q, __m512 *v) {
    run_first_stages(q, v);
    run_quad_output(q, v);
}

/* What is no number is one and the same; of a float16 as well. */
WITH_AVX512_VNNI INLINE void keep_one_quad_nan(__m512 *v) {
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7FC00000));
    if (!(_mm512_cmp_ps_mask(v[0], v[1], _CMP_UNORD_Q) |
          _mm512_cmp_ps_mask(v[2], v[3], _CMP_UNORD_Q)))
        return;
    UNROLLED for (int i = 0; i < QUAD; i++) v[i] =
        _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v[i], v[i], _CMP_UNORD_Q), v[i], nan);
}

WITH_AVX512_VNNI INLINE __m256i nearest_halves(__m512 v) {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

WITH_AVX512_VNNI INLINE __m256i halves_of(const struct quad_task *q, __m512 v) {
    const __m256i halves = nearest_halves(v);
    return q->is_full ? halves : _mm256_mask_blend_epi16(q->channels, q->padding, halves);
}

/* Four pixels' float16, of surfaces of eight channels, or of four. */
WITH_AVX512_VNNI INLINE void store_quad_halves(const struct quad_task *q, const __m512 *v,
                                               uint8_t *const *to) {
    __m512i pixels[2];
    for (int i = 0; i < 2; i++)
        pixels[i] = _mm512_inserti64x4(_mm512_castsi256_si512(halves_of(q, v[2 * i])),
                                       halves_of(q, v[2 * i + 1]), 1);
    if (q->atom < ATOM) {
        const __m512i first = _mm512_setr_epi64(0, 4, 8, 12, 1, 5, 9, 13);
        for (int s = 0; s < q->surfaces; s++) {
            const __m512i own = _mm512_add_epi64(first, _mm512_set1_epi64(s));
            _mm256_storeu_si256((__m256i *)to[s], _mm512_castsi512_si256(_mm512_permutex2var_epi64(
                                                      pixels[0], own, pixels[1])));
        }
        return;
    }
    _mm512_storeu_si512(to[0], _mm512_shuffle_i32x4(pixels[0], pixels[1], 0x88));
    if (q->surfaces > 1)
        _mm512_storeu_si512(to[1], _mm512_shuffle_i32x4(pixels[0], pixels[1], 0xDD));
}

/* Four pixels' float32, of surfaces of four channels. */
WITH_AVX512_VNNI INLINE void store_quad_floats(const struct quad_task *q, const __m512 *v,
                                               uint8_t *const *to) {
    __m512 pairs[4];
    for (int i = 0; i < 2; i++) {
        const __m512 one = _mm512_maskz_mov_ps(q->channels, v[2 * i]),
                     other = _mm512_maskz_mov_ps(q->channels, v[2 * i + 1]);
        pairs[i] = _mm512_shuffle_f32x4(one, other, 0x44);
        pairs[2 + i] = _mm512_shuffle_f32x4(one, other, 0xEE);
    }
    for (int s = 0; s < q->surfaces; s++) {
        const __m512 *two = pairs + s / 2 * 2;
        _mm512_storeu_ps(to[s], s % 2 ? _mm512_shuffle_f32x4(two[0], two[1], 0xDD)
                                      : _mm512_shuffle_f32x4(two[0], two[1], 0x88));
    }
}

WITH_AVX512_VNNI INLINE void load_quad(const float *v, int64_t i, int64_t n, __m512 *x) {
    if (n >= QUAD)
        for (int j = 0; j < QUAD; j++)
            x[j] = _mm512_loadu_ps(v + (i + j) * GROUP);
    else
        for (int j = 0; j < QUAD; j++)
            x[j] = _mm512_loadu_ps(v + (i + least(j, n - 1)) * GROUP);
}

/* The places of the quad that begins with pixel i. */
WITH_AVX512_VNNI INLINE void find_places(const struct quad_dpu *q, const float *v, int64_t i,
                                         int64_t count, struct places *places) {
    __m512 x[QUAD];
    if (i >= count)
        return;
    load_quad(v, i, count - i, x);
    run_first_stages(q, x);
    find_quad(&q->table, x, places + i / QUAD % PLACES);
}

/* The quad that begins with pixel i of `count` neighbours in a row. */
WITH_AVX512_VNNI INLINE void finish_quad(const struct quad_task *q, const float *v, const float *e,
                                         int64_t i, int64_t count, struct places *places,
                                         uint8_t *const *to) {
    __m512 x[QUAD];
    if (q->dpu.dpu->has_table) {
        find_places(&q->dpu, v, i + LATER * QUAD, count, places);
        look_up_quad(q->dpu.table.table->lines + 2, places + i / QUAD % PLACES, x);
    } else {
        load_quad(v, i, count - i, x);
        run_first_stages(&q->dpu, x);
    }
    run_third_stage(&q->dpu, e + i * GROUP, x);
    if (q->has_after)
        run_last_stages(&q->after, x); /* to which any of them is the same */
    keep_one_quad_nan(x);
    if (q->is_float)
        store_quad_floats(q, x, to);
    else
        store_quad_halves(q, x, to);
}

/* The same where atoms don't lie side by side, or are fewer. */
WITH_AVX512_VNNI __attribute__((noinline)) static void
finish_apart(const struct quad_task *q, const float *v, const float *e, int64_t i, int64_t count,
             struct places *places, uint8_t *const *surfaces, int64_t pixel) {
    ALIGNED uint8_t own[4][QUAD * ATOM], *to[4] = {own[0], own[1], own[2], own[3]};
    finish_quad(q, v, e, i, count, places, to);
    for (int s = 0; s < q->surfaces; s++)
        for (int64_t j = 0; j < least(count - i, QUAD); j++)
            memcpy(surfaces[s] + (i + j) * pixel, own[s] + j * q->atom, q->atom);
}

/* The places of a quad's values. */
WITH_AVX512_VNNI INLINE void find_activations(const struct quad_table *t, __m512 before,
                                              __m512 factor, const float *v, const int has_origin,
                                              struct places *to) {
    struct extremes of = no_extremes();
    UNROLLED for (int i = 0; i < QUAD; i++) {
        const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(v + i * GROUP), before);
        const __m512 x = _mm512_mul_ps(sum, factor);
        store_lines(to, i, find_lines(t, x, x, has_origin, &of));
        _mm512_store_ps(to->x + i * GROUP, x);
    }
    to->is_found = 0;
    if (!are_exact(t, has_origin, &of))
        find_anywhere(t->table, to);
}

/* `count` neighbours, four by four, and as long as there are four; how many that are. */
WITH_AVX512_VNNI INLINE int64_t activate_row(const struct quad_task *q, const float *v,
                                             int64_t count, uint8_t *const *to,
                                             const int has_origin, const int adds_behind) {
    ALIGNED struct places places[PLACES];
    const struct activation *a = &q->activation;
    const struct quad_table t = q->dpu.table;
    const __m512 before = _mm512_load_ps(a->before), factor = _mm512_load_ps(a->factor);
    const __m512 one = _mm512_load_ps(a->one), other = _mm512_load_ps(a->other);
    const __m512 behind = _mm512_set1_ps(a->behind);
    const float *lines = t.table->lines + 2;
    uint8_t *low = to[0], *high = to[1];
    const int64_t end = count / QUAD * QUAD;
    for (int64_t i = 0; i < end + LATER * QUAD; i += QUAD) {
        if (i < end)
            find_activations(&t, before, factor, v + i * GROUP, has_origin,
                             places + i / QUAD % PLACES);
        if (i < LATER * QUAD)
            continue;
        __m512 x[QUAD];
        __m512i pixels[2];
        look_up_quad(lines, places + (i / QUAD - LATER) % PLACES, x);
        UNROLLED for (int j = 0; j < QUAD; j++) {
            x[j] = _mm512_mul_ps(_mm512_mul_ps(x[j], one), other);
            if (adds_behind)
                x[j] = _mm512_add_ps(x[j], behind);
        }
        keep_one_quad_nan(x);
        for (int j = 0; j < 2; j++)
            pixels[j] = _mm512_inserti64x4(_mm512_castsi256_si512(nearest_halves(x[2 * j])),
                                           nearest_halves(x[2 * j + 1]), 1);
        _mm512_storeu_si512(low, _mm512_shuffle_i32x4(pixels[0], pixels[1], 0x88));
        _mm512_storeu_si512(high, _mm512_shuffle_i32x4(pixels[0], pixels[1], 0xDD));
        low += QUAD * ATOM, high += QUAD * ATOM;
    }
    return end;
}

WITH_AVX512_VNNI static int64_t activate_quads(const struct quad_task *q, const float *v,
                                               int64_t count, uint8_t *const *to) {
    const struct activation *a = &q->activation;
    if (bits_of_float(a->behind) != bits_of_float(-0.0f))
        return a->has_origin ? activate_row(q, v, count, to, 1, 1)
                             : activate_row(q, v, count, to, 0, 1);
    return a->has_origin ? activate_row(q, v, count, to, 1, 0)
                         : activate_row(q, v, count, to, 0, 0);
}

/* `count` neighbours in a row, with their second operands. */
WITH_AVX512_VNNI INLINE void finish_row(const struct quad_task *q, const float *v, const float *e,
                                        int64_t count, uint8_t *const *surfaces, int64_t pixel) {
    ALIGNED struct places places[PLACES];
    int64_t i = 0;
    if (q->is_activation && pixel == ATOM)
        i = activate_quads(q, v, count, surfaces);
    for (int64_t n = i; q->dpu.dpu->has_table && n < i + LATER * QUAD; n += QUAD)
        find_places(&q->dpu, v, n, count, places);
    for (; pixel == q->atom && i + QUAD <= count; i += QUAD) {
        uint8_t *to[4];
        for (int s = 0; s < 4; s++)
            to[s] = surfaces[s] + i * q->atom;
        finish_quad(q, v, e, i, count, places, to);
    }
    for (; i < count; i += QUAD)
        finish_apart(q, v, e, i, count, places, surfaces, pixel);
}

/* Whether a task's stages and atoms are of this kind. */
static int has_short_finish(const struct dpu *d, const struct writer *w) {
    if (d->has_table && !d->table.lines)
        return 0;
    if (d->after)
        return has_short_finish(d->after, w);
    return (d->element == FLOAT16 && (w->lanes == 8 || w->lanes == 4)) ||
           (d->element == FLOAT32 && w->lanes == 4);
}

WITH_AVX512_VNNI static void finish_short(const struct dpu *d, const struct writer *w, int64_t g,
                                          const struct quad_task *q, int64_t first, int64_t count,
                                          const float *v) {
    ALIGNED float e[(BLOCK + QUAD) * GROUP];
    const int is_one = w->line == w->width * w->pixel; /* row */
    int64_t y = first / w->width, x = first % w->width;
    while (count) {
        const int64_t most = d->operation == NONE ? count : least(count, BLOCK),
                      n = least(most, is_one ? count : w->width - x);
        uint8_t *surfaces[4] = {0};
        for (int i = 0; i < q->surfaces; i++) {
            const int64_t s = g * GROUP / w->lanes + i;
            surfaces[i] = w->base + s / w->group * w->group_stride + s % w->group * w->surface +
                          y * w->line + x * w->pixel;
        }
        if (d->operation != NONE)
            load_second(d, g, first, n, e);
        finish_row(q, v, e, n, surfaces, w->pixel);
        first += n, v += n * GROUP, count -= n, y = first / w->width, x = first % w->width;
    }
}
#endif

#endif
