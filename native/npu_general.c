/* The NPU's arithmetic on channel blocks of any element: what the reference does with NumPy, in one pass.
 *
 * Plain C11, built without contraction of a * b + c. For floats every operation is the reference's, in
 * its order: sums are float32, one product after the other, place by place and channel by channel;
 * stages are float32, tables double. Where both factors are float16 a product is exact in float32, so
 * there a fused multiplication and addition gives the same bits. For integers, what npu.c doesn't take:
 * sums of a chunk of products are float32 and whole, totals and stages double, which callers prove exact.
 *
 * Whatever lanes an atom has, values between memory and memory are (pixels, GROUP) floats. Nothing is
 * allocated, and weights stay as the file has them. Kernels are those of steps.c: arguments, the first
 * unit of work, the one past the last, the thread's own space.
 *
 * Memory is only touched where the arguments say: whole atoms of features and rows of pictures, weights,
 * operands and what is written, each as the view of these strides and counts that callers have found to
 * lie inside. Arrays that have an entry a channel are filled up to whole groups.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "half.h"
#include "npu.h"
#include "npu_arithmetic.h"

enum {
    RUN = 64,
    AHEAD = 2048, /* bytes of weights that are asked of memory before their turn: two blocks */
};

/* Vectors of a line of the cache don't cross two. */
#define ALIGNED __attribute__((aligned(64)))

/* ------------------------------------------------------------------------------------------ elements */

/* What is no number is 0x7E00. */
INLINE uint16_t stored_half(float value) {
    return value != value ? 0x7E00 : half_of_float(value);
}

INLINE uint16_t bfloat_of_float(float value) {
    if (value != value)
        return 0x7FC0;
    const uint32_t bits = bits_of_float(value);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

INLINE int64_t size_of(int64_t element) {
    return element == INT8 ? 1 : element >= INT32 ? 4 : 2;
}

INLINE float element_at(const uint8_t *source, int64_t place, int64_t element) {
    uint16_t half;
    int16_t small;
    int32_t word;
    float value;
    switch (element) {
    case INT8: return (float)(int8_t)source[place];
    case INT16: memcpy(&small, source + 2 * place, 2); return (float)small;
    case FLOAT16: memcpy(&half, source + 2 * place, 2); return float_of_half(half);
    case BFLOAT16: memcpy(&half, source + 2 * place, 2); return float_of_bits((uint32_t)half << 16);
    case INT32: memcpy(&word, source + 4 * place, 4); return (float)word;
    default: memcpy(&value, source + 4 * place, 4); return value;
    }
}

/* `count` atoms' first `lanes` elements, `step` bytes apart, to floats `target_step` apart. */
INLINE void widen_element(const uint8_t *source, int64_t step, int64_t count, float *target,
                          int64_t target_step, int64_t lanes, const int element) {
    for (int64_t i = 0; i < count; i++, source += step, target += target_step)
        for (int64_t l = 0; l < lanes; l++)
            target[l] = element_at(source, l, element);
}

INLINE void widen_any_inline(const uint8_t *source, int64_t step, int64_t count, float *target,
                             int64_t target_step, int64_t lanes, int64_t element) {
    switch (element) {
    case INT8: widen_element(source, step, count, target, target_step, lanes, INT8); break;
    case INT16: widen_element(source, step, count, target, target_step, lanes, INT16); break;
    case FLOAT16: widen_element(source, step, count, target, target_step, lanes, FLOAT16); break;
    case BFLOAT16: widen_element(source, step, count, target, target_step, lanes, BFLOAT16); break;
    case INT32: widen_element(source, step, count, target, target_step, lanes, INT32); break;
    default: widen_element(source, step, count, target, target_step, lanes, FLOAT32);
    }
}

#define WIDEN                                                                                      \
    (const uint8_t *source, int64_t step, int64_t count, float *target, int64_t target_step,       \
     int64_t lanes, int64_t element)

IN_EACH_FORM(widen_any, WIDEN, (source, step, count, target, target_step, lanes, element))

#ifdef X86
WITH_AVX2 static void widen_halves WIDEN {
    (void)element;
    if (lanes == 8) {
        for (int64_t i = 0; i < count; i++, source += step, target += target_step)
            _mm256_storeu_ps(target, eight_floats(source));
        return;
    }
    if (lanes == 4) {
        for (int64_t i = 0; i < count; i++, source += step, target += target_step)
            _mm_storeu_ps(target, four_floats(source));
        return;
    }
    for (int64_t i = 0; i < count; i++, source += step, target += target_step) {
        int64_t l = 0;
        for (; l + 8 <= lanes; l += 8)
            _mm256_storeu_ps(target + l, eight_floats(source + 2 * l));
        for (; l + 4 <= lanes; l += 4)
            _mm_storeu_ps(target + l, four_floats(source + 2 * l));
        for (; l < lanes; l++) {
            uint16_t half;
            memcpy(&half, source + 2 * l, 2);
            target[l] = _cvtsh_ss(half);
        }
    }
}
#endif

#ifdef AVX512
/* Two surfaces' atoms of eight float16 to sixteen floats side by side. */
WITH_AVX512_VNNI static void widen_two(const uint8_t *low, const uint8_t *high, int64_t step,
                                       int64_t count, float *target, int64_t target_step) {
    for (int64_t i = 0; i < count; i++, low += step, high += step, target += target_step)
        _mm512_storeu_ps(target, _mm512_cvtph_ps(_mm256_loadu2_m128i((const __m128i *)high,
                                                                     (const __m128i *)low)));
}

/* Four surfaces' atoms of four floats. */
WITH_AVX512_VNNI static void widen_four(const uint8_t *const *surfaces, int64_t step, int64_t count,
                                        float *target) {
    const uint8_t *a = surfaces[0], *b = surfaces[1], *c = surfaces[2], *d = surfaces[3];
    for (int64_t i = 0; i < count * step; i += step, target += GROUP) {
        const __m256 low = _mm256_loadu2_m128((const float *)(b + i), (const float *)(a + i));
        const __m256 high = _mm256_loadu2_m128((const float *)(d + i), (const float *)(c + i));
        _mm512_storeu_ps(target, _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1));
    }
}
#endif

static void widen WIDEN {
    if (element == FLOAT32 && lanes == 4) {
        for (int64_t i = 0; i < count; i++)
            memcpy(target + i * target_step, source + i * step, 4 * sizeof *target);
        return;
    }
#ifdef X86
    if (has_avx2(running_form) && element == FLOAT16) {
        widen_halves(source, step, count, target, target_step, lanes, element);
        return;
    }
#endif
    widen_any(source, step, count, target, target_step, lanes, element);
}

INLINE void store_halves_inline(const float *v, int64_t count, uint16_t *q) {
    for (int64_t i = 0; i < count; i++)
        q[i] = stored_half(v[i]);
}

#ifdef X86
/* A multiple of eight. */
WITH_AVX2 static void store_halves_avx2(const float *v, int64_t count, uint16_t *q) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000));
    for (int64_t i = 0; i < count; i += 8) {
        __m256 x = _mm256_loadu_ps(v + i);
        x = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        store_eight_halves(q + i, x);
    }
}
#endif

