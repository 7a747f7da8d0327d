/* Stages of floats between sums and memory with AVX-512: a register is a pixel's group of channels, and
 * four pixels go through all stages at a time. Every operation is that of npu_general_stages.h,
 * in its order. */
#ifndef ANYNPU_NPU_GENERAL_QUADS_H
#define ANYNPU_NPU_GENERAL_QUADS_H

#include <math.h>
#include <stdint.h>

#include "npu_general_stages.h"

#ifdef AVX512
enum { QUAD = 4, ATOM = 16 /* bytes of the larger atoms */ };

/* Unrolled, so that pixels stay in registers from stage to stage. */
#define UNROLLED _Pragma("GCC unroll 4")

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

struct quad_table {
    const struct table *table;
    __m512 step[2];
    __m512i reach;
    int has_one_step;
};

WITH_AVX512_VNNI static void prepare_table(const struct table *t, struct quad_table *to) {
    to->table = t;
    for (int i = 0; i < 2; i++)
        to->step[i] = _mm512_set1_ps((float)t->step[i]);
    to->reach = _mm512_castps_si512(_mm512_set1_ps((float)t->reach));
    to->has_one_step = t->step[0] == t->step[1];
}

/* Where four pixels' values lie in a table. */
struct places {
    ALIGNED uint64_t at[QUAD * GROUP / 2]; /* pairs of uint32 */
    ALIGNED float rest[QUAD * GROUP];
    int is_found; /* whether rest is the result */
};

/* Values are looked up so many quads after their places are found, since a processor waits for what has just
 * been written. */
enum { LATER = 2, PLACES = 4 };

/* As look_up_eight, how many steps values are from 0; zero is the greatest of them once 1 is taken away from
 * their bits. */
WITH_AVX512_VNNI INLINE __m512 steps_of(const struct quad_table *t, __m512 x, __mmask16 sign) {
    return _mm512_mul_ps(x, t->has_one_step ? t->step[1]
                                            : _mm512_mask_blend_ps(sign, t->step[1], t->step[0]));
}

WITH_AVX512_VNNI INLINE __m512i bits_of_least_steps(void) {
    return _mm512_sub_epi32(_mm512_castps_si512(_mm512_set1_ps(0x1p-13f)), _mm512_set1_epi32(1));
}

/* The pair next to 0 of those round a value. */
WITH_AVX512_VNNI INLINE __m512i pair_of(__m512i whole, __mmask16 sign) {
    const __m512i entry = _mm512_add_epi32(whole, _mm512_set1_epi32(TABLE_ENTRIES));
    return _mm512_mask_sub_epi32(entry, sign, entry, _mm512_set1_epi32(1));
}

/* Also beyond the entries, and where float32 isn't exact for all. */
WITH_AVX512_VNNI __attribute__((noinline, cold)) static void
find_anywhere(const struct quad_table *t, const float *v, struct places *to) {
    const __m512i one = _mm512_set1_epi32(1), last = _mm512_set1_epi32(TABLE_ENTRIES - 1);
    __mmask16 is_exact = 0xFFFF;
    for (int i = 0; i < QUAD; i++) {
        const __m512 x = _mm512_load_ps(v + i * GROUP);
        const __mmask16 sign = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
        const __m512 steps = steps_of(t, x, sign);
        const __m512i far = _mm512_castps_si512(_mm512_abs_ps(steps));
        __m512i whole = _mm512_min_epi32(_mm512_cvttps_epi32(steps), last);
        whole = _mm512_max_epi32(whole, _mm512_sub_epi32(_mm512_setzero_si512(), last));
        is_exact = _mm512_mask_cmpge_epu32_mask(is_exact, _mm512_sub_epi32(far, one),
                                                bits_of_least_steps());
        is_exact = _mm512_mask_cmplt_epu32_mask(is_exact, far, t->reach);
        _mm512_store_si512(to->at + i * GROUP / 2, pair_of(whole, sign));
        _mm512_store_ps(to->rest + i * GROUP, _mm512_sub_ps(steps, _mm512_cvtepi32_ps(whole)));
    }
    to->is_found = is_exact != 0xFFFF;
    if (to->is_found)
        for (int i = 0; i < QUAD * GROUP; i += 4)
            _mm_storeu_ps(to->rest + i, look_up_four(t->table, _mm_loadu_ps(v + i)));
}