static void store_halves(const float *v, int64_t count, uint16_t *q) {
#ifdef X86
    if (has_avx2(running_form)) {
        store_halves_avx2(v, count, q);
        return;
    }
#endif
    store_halves_inline(v, count, q);
}

/* -------------------------------------------------------------------------------------------- memory */

#ifdef AVX512
/* All channels of a group, from `offset` in its surfaces on; whether there is a quick way. */
static int load_whole(const struct features *f, int64_t g, int64_t offset, int64_t step,
                      int64_t count, float *v) {
    const int64_t atoms = GROUP / f->lanes, s = g * atoms;
    const uint8_t *surfaces[4];
    if (!(f->element == FLOAT16 && atoms == 2) && !(f->element == FLOAT32 && atoms == 4))
        return 0;
    for (int64_t i = 0; i < atoms; i++)
        surfaces[i] = surface_of(f, s + i) + offset;
    if (atoms == 2)
        widen_two(surfaces[0], surfaces[1], step, count, v, GROUP);
    else
        widen_four(surfaces, step, count, v);
    return 1;
}
#endif

/* A group's values of `count` neighbours in a row; channels that aren't valid are zero. */
static void load_row(const struct features *f, int64_t g, int64_t y, int64_t x, int64_t step,
                     int64_t count, float *v) {
    const int64_t first = g * GROUP, last = least(f->valid, first + GROUP);
#ifdef AVX512
    if (has_avx512(running_form) && last == first + GROUP &&
        load_whole(f, g, y * f->line + x * f->pixel, step * f->pixel, count, v))
        return;
#endif
    if (last < first + GROUP)
        memset(v, 0, count * GROUP * sizeof *v);
    for (int64_t c = first; c < last; c += f->lanes) {
        /* Lanes past the last channel do no harm, and whole atoms are faster. */
        const int64_t lanes = f->valid < f->channels ? least(f->lanes, last - c) : f->lanes;
        widen(surface_of(f, c / f->lanes) + y * f->line + x * f->pixel, step * f->pixel, count,
              v + (c - first), GROUP, lanes, f->element);
    }
}

/* The same for `count` pixels from number `first` on. */
static void load(const struct features *f, int64_t g, int64_t first, int64_t count, float *v) {
    int64_t y = first / f->width, x = first % f->width;
    while (count) {
        const int64_t n = least(count, f->width - x);
        load_row(f, g, y, x, 1, n, v);
        v += n * GROUP, count -= n, x = 0, y++;
    }
}

/* A group's numbers, or what changes nothing. */
static void load_operand(const struct operand *o, int64_t g, float nothing, float *numbers) {
    if (o->values) {
        memcpy(numbers, (const float *)o->values + g * GROUP, GROUP * sizeof *numbers);
        return;
    }
    for (int l = 0; l < GROUP; l++) {
        const int64_t c = g * GROUP + l;
        if (o->stored)
            numbers[l] = c < o->channels ? element_at(o->stored + c / o->group * o->stride,
                                                      c % o->group, o->element)
                                         : 0;
        else
            numbers[l] = nothing;
    }
}

/* Fill the lanes of the last atom that no channel has, of `count` pixels. */
static void pad(const struct writer *w, int64_t g, int64_t count, uint8_t *q, int64_t size) {
    const int64_t channels = w->channels - g * GROUP;
    const int64_t end = least((channels + w->lanes - 1) / w->lanes * w->lanes, GROUP);
    const uint64_t padding = size == 4 ? 0 : (uint64_t)w->padding;
    uint8_t lanes[GROUP * 4];
    if (channels >= end)
        return;
    for (int64_t b = 0; b < (end - channels) * size; b++)
        lanes[b] = (uint8_t)(padding >> 8 * (b % size));
    for (int64_t i = 0; i < count; i++)
        memcpy(q + (i * GROUP + channels) * size, lanes, (end - channels) * size);
}

/* Store `count` pixels' atoms of one group; `size` is that of an element. */
static void store(const struct writer *w, int64_t g, int64_t first, int64_t count, uint8_t *q,
                  int64_t size) {
    const int64_t surfaces = (w->channels + w->lanes - 1) / w->lanes, atom = w->lanes * size;
    pad(w, g, count, q, size);
    for (int64_t l = 0; l < GROUP; l += w->lanes) {
        const int64_t s = (g * GROUP + l) / w->lanes;
        if (s >= surfaces)
            break;
        uint8_t *surface = w->base + s / w->group * w->group_stride + s % w->group * w->surface;
        int64_t y = first / w->width, x = first % w->width;
        const uint8_t *from = q + l * size;
        for (int64_t left = count; left;) {
            const int64_t n = least(left, w->width - x);
            uint8_t *to = surface + y * w->line + x * w->pixel;
            if (atom == 16)
                for (int64_t i = 0; i < n; i++)
                    memcpy(to + i * w->pixel, from + i * GROUP * size, 16);
            else if (atom == 8)
                for (int64_t i = 0; i < n; i++)
                    memcpy(to + i * w->pixel, from + i * GROUP * size, 8);
            else
                for (int64_t i = 0; i < n; i++)
                    memcpy(to + i * w->pixel, from + i * GROUP * size, atom);
            from += n * GROUP * size, left -= n, x = 0, y++;
        }
    }
}

/* -------------------------------------------------------------------------------------------- stages */

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

/* The pairs at two places, which are a word's low and high half, side by side. */
WITH_AVX2 INLINE __m128 two_pairs(const float *pairs, uint64_t places) {
    double one, other;
    memcpy(&one, pairs + 2 * (int64_t)(uint32_t)places, sizeof one);
    memcpy(&other, pairs + 2 * (int64_t)(places >> 32), sizeof other);
    return _mm_castpd_ps(_mm_set_pd(other, one));
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
    const __m256 is_large = _mm256_or_ps(_mm256_cmp_ps(far, _mm256_set1_ps(0x1p-13f), _CMP_GE_OQ),
                                         _mm256_cmp_ps(x, zero, _CMP_EQ_OQ));
    const __m256 is_near = _mm256_cmp_ps(far, _mm256_set1_ps((float)t->reach), _CMP_LT_OQ);
    if (_mm256_movemask_ps(_mm256_and_ps(is_large, is_near)) != 0xFF) {
        const __m128 low = look_up_four(t, _mm256_castps256_ps128(x));
        return _mm256_set_m128(look_up_four(t, _mm256_extractf128_ps(x, 1)), low);
    }
    const __m256i last = _mm256_set1_epi32(TABLE_ENTRIES - 1);
    __m256i whole = _mm256_min_epi32(_mm256_cvttps_epi32(steps), last);
    whole = _mm256_max_epi32(whole, _mm256_sub_epi32(_mm256_setzero_si256(), last));
    /* The entry of 0 is there twice. */
    uint64_t at[4];
    _mm256_storeu_si256((__m256i *)at,
                        _mm256_add_epi32(_mm256_add_epi32(whole, _mm256_castps_si256(sign)),
                                         _mm256_set1_epi32(TABLE_ENTRIES)));
    const __m256 even = _mm256_set_m128(two_pairs(t->pairs, at[2]), two_pairs(t->pairs, at[0]));
    const __m256 odd = _mm256_set_m128(two_pairs(t->pairs, at[3]), two_pairs(t->pairs, at[1]));
    return _mm256_fmadd_ps(_mm256_shuffle_ps(even, odd, 0xDD),
                           _mm256_sub_ps(steps, _mm256_cvtepi32_ps(whole)),
                           _mm256_shuffle_ps(even, odd, 0x88));
}

/* A multiple of eight. */
WITH_AVX2 static void look_up_avx2(const struct table *table, float *v, int64_t count) {
    /* Stored vectors might overwrite the caller's, which would have to be read again for each. */
    const struct table own = *table, *t = &own;
    if (t->pairs)
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

#include "float_stages.h"

/* What finishes one group's sums, prepared once for all of its pixels. */
struct finish {
    const struct dpu *dpu;
    const struct writer *writer;
    int64_t g;
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
    if (to->is_short)
        prepare(d, w, g, &to->quad);
#endif
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
        run_stages(d, f->g, first, n, v);
        if (d->after) {
            convert_floats(d, v, n * GROUP);
            run_stages(d->after, f->g, first, n, v);
        }
        store_results(d->after ? d->after : d, f->writer, f->g, first, n, v);
    }
}

/* ------------------------------------------------------------------------------------------ integers */

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

/* ------------------------------------------------------------------------------------ what is weighed */

/* The input's row or column under one of the spread ones; -1 in padding. */
INLINE int64_t under(int64_t spread, int64_t inserted, int64_t size) {
    if (spread < 0 || spread % (inserted + 1))
        return -1;
    spread /= inserted + 1;
    return spread < size ? spread : -1;
}

/* The outputs [from, to) whose input column `first + output * step` exists; without inserted columns. A
 * step of 0 repeats one column. */
INLINE void existing(int64_t first, int64_t step, int64_t size, int64_t *from, int64_t *to) {
    if (step == 0) {
        *to = first >= 0 && first < size ? *to : *from;
        return;
    }
    const int64_t low = first >= 0 ? 0 : (-first + step - 1) / step;
    const int64_t high = first >= size ? 0 : (size - first + step - 1) / step;
    *from = *from > low ? *from : low;
    *to = *to < high ? *to : high;
}

static void fill(float *target, int64_t step, int64_t count, int64_t lanes, float value) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t l = 0; l < lanes; l++)
            target[i * step + l] = value;
}

/* All channels of `count` pixels `step` apart, to rows. Whole atoms are written: what follows the last
 * channel is overwritten by the next place, or lies between two rows. */
static void gather_pixels(const struct features *f, int64_t y, int64_t x, int64_t step,
                          int64_t count, float *rows, int64_t depth) {
    const int64_t valid = least(f->valid, f->channels), offset = y * f->line + x * f->pixel;
    int64_t c = 0;
#ifdef AVX512
    if (has_avx512(running_form) && f->element == FLOAT16 && f->lanes == 8)
        for (; c + 8 < valid; c += 16)
            widen_two(surface_of(f, c / 8) + offset, surface_of(f, c / 8 + 1) + offset,
                      step * f->pixel, count, rows + c, depth);
#endif
    for (; c < valid; c += f->lanes)
        widen(surface_of(f, c / f->lanes) + offset, step * f->pixel, count, rows + c, depth,
              f->lanes, f->element);
    if (valid < f->channels)
        fill(rows + valid, depth, count, f->channels - valid, 0);
    for (int64_t i = 0; f->conversion && i < count; i++)
        for (int64_t c = 0; c < f->channels; c++)
            rows[i * depth + c] = f->conversion[c % 4 * 256 + (int64_t)rows[i * depth + c] + 128];
}

/* What outputs [from, to) of a row see at one place of the kernel. */
static void gather_place(const struct features *f, const struct window *k, int64_t oy, int64_t ky,
                         int64_t kx, int64_t from, int64_t to, float *rows, int64_t depth) {
    const int64_t y =
        under(oy * k->stride_y + ky * k->dilation_y - k->top, k->inserted_y, f->height);
    const int64_t left = kx * k->dilation_x - k->left;
    int64_t begin = from, end = to;
    if (y < 0) {
        fill(rows, depth, to - from, f->channels, k->padding);
        return;
    }
    if (k->inserted_x) {
        for (int64_t ox = from; ox < to; ox++, rows += depth) {
            const int64_t x = under(ox * k->stride_x + left, k->inserted_x, f->width);
            if (x < 0)
                fill(rows, depth, 1, f->channels, k->padding);
            else
                gather_pixels(f, y, x, 1, 1, rows, depth);
        }
        return;
    }
    existing(left, k->stride_x, f->width, &begin, &end);
    if (begin >= end) {
        fill(rows, depth, to - from, f->channels, k->padding);
        return;
    }
    fill(rows, depth, begin - from, f->channels, k->padding);
    gather_pixels(f, y, begin * k->stride_x + left, k->stride_x, end - begin,
                  rows + (begin - from) * depth, depth);
    fill(rows + (end - from) * depth, depth, to - end, f->channels, k->padding);
}

/* A row of the kernel at once, where neighbours lie side by side; whether all of it exists. */
static int gather_line(const struct features *f, const struct window *k, int64_t oy, int64_t ky,
                       int64_t from, int64_t to, float *rows, int64_t depth) {
    const int64_t y = oy * k->stride_y + ky * k->dilation_y - k->top;
    const int64_t left = from * k->stride_x - k->left;
    const int64_t right = (to - 1) * k->stride_x - k->left + k->width;
    if (y < 0 || y >= f->height || left < 0 || right > f->width)
        return 0;
    widen(f->base + y * f->line + left * f->pixel, k->stride_x * f->pixel, to - from, rows, depth,
          k->width * f->channels, f->element);
    return 1;
}

/* One row of floats a pixel: for each place of the kernel, all channels of the input there. */
static void gather(const struct features *f, const struct window *k, int64_t first, int64_t count,
                   float *rows, int64_t depth) {
    const int is_packed = f->pixel == f->channels * size_of(f->element) &&
                          f->channels <= f->lanes && f->valid >= f->channels &&
                          k->dilation_x == 1 && !(k->inserted_x || k->inserted_y || f->conversion);
    int64_t oy = first / k->out_width, ox = first % k->out_width;
    while (count) {
        const int64_t n = least(count, k->out_width - ox);
        float *target = rows;
        for (int64_t ky = 0; ky < k->height; ky++, target += k->width * f->channels) {
            int64_t from = ox, to = ox;
            if (is_packed) {
                /* The outputs of which no place lies in the padding. */
                to = ox + n;
                existing(-k->left, k->stride_x, f->width, &from, &to);
                existing(k->width - 1 - k->left, k->stride_x, f->width, &from, &to);
                if (from >= to ||
                    !gather_line(f, k, oy, ky, from, to, target + (from - ox) * depth, depth))
                    from = to = ox;
            }
            for (int64_t kx = 0; kx < k->width; kx++) {
                float *place = target + kx * f->channels;
                if (from > ox)
                    gather_place(f, k, oy, ky, kx, ox, from, place, depth);
                if (to < ox + n)
                    gather_place(f, k, oy, ky, kx, to, ox + n, place + (to - ox) * depth, depth);
            }
        }
        rows += n * depth, count -= n, ox = 0, oy++;
    }
}