/* Most values lie between entries. */
WITH_AVX512_VNNI INLINE void find_quad(const struct quad_table *t, const __m512 *v,
                                       struct places *to) {
    const __m512i one = _mm512_set1_epi32(1);
    __m512i farthest = _mm512_setzero_si512(), nearest = _mm512_set1_epi32(-1);
    UNROLLED for (int i = 0; i < QUAD; i++) {
        const __mmask16 sign = _mm512_cmp_ps_mask(v[i], _mm512_setzero_ps(), _CMP_LT_OQ);
        const __m512 steps = steps_of(t, v[i], sign);
        const __m512i far = _mm512_castps_si512(_mm512_abs_ps(steps));
        farthest = _mm512_max_epu32(farthest, far);
        nearest = _mm512_min_epu32(nearest, _mm512_sub_epi32(far, one));
        _mm512_store_si512(to->at + i * GROUP / 2, pair_of(_mm512_cvttps_epi32(steps), sign));
        _mm512_store_ps(to->rest + i * GROUP,
                        _mm512_reduce_ps(steps, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
    }
    const __m512i end = _mm512_castps_si512(_mm512_set1_ps(TABLE_ENTRIES - 1));
    __mmask16 is_inside = _mm512_cmpge_epu32_mask(nearest, bits_of_least_steps());
    is_inside = _mm512_mask_cmplt_epu32_mask(is_inside, farthest, _mm512_min_epu32(end, t->reach));
    to->is_found = 0;
    if (is_inside != 0xFFFF) {
        ALIGNED float values[QUAD * GROUP];
        for (int i = 0; i < QUAD; i++)
            _mm512_store_ps(values + i * GROUP, v[i]);
        find_anywhere(t, values, to);
    }
}

/* Two pixels' pairs from each of two places that are four apart. */
WITH_AVX512_VNNI INLINE __m256d four_pairs_at(const float *pairs, uint64_t low, uint64_t high) {
    return _mm256_castps_pd(_mm256_set_m128(two_pairs(pairs, high), two_pairs(pairs, low)));
}

WITH_AVX512_VNNI INLINE __m512 eight_pairs_at(const float *pairs, const uint64_t *at) {
    return _mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castpd256_pd512(four_pairs_at(pairs, at[0], at[2])),
                           four_pairs_at(pairs, at[4], at[6]), 1));
}

/* As look_up_eight, of a quad whose places are known. */
WITH_AVX512_VNNI INLINE void look_up_quad(const struct quad_table *t, const struct places *places,
                                          __m512 *v) {
    if (places->is_found) {
        for (int i = 0; i < QUAD; i++)
            v[i] = _mm512_load_ps(places->rest + i * GROUP);
        return;
    }
    UNROLLED for (int i = 0; i < QUAD; i++) {
        const uint64_t *at = places->at + i * GROUP / 2;
        const __m512 even = eight_pairs_at(t->table->pairs, at),
                     odd = eight_pairs_at(t->table->pairs, at + 1);
        v[i] = _mm512_fmadd_ps(_mm512_shuffle_ps(even, odd, 0xDD),
                               _mm512_load_ps(places->rest + i * GROUP),
                               _mm512_shuffle_ps(even, odd, 0x88));
    }
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
    int surfaces, has_after, is_float, is_full;
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

WITH_AVX512_VNNI INLINE __m256i halves_of(const struct quad_task *q, __m512 v) {
    const __m256i halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
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
        look_up_quad(&q->dpu.table, places + i / QUAD % PLACES, x);
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

/* `count` neighbours in a row, with their second operands. */
WITH_AVX512_VNNI INLINE void finish_row(const struct quad_task *q, const float *v, const float *e,
                                        int64_t count, uint8_t *const *surfaces, int64_t pixel) {
    ALIGNED struct places places[PLACES];
    int64_t i = 0;
    for (; q->dpu.dpu->has_table && i < LATER * QUAD; i += QUAD)
        find_places(&q->dpu, v, i, count, places);
    for (i = 0; pixel == q->atom && i + QUAD <= count; i += QUAD) {
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
    if (d->has_table && !d->table.pairs)
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