/* ------------------------------------------------------------------------------------- dense products */

#ifdef X86
/* Eight kernels' eight float16 to eight channels of eight floats. */
WITH_AVX2 INLINE void transpose_halves(const uint8_t *const *kernels, int64_t offset,
                                       float *panel) {
    __m128i a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm_loadu_si128((const __m128i *)(kernels[i] + offset));
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            a[4 * h + 2 * i] = _mm_unpacklo_epi32(b[4 * h + i], b[4 * h + 2 + i]);
            a[4 * h + 2 * i + 1] = _mm_unpackhi_epi32(b[4 * h + i], b[4 * h + 2 + i]);
        }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(panel + 2 * i * GROUP,
                         _mm256_cvtph_ps(_mm_unpacklo_epi64(a[i], a[4 + i])));
        _mm256_storeu_ps(panel + (2 * i + 1) * GROUP,
                         _mm256_cvtph_ps(_mm_unpackhi_epi64(a[i], a[4 + i])));
    }
}

#ifdef AVX512
/* Sixteen kernels' eight float16 to eight channels of sixteen floats. */
WITH_AVX512_VNNI INLINE void transpose_sixteen(const uint8_t *const *kernels, int64_t offset,
                                               float *panel) {
    const __m512i pairs = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i a[4], b[4];
    /* A register's four parts are of every fourth kernel. */
    for (int i = 0; i < 4; i++) {
        const __m128i *at[4];
        for (int j = 0; j < 4; j++)
            at[j] = (const __m128i *)(kernels[4 * j + i] + offset);
        a[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu2_m128i(at[1], at[0])),
                                  _mm256_loadu2_m128i(at[3], at[2]), 1);
    }
    for (int i = 0; i < 2; i++) {
        b[2 * i] = _mm512_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        a[2 * i] = _mm512_unpacklo_epi32(b[i], b[2 + i]);
        a[2 * i + 1] = _mm512_unpackhi_epi32(b[i], b[2 + i]);
    }
    for (int i = 0; i < 4; i++) {
        const __m512i two = _mm512_permutexvar_epi64(pairs, a[i]);
        _mm512_storeu_ps(panel + 2 * i * GROUP, _mm512_cvtph_ps(_mm512_castsi512_si256(two)));
        _mm512_storeu_ps(panel + (2 * i + 1) * GROUP,
                         _mm512_cvtph_ps(_mm512_extracti64x4_epi64(two, 1)));
    }
}

WITH_AVX512_VNNI static int64_t pack_wide(const uint8_t *const *kernels, int64_t count,
                                          float *panel) {
    int64_t c = 0;
    for (; c + 8 <= count; c += 8)
        transpose_sixteen(kernels, 2 * c, panel + c * GROUP);
    return c;
}
#endif

WITH_AVX2 static int64_t pack_halves(const uint8_t *const *kernels, int64_t count, float *panel) {
    int64_t c = 0;
    for (; c + 8 <= count; c += 8) {
        transpose_halves(kernels, 2 * c, panel + c * GROUP);
        transpose_halves(kernels + 8, 2 * c, panel + c * GROUP + 8);
    }
    return c;
}
#endif

/* As many channels of float16 as there are vectors for; how many that are. */
static int64_t pack_vectors(const uint8_t *const *kernels, int64_t count, float *panel) {
#ifdef AVX512
    if (has_avx512(running_form))
        return pack_wide(kernels, count, panel);
#endif
#ifdef X86
    if (has_avx2(running_form))
        return pack_halves(kernels, count, panel);
#endif
    (void)kernels, (void)count, (void)panel;
    return 0;
}

/* `count` neighbouring channels of GROUP kernels, to (count, GROUP) floats. */
static void pack_run(const uint8_t *const *kernels, int64_t count, int64_t element, float *panel) {
    for (int j = 0; j < GROUP; j++)
        __builtin_prefetch((const void *)((uintptr_t)kernels[j] + AHEAD));
    const int64_t done = element == FLOAT16 ? pack_vectors(kernels, count, panel) : 0;
    for (int64_t c = done; c < count; c++)
        for (int j = 0; j < GROUP; j++)
            panel[c * GROUP + j] = element_at(kernels[j], c, element);
}

/* Factors [from, to) of all that one kernel sees, for a group of kernels: (to - from, GROUP). */
static void pack(const struct weights *w, const struct window *k, int64_t channels, int64_t g,
                 int64_t from, int64_t to, float *panel) {
    static const uint8_t zeros[RUN * 4];
    const int64_t places = k->height * k->width, size = size_of(w->element);
    const uint8_t *kernels[GROUP];
    while (from < to) {
        const int64_t place = from / channels, c = from % channels;
        const int64_t block = c / w->channel_group, lane = c % w->channel_group;
        const int64_t width = least(w->channel_group, w->channels - block * w->channel_group);
        int64_t count = least(least(to - from, channels - c), RUN);
        count = w->row ? count : least(count, width - lane);
        int64_t set = g * GROUP / w->kernel_group, row = g * GROUP % w->kernel_group;
        for (int64_t j = 0, n; j < GROUP; j += n, set++, row = 0) {
            const int64_t height = least(w->kernel_group, w->kernels - set * w->kernel_group);
            const int64_t before = set * w->kernel_group * w->channels * places +
                                   block * w->channel_group * places * height;
            const int64_t inside = (place * height + row) * width + lane;
            const int64_t line = set * w->kernel_group * k->height * w->row +
                                 (place / k->width * height + row) * w->row;
            const int64_t at = w->row ? line + place % k->width * w->channels + c : before + inside;
            const int64_t step = (w->row ? w->row : width) * size, left = w->kernels - g * GROUP;
            n = least(GROUP - j, w->kernel_group - row);
            for (int64_t i = 0; i < n; i++)
                kernels[j + i] = j + i < left ? w->base + at * size + i * step : zeros;
        }
        pack_run(kernels, count, w->element, panel);
        for (int64_t i = 0; w->offsets && i < count * GROUP; i++)
            panel[i] += w->offsets[g * GROUP + i % GROUP];
        from += count, panel += count * GROUP;
    }
}

/* Places that a sum takes its factors from: so many lines, `step` floats apart. */
struct lines {
    int64_t count, step;
};

/* Sums of as many pixels fit into registers of four floats. */
#ifdef __aarch64__
enum { SOME = 4 };
#else
enum { SOME = 2 };
#endif

/* Add `count` products to each of (rows, GROUP) sums. */
INLINE void multiply_some(const float *rows, int64_t depth, const float *panel, int64_t count,
                          float *sums, const int pixels, int64_t fused) {
    float total[SOME * GROUP];
    memcpy(total, sums, pixels * GROUP * sizeof *total);
    for (int64_t p = 0; p < count; p++, panel += GROUP)
        for (int r = 0; r < pixels; r++) {
            const float x = rows[r * depth + p];
#ifdef __FP_FAST_FMAF
            if (fused) {
                for (int l = 0; l < GROUP; l++)
                    total[r * GROUP + l] = __builtin_fmaf(x, panel[l], total[r * GROUP + l]);
                continue;
            }
#endif
            for (int l = 0; l < GROUP; l++) {
                const float product = x * panel[l];
                total[r * GROUP + l] += product;
            }
        }
    memcpy(sums, total, pixels * GROUP * sizeof *total);
    (void)fused;
}

static void multiply_plain(const float *rows, int64_t depth, const float *panel, int64_t count,
                           float *sums, int64_t pixels, int64_t fused) {
    for (; pixels >= SOME; pixels -= SOME, rows += SOME * depth, sums += SOME * GROUP)
        multiply_some(rows, depth, panel, count, sums, SOME, fused);
    for (; pixels > 0; pixels--, rows += depth, sums += GROUP)
        multiply_some(rows, depth, panel, count, sums, 1, fused);
}

#ifdef X86
WITH_AVX2 INLINE void multiply_rows(const float *rows, int64_t depth, const float *panel,
                                    int64_t count, float *sums, const int pixels, const int fused) {
    __m256 total[2 * ROWS];
    for (int i = 0; i < 2 * pixels; i++)
        total[i] = _mm256_loadu_ps(sums + 8 * i);
    for (int64_t p = 0; p < count; p++, panel += GROUP) {
        const __m256 low = _mm256_loadu_ps(panel), high = _mm256_loadu_ps(panel + 8);
#pragma GCC unroll 6
        for (int r = 0; r < pixels; r++) {
            const __m256 x = _mm256_broadcast_ss(rows + r * depth + p);
            if (fused) {
                total[2 * r] = _mm256_fmadd_ps(x, low, total[2 * r]);
                total[2 * r + 1] = _mm256_fmadd_ps(x, high, total[2 * r + 1]);
            } else {
                total[2 * r] = _mm256_add_ps(total[2 * r], _mm256_mul_ps(x, low));
                total[2 * r + 1] = _mm256_add_ps(total[2 * r + 1], _mm256_mul_ps(x, high));
            }
        }
    }
    for (int i = 0; i < 2 * pixels; i++)
        _mm256_storeu_ps(sums + 8 * i, total[i]);
}

#define SOME_ROWS(n)                                                                               \
    case n:                                                                                        \
        if (fused)                                                                                 \
            multiply_rows(rows, depth, panel, count, sums, n, 1);                                  \
        else                                                                                       \
            multiply_rows(rows, depth, panel, count, sums, n, 0);                                  \
        break;

WITH_AVX2 static void multiply_avx2(const float *rows, int64_t depth, const float *panel,
                                    int64_t count, float *sums, int64_t pixels, int64_t fused) {
    for (; pixels > 0; pixels -= ROWS, rows += ROWS * depth, sums += ROWS * GROUP)
        switch (least(pixels, ROWS)) {
            SOME_ROWS(1)
            SOME_ROWS(2)
            SOME_ROWS(3)
            SOME_ROWS(4)
            SOME_ROWS(5)
            SOME_ROWS(6)
        }
}
#endif

#ifdef AVX512
enum { TALL = 14 };

/* The same with all of a pixel's sums in one register, for some lines; `begins` sets the sums. */
WITH_AVX512_VNNI INLINE void multiply_tall(const float *rows, int64_t depth, struct lines lines,
                                           const float *panel, int64_t count, float *sums,
                                           const int pixels, int begins) {
    __m512 total[TALL];
    for (int r = 0; r < pixels; r++)
        total[r] = begins ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + GROUP * r);
    for (int64_t l = 0; l < lines.count; l++, rows += lines.step)
        for (int64_t p = 0; p < count; p++, panel += GROUP) {
            const __m512 factors = _mm512_loadu_ps(panel);
#pragma GCC unroll 14
            for (int r = 0; r < pixels; r++)
                total[r] = _mm512_fmadd_ps(_mm512_set1_ps(rows[r * depth + p]), factors, total[r]);
        }
    for (int r = 0; r < pixels; r++)
        _mm512_storeu_ps(sums + GROUP * r, total[r]);
}

#define TALL_ROWS(n)                                                                               \
    case n: multiply_tall(rows, depth, lines, panel, count, sums, n, begins); break;

/* In parts of about the same height, of which none is so low that each sum waits for itself. */
WITH_AVX512_VNNI static void multiply_avx512(const float *rows, int64_t depth, struct lines lines,
                                             const float *panel, int64_t count, float *sums,
                                             int64_t pixels, int begins) {
    for (int64_t parts = (pixels + TALL - 1) / TALL, n; parts > 0; parts--) {
        n = pixels / parts;
        switch (n) {
            TALL_ROWS(1)
            TALL_ROWS(2)
            TALL_ROWS(3)
            TALL_ROWS(4)
            TALL_ROWS(5)
            TALL_ROWS(6)
            TALL_ROWS(7)
            TALL_ROWS(8)
            TALL_ROWS(9)
            TALL_ROWS(10)
            TALL_ROWS(11)
            TALL_ROWS(12)
            TALL_ROWS(13)
            TALL_ROWS(14)
        }
        pixels -= n, rows += n * depth, sums += n * GROUP;
    }
}
#endif

/* Sums of `count` products more of each line for each of some rows; `begins` sets them. */
static void multiply(const float *rows, int64_t depth, struct lines lines, const float *panel,
                     int64_t count, float *sums, int64_t pixels, int64_t fused, int begins) {
#ifdef AVX512
    if (has_avx512(running_form) && fused) {
        multiply_avx512(rows, depth, lines, panel, count, sums, pixels, begins);
        return;
    }
#endif
    if (begins)
        memset(sums, 0, pixels * GROUP * sizeof *sums);
    for (int64_t l = 0; l < lines.count; l++, rows += lines.step, panel += count * GROUP) {
#ifdef X86
        if (has_avx2(running_form)) {
            multiply_avx2(rows, depth, panel, count, sums, pixels, fused);
            continue;
        }
#endif
        multiply_plain(rows, depth, panel, count, sums, pixels, fused);
    }
}

/* One group's sums of `pixels` rows, continued from chunk to chunk; or, for integers, added up as
 * doubles from chunk to chunk. */
static void multiply_group(const struct weights *weights, const struct window *k, int64_t channels,
                           int64_t g, const float *rows, int64_t depth, int64_t pixels,
                           int64_t fused, float *panel, float *sums, double *totals) {
    const int64_t seen = k->height * k->width * channels;
    const struct lines one = {1, 0};
    for (int64_t p = 0; p < seen; p += CHUNK) {
        const int64_t n = least(seen - p, CHUNK);
        pack(weights, k, channels, g, p, p + n, panel);
        multiply(rows + p, depth, one, panel, n, sums, pixels, fused, totals || !p);
        for (int64_t i = 0; totals && i < pixels * GROUP; i++)
            totals[i] = p ? totals[i] + sums[i] : sums[i];
    }
}

/* Integer sums without their last bits. */
static void truncate_sums(double *sums, int64_t count, double truncate, int64_t up) {
    for (int64_t i = 0; truncate != 1 && i < count; i++)
        sums[i] = up ? __builtin_floor(sums[i] * truncate + 0.5) : nearest(sums[i] * truncate);
}

INLINE void count_endless_inline(const float *v, int64_t count, int64_t *endless) {
    for (int64_t i = 0; i < count; i++)
        *endless += (bits_of_float(v[i]) & 0x7F800000) == 0x7F800000;
}

IN_EACH_FORM(count_endless, (const float *v, int64_t count, int64_t *endless), (v, count, endless))

/* Some places of what kernels see, and their factors. */
struct section {
    int64_t first, count;
};

/* Places of a panel without the first and last ones whose factors are all zero. Sums begin with a positive
 * zero, which no product with zero changes, unless a value is no finite number; `are_finite` remembers
 * whether these rows' are, and is negative before somebody has looked. */
static struct section without_zeros(const struct dense *a, const float *rows, int64_t pixels,
                                    const float *panel, int64_t seen, int *are_finite) {
    static const float zeros[GROUP];
    const struct section all = {0, seen};
    int64_t from = 0, to = seen, endless = 0;
    /* A negative zero is none of these, which does no harm. */
    while (to > from && !memcmp(panel + (to - 1) * GROUP, zeros, sizeof zeros))
        to--;
    while (from < to && !memcmp(panel + from * GROUP, zeros, sizeof zeros))
        from++;
    if (to - from > seen / 2) /* Looking at the values takes time too. */
        return all;
    for (int64_t i = 0; *are_finite < 0 && i < pixels; i++)
        count_endless(rows + i * a->depth, seen, &endless);
    if (*are_finite < 0)
        *are_finite = !endless;
    return *are_finite ? (struct section){from, to - from} : all;
}

/* Groups `from` to `to` of some pixels. `scratch` takes the totals of integers, a panel and the sums. */
static void multiply_groups(const struct dense *a, int64_t from, int64_t to, int64_t first,
                            int64_t pixels, const float *rows, void *scratch) {
    double *totals = a->dpu.is_integer ? scratch : NULL;
    const struct window *k = &a->window;
    const int64_t seen = k->height * k->width * a->features.channels;
    float *panel = totals ? (float *)(totals + a->together * GROUP) : scratch;
    float *sums = panel + CHUNK * GROUP;
    const struct lines one = {1, 0};
    int are_finite = -1;
    struct finish how;
    for (int64_t g = from; g < to; g++) {
        struct section used = {0, 0};
        begin_finish(&a->dpu, &a->writer, g, &how);
        if (seen <= CHUNK && !totals) {
            pack(&a->weights, k, a->features.channels, g, 0, seen, panel);
            used = without_zeros(a, rows, pixels, panel, seen, &are_finite);
        }
        for (int64_t done = 0; done < pixels; done += a->together) {
            const int64_t n = least(pixels - done, a->together);
            const float *own = rows + done * a->depth;
            if (seen <= CHUNK && !totals)
                multiply(own + used.first, a->depth, one, panel + used.first * GROUP, used.count,
                         sums, n, a->fused, 1);
            else
                multiply_group(&a->weights, k, a->features.channels, g, own, a->depth, n, a->fused,
                               panel, sums, totals);
            if (totals) {
                truncate_sums(totals, n * GROUP, a->truncate, a->truncate_up);
                finish_integers(&a->dpu, &a->writer, g, first + done, n, totals);
            } else
                finish(&how, first + done, n, sums);
        }
    }
}

/* Rows [first, end) of the padded input, all channels of a pixel side by side. */
static void spread_rows(const struct dense *a, int64_t first, int64_t end, float *rows) {
    const struct features *f = &a->features;
    const struct window *k = &a->window;
    const int64_t channels = f->channels, left = least(k->left, a->columns);
    const int64_t n = least(f->width, a->columns - left), right = left + n;
    const int is_packed = f->pixel == channels * size_of(f->element) && f->valid >= channels;
    for (; first < end; first++, rows += a->depth) {
        const int64_t y = first - k->top;
        if (y < 0 || y >= f->height) {
            fill(rows, channels, a->columns, channels, k->padding);
            continue;
        }
        fill(rows, channels, left, channels, k->padding);
        if (is_packed)
            widen(f->base + y * f->line, 0, 1, rows + left * channels, 0, n * channels, f->element);
        else
            gather_pixels(f, y, 0, 1, n, rows + left * channels, channels);
        fill(rows + right * channels, channels, a->columns - right, channels, k->padding);
    }
}

/* Whole output rows from number `first` on, from the input as it lies there. */
static void multiply_lines(const struct dense *a, int64_t first, int64_t count, void *scratch) {
    const struct window *k = &a->window;
    const int64_t channels = a->features.channels,
                  groups = (a->writer.channels + GROUP - 1) / GROUP;
    const int64_t reach = (k->height - 1) * k->dilation_y + 1, width = k->out_width;
    const struct lines lines = {k->height, k->dilation_y * a->depth};
    float *panel = scratch, *sums = panel + CHUNK * GROUP, *rows = sums + width * GROUP;
    spread_rows(a, first * k->stride_y, (first + count - 1) * k->stride_y + reach, rows);
    struct finish how;
    for (int64_t g = 0; g < groups; g++) {
        begin_finish(&a->dpu, &a->writer, g, &how);
        pack(&a->weights, k, channels, g, 0, k->height * k->width * channels, panel);
        for (int64_t i = 0; i < count; i++) {
            multiply(rows + i * k->stride_y * a->depth, k->stride_x * channels, lines, panel,
                     k->width * channels, sums, width, a->fused, 1);
            finish(&how, (first + i) * width, width, sums);
        }
    }
}

EXPORT void anynpu_npu_general_lines(const void *arguments, int64_t first, int64_t end,
                                     void *scratch) {
    const struct dense *a = arguments;
    for (; first < end; first += a->tile)
        multiply_lines(a, first, least(end - first, a->tile), scratch);
}

EXPORT void anynpu_npu_general_gather(const void *arguments, int64_t first, int64_t end,
                                      void *scratch) {
    const struct dense *a = arguments;
    gather(&a->features, &a->window, first, end - first, a->rows + first * a->depth, a->depth);
    (void)scratch;
}

EXPORT void anynpu_npu_general_dense(const void *arguments, int64_t first, int64_t end,
                                     void *scratch) {
    const struct dense *a = arguments;
    if (a->rows) {
        multiply_groups(a, first, end, 0, a->window.out_height * a->window.out_width, a->rows,
                        scratch);
        return;
    }
    const int64_t groups = (a->writer.channels + GROUP - 1) / GROUP;
    float *rows = (float *)scratch + (CHUNK + a->together * (a->dpu.is_integer ? 3 : 1)) * GROUP;
    for (; first < end; first += a->tile) {
        const int64_t pixels = least(end - first, a->tile);
        gather(&a->features, &a->window, first, pixels, rows, a->depth);
        multiply_groups(a, 0, groups, first, pixels, rows, scratch);
    }
}

/* ------------------------------------------------------------------------------- channel by channel */

/* A ring of the input's rows with padding round them: row r of the spread, padded input lies at
 * r % reach. */
struct ring {
    float *rows;
    int64_t reach;
    int64_t columns;
    int64_t next;
};

/* Rows from `ring->next` to `end`, of one group. */
static void fill_ring(struct ring *ring, const struct features *f, const struct window *k,
                      int64_t g, int64_t end) {
    for (; ring->next < end; ring->next++) {
        float *row = ring->rows + ring->next % ring->reach * ring->columns * GROUP;
        const int64_t y = under(ring->next - k->top, k->inserted_y, f->height);
        if (y < 0 || k->inserted_x || k->left >= ring->columns) {
            fill(row, GROUP, ring->columns, GROUP, k->padding);
            for (int64_t c = 0; y >= 0 && c < ring->columns; c++) {
                const int64_t x = under(c - k->left, k->inserted_x, f->width);
                if (x >= 0)
                    load_row(f, g, y, x, 1, 1, row + c * GROUP);
            }
            continue;
        }
        const int64_t n = least(f->width, ring->columns - k->left), right = k->left + n;
        fill(row, GROUP, k->left, GROUP, k->padding);
        load_row(f, g, y, 0, 1, n, row + k->left * GROUP);
        fill(row + right * GROUP, GROUP, ring->columns - right, GROUP, k->padding);
    }
}

INLINE void combine(float *total, const float *x, const float *factor, const int method) {
    for (int l = 0; l < GROUP; l++) {
        const float product = method == PRODUCTS ? x[l] * factor[l] : x[l];
        if (method == GREATEST)
            total[l] = total[l] < x[l] || x[l] != x[l] ? x[l] : total[l];
        else if (method == LEAST)
            total[l] = total[l] > x[l] || x[l] != x[l] ? x[l] : total[l];
        else
            total[l] += product;
    }
}

/* (count, GROUP) results for neighbours from `column` of the ring on, for output row `oy`. */
INLINE void see_any(const struct ring *ring, const struct window *k, const float *factors,
                    int64_t oy, int64_t column, int64_t count, float *totals, const int method) {
    const float start = method == GREATEST ? -INFINITY : method == LEAST ? INFINITY : 0;
    for (int64_t i = 0; i < count * GROUP; i++)
        totals[i] = method == SUMS ? -0.0f : start; /* -0 + x is x */
    for (int64_t ky = 0; ky < k->height; ky++) {
        const int64_t r = oy * k->stride_y + ky * k->dilation_y;
        const float *row = ring->rows + (r % ring->reach * ring->columns + column) * GROUP;
        for (int64_t kx = 0; kx < k->width; kx++, factors += method == PRODUCTS ? GROUP : 0)
            for (int64_t i = 0; i < count; i++)
                combine(totals + i * GROUP, row + (i * k->stride_x + kx * k->dilation_x) * GROUP,
                        factors, method);
    }
}

INLINE void see_inline(const struct ring *ring, const struct window *k, const float *factors,
                       int64_t oy, int64_t column, int64_t count, float *totals, int64_t method) {
    switch (method) {
    case PRODUCTS: see_any(ring, k, factors, oy, column, count, totals, PRODUCTS); break;
    case SUMS: see_any(ring, k, factors, oy, column, count, totals, SUMS); break;
    case GREATEST: see_any(ring, k, factors, oy, column, count, totals, GREATEST); break;
    default: see_any(ring, k, factors, oy, column, count, totals, LEAST);
    }
}

IN_EACH_FORM(see,
             (const struct ring *ring, const struct window *k, const float *factors, int64_t oy,
              int64_t column, int64_t count, float *totals, int64_t method),
             (ring, k, factors, oy, column, count, totals, method))

#ifdef X86
/* Sums of exact products of some pixels, in registers. */
WITH_AVX2 INLINE void see_some(const struct ring *ring, const struct window *k,
                               const float *factors, int64_t oy, int64_t column, float *totals,
                               const int pixels) {
    __m256 total[2 * ROWS];
    for (int i = 0; i < 2 * pixels; i++)
        total[i] = _mm256_setzero_ps();
    for (int64_t ky = 0; ky < k->height; ky++) {
        const int64_t r = oy * k->stride_y + ky * k->dilation_y;
        const float *x = ring->rows + (r % ring->reach * ring->columns + column) * GROUP;
        for (int64_t kx = 0; kx < k->width; kx++, factors += GROUP, x += k->dilation_x * GROUP) {
            const __m256 low = _mm256_loadu_ps(factors), high = _mm256_loadu_ps(factors + 8);
#pragma GCC unroll 6
            for (int i = 0; i < pixels; i++) {
                const float *at = x + i * k->stride_x * GROUP;
                total[2 * i] = _mm256_fmadd_ps(_mm256_loadu_ps(at), low, total[2 * i]);
                total[2 * i + 1] = _mm256_fmadd_ps(_mm256_loadu_ps(at + 8), high, total[2 * i + 1]);
            }
        }
    }
    for (int i = 0; i < 2 * pixels; i++)
        _mm256_storeu_ps(totals + 8 * i, total[i]);
}

WITH_AVX2 static void see_products(const struct ring *ring, const struct window *k,
                                   const float *factors, int64_t oy, int64_t column, int64_t count,
                                   float *totals) {
    int64_t i = 0;
    for (; i + ROWS <= count; i += ROWS)
        see_some(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, ROWS);
    for (; i < count; i++)
        see_some(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, 1);
}
#endif

#ifdef AVX512
WITH_AVX512_VNNI INLINE void see_tall(const struct ring *ring, const struct window *k,
                                      const float *factors, int64_t oy, int64_t column,
                                      float *totals, const int pixels) {
    __m512 total[TALL];
    for (int i = 0; i < pixels; i++)
        total[i] = _mm512_setzero_ps();
    for (int64_t ky = 0; ky < k->height; ky++) {
        const int64_t r = oy * k->stride_y + ky * k->dilation_y;
        const float *x = ring->rows + (r % ring->reach * ring->columns + column) * GROUP;
        for (int64_t kx = 0; kx < k->width; kx++, factors += GROUP, x += k->dilation_x * GROUP) {
            const __m512 factor = _mm512_loadu_ps(factors);
#pragma GCC unroll 14
            for (int i = 0; i < pixels; i++)
                total[i] =
                    _mm512_fmadd_ps(_mm512_loadu_ps(x + i * k->stride_x * GROUP), factor, total[i]);
        }
    }
    for (int i = 0; i < pixels; i++)
        _mm512_storeu_ps(totals + GROUP * i, total[i]);
}

WITH_AVX512_VNNI static void see_wide(const struct ring *ring, const struct window *k,
                                      const float *factors, int64_t oy, int64_t column,
                                      int64_t count, float *totals) {
    int64_t i = 0;
    for (; i + 12 <= count; i += 12)
        see_tall(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, 12);
    for (; i + 4 <= count; i += 4)
        see_tall(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, 4);
    for (; i < count; i++)
        see_tall(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, 1);
}
#endif

/* Sums of exact products in vectors, if there are such. */
static int see_fused(const struct ring *ring, const struct window *k, const float *factors,
                     int64_t oy, int64_t column, int64_t count, float *totals) {
#ifdef AVX512
    if (has_avx512(running_form)) {
        see_wide(ring, k, factors, oy, column, count, totals);
        return 1;
    }
#endif
#ifdef X86
    if (has_avx2(running_form)) {
        see_products(ring, k, factors, oy, column, count, totals);
        return 1;
    }
#endif
    (void)ring, (void)k, (void)factors, (void)oy, (void)column, (void)count, (void)totals;
    return 0;
}

/* One group's factors, (places, GROUP): runs of channels of one block. */
static void pack_channels(const struct weights *w, int64_t places, int64_t g, float *factors) {
    const int64_t size = size_of(w->element);
    memset(factors, 0, places * GROUP * sizeof *factors);
    for (int64_t c = g * GROUP, end = least(c + GROUP, w->channels), n; c < end; c += n) {
        const int64_t block = c / w->channel_group, lane = c % w->channel_group;
        const int64_t width = least(w->channel_group, w->channels - block * w->channel_group);
        const int64_t before = block * w->channel_group * places;
        n = least(end - c, width - lane);
        widen(w->base + (before + lane) * size, width * size, places, factors + c % GROUP, GROUP, n,
              w->element);
    }
    for (int64_t i = 0; w->offsets && i < places * GROUP; i++)
        factors[i] += w->offsets[g * GROUP + i % GROUP];
}

/* One group's rows `first` to `end`. */
static void see_rows(const struct depthwise *a, int64_t g, int64_t first, int64_t end,
                     float *scratch) {
    const struct window *k = &a->window;
    const int64_t places = a->method == PRODUCTS ? k->height * k->width : 0;
    struct ring ring = {scratch + places * GROUP, (k->height - 1) * k->dilation_y + 1,
                        (k->out_width - 1) * k->stride_x + (k->width - 1) * k->dilation_x + 1,
                        first * k->stride_y};
    ALIGNED float totals[BLOCK * GROUP];
    double whole[BLOCK * GROUP];
    struct finish how;
    begin_finish(&a->dpu, &a->writer, g, &how);
    if (a->method == PRODUCTS)
        pack_channels(&a->weights, places, g, scratch);
    for (int64_t oy = first; oy < end; oy++) {
        if (ring.next < oy * k->stride_y)
            ring.next = oy * k->stride_y;
        fill_ring(&ring, &a->features, k, g, oy * k->stride_y + ring.reach);
        for (int64_t ox = 0; ox < k->out_width; ox += BLOCK) {
            const int64_t n = least(k->out_width - ox, BLOCK);
            if (!(a->fused && see_fused(&ring, k, scratch, oy, ox * k->stride_x, n, totals)))
                see(&ring, k, scratch, oy, ox * k->stride_x, n, totals, a->method);
            if (!a->dpu.is_integer) {
                finish(&how, oy * k->out_width + ox, n, totals);
                continue;
            }
            for (int64_t i = 0; i < n * GROUP; i++)
                whole[i] = totals[i];
            truncate_sums(whole, n * GROUP, a->truncate, a->truncate_up);
            finish_integers(&a->dpu, &a->writer, g, oy * k->out_width + ox, n, whole);
        }
    }
}

EXPORT void anynpu_npu_general_depthwise(const void *arguments, int64_t first, int64_t end,
                                         void *scratch) {
    const struct depthwise *a = arguments;
    const int64_t groups = (a->writer.channels + GROUP - 1) / GROUP;
    for (int64_t g = a->by_rows ? 0 : first; g < (a->by_rows ? groups : end); g++)
        if (a->by_rows)
            see_rows(a, g, first, end, scratch);
        else
            see_rows(a, g, 0, a->window.out_height, scratch);
}

/* ------------------------------------------------------------------------------- features as they are */

static void process_group(const struct process *a, int64_t g, int64_t first, int64_t end) {
    ALIGNED float v[BLOCK * GROUP];
    double whole[BLOCK * GROUP];
    struct finish how;
    begin_finish(&a->dpu, &a->writer, g, &how);
    for (; first < end; first += BLOCK) {
        const int64_t n = least(end - first, BLOCK);
        load(&a->features, g, first, n, v);
        if (!a->dpu.is_integer) {
            finish(&how, first, n, v);
            continue;
        }
        for (int64_t i = 0; i < n * GROUP; i++)
            whole[i] = v[i];
        if (a->features.element == INT32)
            load_words(&a->features, g, first, n, whole);
        finish_integers(&a->dpu, &a->writer, g, first, n, whole);
    }
}

EXPORT void anynpu_npu_general_process(const void *arguments, int64_t first, int64_t end,
                                       void *scratch) {
    const struct process *a = arguments;
    const int64_t groups = (a->writer.channels + GROUP - 1) / GROUP;
    for (int64_t g = a->by_groups ? first : 0; g < (a->by_groups ? end : groups); g++)
        if (a->by_groups)
            process_group(a, g, 0, a->features.height * a->features.width);
        else
            process_group(a, g, first, end);
    (void)scratch;
}

EXPORT void anynpu_npu_general_reduce(const void *arguments, int64_t first, int64_t end,
                                      void *scratch) {
    const struct reduction *a = arguments;
    const int is_greatest = a->sign > 0;
    ALIGNED float v[BLOCK * GROUP], best[BLOCK];
    for (; first < end; first += BLOCK) {
        const int64_t n = least(end - first, BLOCK);
        for (int64_t i = 0; i < n; i++)
            best[i] = is_greatest ? -INFINITY : INFINITY;
        for (int64_t g = 0; g * GROUP < a->features.channels; g++) {
            const int64_t lanes = least(GROUP, a->features.channels - g * GROUP);
            load(&a->features, g, first, n, v);
            run_stages(&a->dpu, g, first, n, v);
            for (int64_t i = 0; i < n; i++)
                for (int64_t l = 0; l < lanes; l++) {
                    const float x = v[i * GROUP + l];
                    best[i] = (is_greatest ? best[i] < x : best[i] > x) || x != x ? x : best[i];
                }
        }
        for (int64_t i = 0; i < n; i++) {
            const uint16_t half = stored_half(best[i]);
            memcpy(a->target + (first + i) * 2, &half, sizeof half);
        }
    }
    for (int64_t i = a->pixels; end == a->pixels && i < a->filled; i++)
        memcpy(a->target + i * 2, a->target + (end - 1) * 2, 2);
    (void)scratch;
}
