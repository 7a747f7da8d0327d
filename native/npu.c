/* The NPU's integer arithmetic on channel blocks: what NumPy would do in many passes, in one.
 *
 * Plain C11, with a second form of the hottest loops for AVX2. Sums are int32; stages compute in
 * double, which is exact while values stay below 2^52. Callers prove all of that when a model is loaded,
 * so the results are those of the integers, bit for bit, whatever the order and whether multiplications
 * and additions are fused. Ties go to the even number, as in the processor's own rounding, but where an
 * output or an operand says otherwise.
 *
 * Every kernel has the form that steps.c calls: arguments, a part of the units of work, and a space of
 * the thread's own.
 *
 * Memory is only touched where the arguments say: whole atoms of features, and of them every one that a
 * view of these strides and counts has, which callers have found to lie inside. Whole vectors are only
 * read from a picture's rows where they end inside `readable`; arrays that have an entry a channel are
 * filled up to whole atoms, or to COLUMNS kernels.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "dots.h"
#include "npu.h"
#include "npu_arithmetic.h"

_Static_assert((int)DOT_COLUMNS == (int)COLUMNS, "weights lie so for dots.h");

/* ------------------------------------------------------------------------------------- arithmetic */

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

#ifdef X86
/* To int8, saturated; it works on up to 31 values more. */
WITH_AVX2 INLINE void pack_avx2(const int32_t *rounded, int64_t count, int8_t *q) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int64_t i = 0; i < count; i += 32) {
        __m256i v[4];
        for (int j = 0; j < 4; j++)
            v[j] = _mm256_loadu_si256((const __m256i *)(rounded + i) + j);
        const __m256i packed =
            _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
        _mm256_storeu_si256((__m256i *)(q + i), _mm256_permutevar8x32_epi32(packed, order));
    }
}

/* Results for a table's places, as far as there are any. */
INLINE void take_results(const struct dpu *d, const int32_t *places, int64_t count, int8_t *q) {
    for (int64_t i = 0; i < count; i++) {
        const uint64_t place = (uint64_t)(places[i] - d->short_way.first);
        if (place < (uint64_t)d->short_way.count) {
            q[i] = d->short_way.results[place];
            continue;
        }
        double v = places[i];
        look_up(&d->table, &v, 1);
        q[i] = to_output(d, clamp(v, d->lowest, d->highest));
    }
}

/* A double above it, and below twice as much, has no digits after the point: 1.5 times 2^52, to which
 * numbers of either sign may be added. */
#define NEAREST 0x1.8p52

/* A double whose high half is SHIFTED_HALF and whose low half is a number without a sign is 2^52 and that
 * number; one with a sign that was turned makes it 2^31 less. */
#define SHIFTED (0x1p52 + 0x1p31)
enum { SHIFTED_HALF = 0x43300000 };

/* Stages of four channels, with the words of AVX2, */
#define FORM(name) name##_avx2
#define WITH_FORM WITH_AVX2
#define CHANNELS 4
#define DOUBLES __m256d
#define INTEGERS __m256i
#define V(operation) _mm256_##operation##_pd

WITH_AVX2 INLINE __m256d nearest_avx2(__m256d v) {
    return _mm256_round_pd(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

WITH_AVX2 INLINE __m256d towards_zero_avx2(__m256d v) {
    return _mm256_round_pd(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

WITH_AVX2 INLINE __m256d where_negative_avx2(__m256d v, __m256d other, __m256d sign) {
    return _mm256_blendv_pd(v, other, sign);
}

WITH_AVX2 INLINE __m256d load_sums_avx2(const int32_t *sums) {
    return _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i *)sums));
}

WITH_AVX2 INLINE __m256d load_atom_avx2(const int8_t *atom) {
    int32_t four;
    memcpy(&four, atom, sizeof four);
    return _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
}

WITH_AVX2 INLINE void store_rounded_avx2(int32_t *rounded, __m256d v) {
    _mm_storeu_si128((__m128i *)rounded, _mm256_cvtpd_epi32(v));
}

WITH_AVX2 INLINE __m256i load_integers_avx2(const int32_t *sums) {
    return _mm256_loadu_si256((const __m256i *)sums);
}

WITH_AVX2 INLINE __m256i load_bytes_avx2(const int8_t *atom) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)atom));
}

WITH_AVX2 INLINE __m256i integers_of_avx2(int32_t number) {
    return _mm256_set1_epi32(number);
}

WITH_AVX2 INLINE __m256i bytes_of_avx2(int8_t number) {
    return _mm256_set1_epi8(number);
}

WITH_AVX2 INLINE __m256i add_integers_avx2(__m256i a, __m256i b) {
    return _mm256_add_epi32(a, b);
}

WITH_AVX2 INLINE __m256i flip_avx2(__m256i a) {
    return _mm256_xor_si256(a, _mm256_set1_epi32(INT32_MIN));
}

WITH_AVX2 INLINE __m256i read_integers_avx2(const double *channels, const int lanes) {
    (void)lanes;
    return _mm256_set_m128i(_mm256_cvtpd_epi32(_mm256_loadu_pd(channels + 4)),
                            _mm256_cvtpd_epi32(_mm256_loadu_pd(channels)));
}

WITH_AVX2 INLINE void read_halves_avx2(const double *channels, const int lanes, __m256d *halves) {
    const __m256d first = _mm256_loadu_pd(channels), second = _mm256_loadu_pd(channels + 4);
    (void)lanes;
    halves[0] = _mm256_permute2f128_pd(first, second, 0x20);
    halves[1] = _mm256_permute2f128_pd(first, second, 0x31);
}

WITH_AVX2 INLINE void halve_avx2(__m256i sums, __m256d *halves) {
    const __m256i high = _mm256_set1_epi32(SHIFTED_HALF);
    halves[0] = _mm256_castsi256_pd(_mm256_unpacklo_epi32(sums, high));
    halves[1] = _mm256_castsi256_pd(_mm256_unpackhi_epi32(sums, high));
}

WITH_AVX2 INLINE __m256i low_words_avx2(const __m256d *halves) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castpd_ps(halves[0]), _mm256_castpd_ps(halves[1]), 0x88));
}

WITH_AVX2 INLINE void store_bytes_avx2(int8_t *q, const __m256i *four, __m256i low, __m256i high) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(four[0], four[1]),
                                             _mm256_packs_epi32(four[2], four[3]));
    const __m256i limited = _mm256_min_epi8(_mm256_max_epi8(bytes, low), high);
    _mm256_storeu_si256((__m256i *)q, _mm256_permutevar8x32_epi32(limited, order));
}

#include "npu_stages.h"
#undef FORM
#undef WITH_FORM
#undef CHANNELS
#undef DOUBLES
#undef INTEGERS
#undef V

#ifdef DOTS
/* and of eight, with those of AVX-512. */
#define FORM(name) name##_avx512
#define WITH_FORM WITH_AVX512_VNNI
#define CHANNELS 8
#define DOUBLES __m512d
#define INTEGERS __m512i
#define V(operation) _mm512_##operation##_pd

WITH_AVX512_VNNI INLINE __m512d nearest_avx512(__m512d v) {
    return _mm512_roundscale_pd(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

WITH_AVX512_VNNI INLINE __m512d towards_zero_avx512(__m512d v) {
    return _mm512_roundscale_pd(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

WITH_AVX512_VNNI INLINE __m512d where_negative_avx512(__m512d v, __m512d other, __m512d sign) {
    return _mm512_mask_blend_pd(_mm512_movepi64_mask(_mm512_castpd_si512(sign)), v, other);
}

WITH_AVX512_VNNI INLINE __m512d load_sums_avx512(const int32_t *sums) {
    return _mm512_cvtepi32_pd(_mm256_loadu_si256((const __m256i *)sums));
}

WITH_AVX512_VNNI INLINE __m512d load_atom_avx512(const int8_t *atom) {
    return _mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)atom)));
}

WITH_AVX512_VNNI INLINE void store_rounded_avx512(int32_t *rounded, __m512d v) {
    _mm256_storeu_si256((__m256i *)rounded, _mm512_cvtpd_epi32(v));
}

WITH_AVX512_VNNI INLINE __m512i load_integers_avx512(const int32_t *sums) {
    return _mm512_loadu_si512(sums);
}

WITH_AVX512_VNNI INLINE __m512i load_bytes_avx512(const int8_t *atom) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)atom));
}

WITH_AVX512_VNNI INLINE __m512i integers_of_avx512(int32_t number) {
    return _mm512_set1_epi32(number);
}

WITH_AVX512_VNNI INLINE __m512i bytes_of_avx512(int8_t number) {
    return _mm512_set1_epi8(number);
}

WITH_AVX512_VNNI INLINE __m512i add_integers_avx512(__m512i a, __m512i b) {
    return _mm512_add_epi32(a, b);
}

WITH_AVX512_VNNI INLINE __m512i flip_avx512(__m512i a) {
    return _mm512_xor_si512(a, _mm512_set1_epi32(INT32_MIN));
}

/* Atoms of eight lanes are in a vector twice. */
WITH_AVX512_VNNI INLINE __m512i read_integers_avx512(const double *channels, const int lanes) {
    const __m256i first = _mm512_cvtpd_epi32(_mm512_loadu_pd(channels));
    const __m256i second = lanes == 16 ? _mm512_cvtpd_epi32(_mm512_loadu_pd(channels + 8)) : first;
    return join_avx512(first, second);
}

WITH_AVX512_VNNI INLINE void read_halves_avx512(const double *channels, const int lanes,
                                                __m512d *halves) {
    const __m512d first = _mm512_loadu_pd(channels);
    const __m512d second = lanes == 16 ? _mm512_loadu_pd(channels + 8) : first;
    const __m512i even = _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15);
    halves[0] = _mm512_permutex2var_pd(first, even, second);
    halves[1] = _mm512_permutex2var_pd(first, odd, second);
}

WITH_AVX512_VNNI INLINE void halve_avx512(__m512i sums, __m512d *halves) {
    const __m512i high = _mm512_set1_epi32(SHIFTED_HALF);
    halves[0] = _mm512_castsi512_pd(_mm512_unpacklo_epi32(sums, high));
    halves[1] = _mm512_castsi512_pd(_mm512_unpackhi_epi32(sums, high));
}

WITH_AVX512_VNNI INLINE __m512i low_words_avx512(const __m512d *halves) {
    return _mm512_castps_si512(
        _mm512_shuffle_ps(_mm512_castpd_ps(halves[0]), _mm512_castpd_ps(halves[1]), 0x88));
}

WITH_AVX512_VNNI INLINE void store_bytes_avx512(int8_t *q, const __m512i *four, __m512i low,
                                                __m512i high) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(four[0], four[1]),
                                             _mm512_packs_epi32(four[2], four[3]));
    const __m512i limited = _mm512_min_epi8(_mm512_max_epi8(bytes, low), high);
    _mm512_storeu_si512(q, _mm512_permutexvar_epi32(order, limited));
}

#include "npu_stages.h"
#undef FORM
#undef WITH_FORM
#undef CHANNELS
#undef DOUBLES
#undef INTEGERS
#undef V
#endif
#endif

/* Not inlined: one copy for each kind of processor, which all kernels call. */
#define FINISH(name, keyword, call)                                                                \
    keyword static void name(const struct dpu *d, int64_t s, int64_t first, int64_t count,         \
                             const int32_t *sums, int8_t *q, int lanes) {                          \
        if (lanes == 16)                                                                           \
            call(d, s, first, count, sums, q, 16);                                                 \
        else                                                                                       \
            call(d, s, first, count, sums, q, 8);                                                  \
    }

FINISH(finish_plain, , run_stages)
#ifdef X86
FINISH(finish_table_avx2, WITH_AVX2, run_stages)
FINISH(finish_avx2, WITH_AVX2, finish_atoms_avx2)
#ifdef DOTS
FINISH(finish_avx512, WITH_AVX512_VNNI, finish_atoms_avx512)
#endif
#endif

/* Sums of one surface, (count, lanes), through the stages and into memory. */
INLINE void finish(const struct dpu *d, const struct writer *w, int64_t s, int64_t first,
                   int64_t count, const int32_t *sums, const int lanes, const int form) {
    int8_t held[BLOCK * LANES + 32], *q = held;
#ifdef X86
    if (has_avx2(form) && d->short_way.is_whole && w->channels >= (s + 1) * lanes) {
        int8_t *there =
            atoms_in_a_row(surface_of_writer(w, s), w->line, w->pixel, w->width, first, lanes);
        q = there ? there : held;
    }
    if (has_avx2(form) && d->has_table && !d->short_way.results)
        finish_table_avx2(d, s, first, count, sums, q, lanes);
#ifdef DOTS
    else if (running_form == AVX512_VNNI)
        finish_avx512(d, s, first, count, sums, q, lanes);
#endif
    else if (has_avx2(form))
        finish_avx2(d, s, first, count, sums, q, lanes);
    else
#endif
        finish_plain(d, s, first, count, sums, q, lanes);
    if (q == held)
        store(w, s, first, count, q, lanes);
    (void)form;
}

/* ------------------------------------------------------------------------------------- convolutions */

/* What gathered rows hold: int16, or the bytes as they are, which some forms multiply; bytes of each. */
enum { BYTES = 1, WIDE = 2 };

/* Whether rows may be bytes: where the form that runs multiplies them, and padding is one. */
INLINE int size_in_rows(const struct int8_dense *a) {
    const float padding = a->window.padding;
    return has_dots(running_form) && padding >= -128 && padding <= 127 ? BYTES : WIDE;
}

INLINE void put(const int8_t *source, int8_t *row, const int64_t count, const int size) {
    int16_t *wide = (int16_t *)row;
    if (count == 16 || count == 8) {
        /* Held apart: bytes might lie anywhere, also in the target. */
        int8_t held[LANES];
        memcpy(held, source, count);
        if (size == BYTES)
            memcpy(row, held, count);
        else
            for (int64_t i = 0; i < count; i++)
                wide[i] = held[i];
    } else if (size == BYTES)
        memcpy(row, source, count);
    else
        for (int64_t i = 0; i < count; i++)
            wide[i] = source[i];
}

/* The same number in the places `first` to `end`. */
INLINE void put_number(int8_t *row, int64_t first, int64_t end, int value, const int size) {
    for (int64_t c = first; c < end; c++)
        if (size == BYTES)
            row[c] = (int8_t)value;
        else
            ((int16_t *)row)[c] = (int16_t)value;
}

/* What one output pixel sees: for each place of the kernel, all channels of the input there. With
 * `is_inside` all places are. */
INLINE void gather_pixel(const struct features *f, const struct window *k, int64_t channels,
                         int64_t y, int64_t x, int8_t *row, const int64_t lanes,
                         const int is_inside, const int size) {
    const int64_t step = f->surfaces * lanes;
    for (int64_t ky = 0; ky < k->height; ky++, y += k->dilation_y) {
        const int8_t *line = (const int8_t *)f->base + y * f->line + x * f->pixel;
        int64_t left = x;
        for (int64_t kx = 0; kx < k->width; kx++, row += step * size, left += k->dilation_x) {
            if (!is_inside && (y < 0 || y >= f->height || left < 0 || left >= f->width)) {
                put_number(row, 0, channels, (int)k->padding, size);
                put_number(row, channels, step, 0, size);
                continue;
            }
            const int8_t *atom = line + kx * k->dilation_x * f->pixel;
            for (int64_t s = 0; s < f->surfaces; s++)
                put(atom + s * f->surface, row + s * lanes * size, lanes, size);
            put_number(row, f->valid, step, 0, size);
        }
    }
}

/* The same for a picture, or any features of one channel block, whose neighbours in a row lie side by
 * side; whole vectors are read and written. */
INLINE void gather_packed(const struct features *f, const struct window *k, int64_t y, int64_t x,
                          int8_t *row, const int64_t lanes, const int size) {
    const int64_t count = k->width * lanes;
    const int8_t *pixels = (const int8_t *)f->base + y * f->line + x * lanes;
    for (int64_t ky = 0; ky < k->height;
         ky++, row += count * size, pixels += k->dilation_y * f->line)
        for (int64_t c = 0; c < count; c += LANES)
            put(pixels + c, row + c * size, LANES, size);
}

/* The pixels of the rows `y` to `below` from which on `size` bytes may be read, in any of the rows. */
INLINE int64_t readable_pixels(const struct features *f, int64_t y, int64_t below, int64_t size) {
    const int64_t row = f->line < 0 ? y * f->line : below * f->line,
                  room = f->readable - row - size;
    return room < 0 ? 0 : room / f->pixel + 1;
}

/* The first pixel of a row whose places all lie inside, and the one past the last. With `is_packed`
 * whole vectors can be read there. */
INLINE void find_inside(const struct int8_dense *a, int64_t y, int64_t lanes, int64_t *begin,
                        int64_t *end) {
    const struct features *f = &a->features;
    const struct window *k = &a->window;
    const int64_t below = y + (k->height - 1) * k->dilation_y;
    int64_t last = f->width - 1 - (k->width - 1) * k->dilation_x;
    if (a->is_packed) {
        const int64_t vectors = (k->width * lanes + LANES - 1) / LANES * LANES;
        const int64_t pixels = readable_pixels(f, y, below, vectors);
        last = pixels - 1 < last ? pixels - 1 : last;
    }
    const int64_t reach = last + k->left;
    *begin = (k->left + k->stride_x - 1) / k->stride_x;
    *end = y < 0 || below >= f->height || reach < 0 ? 0 : reach / k->stride_x + 1;
}

/* The sum of `count` bytes, a multiple of 8. */
INLINE int32_t sum_bytes(const int8_t *bytes, int64_t count) {
    int32_t sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum += bytes[c];
    return sum;
}

#ifdef X86
/* Bytes that lost their sign are summed eight at a time. */
WITH_AVX2 INLINE __m128i sums_of_eights(__m128i bytes) {
    return _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
}

WITH_AVX2 INLINE int32_t sum_of_eights(__m128i sums, int64_t count) {
    return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums))) -
           (int32_t)(128 * count);
}

WITH_AVX2 static int32_t sum_bytes_avx2(const int8_t *bytes, int64_t count) {
    __m128i sums = _mm_setzero_si128();
    int64_t c = 0;
    for (; c + 16 <= count; c += 16)
        sums = _mm_add_epi64(sums, sums_of_eights(_mm_loadu_si128((const __m128i *)(bytes + c))));
    if (c < count) {
        const __m128i eight = _mm_loadl_epi64((const __m128i *)(bytes + c));
        sums = _mm_add_epi64(sums, _mm_move_epi64(sums_of_eights(eight)));
    }
    return sum_of_eights(sums, count);
}

/* Ones in the first `count` lanes of an atom. */
WITH_AVX2 INLINE __m128i first_lanes(int64_t count) {
    const __m128i lane = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int64_t kept = count < 0 ? 0 : count < LANES ? count : LANES;
    return _mm_cmpgt_epi8(_mm_set1_epi8((int8_t)kept), lane);
}

/* Where rows of a part of the output's row go, and which of them see something at a place of the kernel. */
struct part {
    int8_t *rows;
    int64_t count, begin, end;
};

/* What neighbours see at one place of the kernel, in one surface. */
WITH_AVX2 INLINE void gather_surface_avx2(struct part p, int64_t stride, const int8_t *atom,
                                          int64_t step, __m128i kept, __m128i padding) {
    int64_t i = 0;
    for (; i < p.begin; i++, p.rows += stride)
        _mm_storeu_si128((__m128i *)p.rows, padding);
    for (; i < p.end; i++, p.rows += stride, atom += step)
        _mm_storeu_si128((__m128i *)p.rows,
                         _mm_and_si128(_mm_loadu_si128((const __m128i *)atom), kept));
    for (; i < p.count; i++, p.rows += stride)
        _mm_storeu_si128((__m128i *)p.rows, padding);
}

/* Rounded up; most strides are 1. */
INLINE int64_t steps_to(int64_t distance, int64_t stride) {
    return stride == 1 ? distance : (distance + stride - 1) / stride;
}

/* What `count` neighbours from column `ox` on of an output row see. */
WITH_AVX2 INLINE void gather_part_avx2(const struct int8_dense *a, int64_t oy, int64_t ox,
                                       int64_t count, int8_t *rows) {
    const struct features f = a->features;
    const struct window k = a->window;
    const int64_t stride = a->stride, channels = a->channels;
    const __m128i padding = _mm_set1_epi8((int8_t)k.padding), all = _mm_set1_epi8(-1);
    int64_t y = oy * k.stride_y - k.top;
    for (int64_t ky = 0; ky < k.height; ky++, y += k.dilation_y) {
        const int8_t *line = (const int8_t *)f.base + y * f.line;
        int64_t x = ox * k.stride_x - k.left;
        for (int64_t kx = 0; kx < k.width; kx++, x += k.dilation_x) {
            const int is_inside = y >= 0 && y < f.height && x < f.width;
            const int64_t end = is_inside ? least(steps_to(f.width - x, k.stride_x), count) : 0;
            const int64_t begin = x < 0 ? least(steps_to(-x, k.stride_x), end) : 0;
            const int8_t *atom = line + (x + begin * k.stride_x) * f.pixel;
            for (int64_t s = 0; s < f.surfaces; s++, atom += f.surface, rows += LANES) {
                const struct part p = {rows, count, begin, end};
                const int64_t after = (s + 1) * LANES;
                __m128i kept = all, seen = padding;
                if (after > f.valid)
                    kept = first_lanes(f.valid - s * LANES);
                if (after > channels)
                    seen = _mm_and_si128(padding, first_lanes(channels - s * LANES));
                gather_surface_avx2(p, stride, atom, k.stride_x * f.pixel, kept, seen);
            }
        }
    }
}

/* Rows of so few surfaces are written one after another, each with its sum at once, where what isn't read of
 * atoms is in the last surface. */
enum { MOST_AT_ONCE = 8 };

/* Where a row's next atom goes, and the sums of those before. */
struct row {
    __m128i *row, sums;
};

WITH_AVX2 INLINE void put_atom(struct row *r, __m128i atom) {
    _mm_storeu_si128(r->row++, atom);
    r->sums = _mm_add_epi64(r->sums, sums_of_eights(atom));
}

/* What lies outside at `places` of the kernel. */
WITH_AVX2 INLINE void put_padding(struct row *r, int64_t places, const int surfaces,
                                  const __m128i *padding) {
    for (int64_t p = 0; p < places; p++)
        for (int s = 0; s < surfaces; s++)
            put_atom(r, padding[s == surfaces - 1]);
}

/* One pixel's row; `kept` and `padding` hold what is left of atoms, and of those of the last surface. */
WITH_AVX2 INLINE __m128i gather_row_avx2(const struct features *f, const struct window *k,
                                         int64_t y, int64_t x, int8_t *target, const int surfaces,
                                         const __m128i *kept, const __m128i *padding) {
    struct row r = {(__m128i *)target, _mm_setzero_si128()};
    const int64_t right = steps_to(f->width - x, k->dilation_x);
    const int64_t end = x >= f->width ? 0 : least(right, k->width);
    const int64_t begin = x < 0 ? least(steps_to(-x, k->dilation_x), end) : 0;
    for (int64_t ky = 0; ky < k->height; ky++, y += k->dilation_y) {
        if (y < 0 || y >= f->height) {
            put_padding(&r, k->width, surfaces, padding);
            continue;
        }
        const int8_t *atom =
            (const int8_t *)f->base + y * f->line + (x + begin * k->dilation_x) * f->pixel;
        put_padding(&r, begin, surfaces, padding);
        for (int64_t kx = begin; kx < end; kx++, atom += k->dilation_x * f->pixel)
            for (int s = 0; s < surfaces; s++) {
                const __m128i all = _mm_loadu_si128((const __m128i *)(atom + s * f->surface));
                put_atom(&r, _mm_and_si128(all, kept[s == surfaces - 1]));
            }
        put_padding(&r, k->width - end, surfaces, padding);
    }
    return r.sums;
}

WITH_AVX2 INLINE void gather_rows_avx2(const struct int8_dense *a, int64_t first, int64_t count,
                                       int8_t *rows, const int surfaces) {
    const struct features f = a->features;
    const struct window k = a->window;
    const int64_t depth = a->depth, stride = a->stride, last = (surfaces - 1) * LANES;
    const __m128i all = _mm_set1_epi8(-1), value = _mm_set1_epi8((int8_t)k.padding);
    const __m128i kept[2] = {all, first_lanes(f.valid - last)};
    const __m128i padding[2] = {value, _mm_and_si128(value, first_lanes(a->channels - last))};
    int64_t oy = first / k.out_width, ox = first % k.out_width;
    for (; count > 0; count--, rows += stride) {
        const __m128i sums =
            gather_row_avx2(&f, &k, oy * k.stride_y - k.top, ox * k.stride_x - k.left, rows,
                            surfaces, kept, padding);
        const int32_t sum = sum_of_eights(sums, depth);
        memcpy(rows + depth, &sum, sizeof sum);
        if (++ox == k.out_width)
            ox = 0, oy++;
    }
}

/* `gather` for bytes of whole atoms, which fill the depth. */
WITH_AVX2 static void gather_atoms_avx2(const struct int8_dense *a, int64_t first, int64_t count,
                                        int8_t *rows) {
    const int64_t width = a->window.out_width;
    const int64_t before_last = (a->features.surfaces - 1) * LANES;
    const int is_last_begun = least(a->features.valid, a->channels) > before_last;
    if (a->features.surfaces <= MOST_AT_ONCE && a->window.width > 1 && is_last_begun) {
        switch (a->features.surfaces) {
        case 1: gather_rows_avx2(a, first, count, rows, 1); return;
        case 2: gather_rows_avx2(a, first, count, rows, 2); return;
        case 4: gather_rows_avx2(a, first, count, rows, 4); return;
        default: gather_rows_avx2(a, first, count, rows, (int)a->features.surfaces); return;
        }
    }
    int64_t oy = first / width, ox = first % width;
    while (count > 0) {
        const int64_t n = least(width - ox, count);
        gather_part_avx2(a, oy, ox, n, rows);
        for (int64_t i = 0; i < n; i++, rows += a->stride) {
            const int32_t sum = sum_bytes_avx2(rows, a->depth);
            memcpy(rows + a->depth, &sum, sizeof sum);
        }
        count -= n;
        ox = 0, oy++;
    }
}
#endif

/* One row for each of `count` output pixels; zeros fill it up to `depth`, after which rows of bytes have
 * their sum. Rows of what is packed have room for LANES values more. */
INLINE void gather(const struct int8_dense *a, int64_t first, int64_t count, int8_t *rows,
                   const int64_t lanes, const int form, const int size) {
    /* Copies, which the bytes that are written can't change. */
    const struct features features = a->features, *f = &features;
    const struct window window = a->window, *k = &window;
    const int64_t stride = a->stride * size, depth = a->depth, channels = a->channels;
    const int64_t places = k->height * k->width * f->surfaces * lanes;
    int64_t oy = first / k->out_width, ox = first % k->out_width;
    while (count > 0) {
        const int64_t y = oy * k->stride_y - k->top;
        int64_t begin, end;
        find_inside(a, y, lanes, &begin, &end);
        for (; count > 0 && ox < k->out_width; count--, ox++, rows += stride) {
            const int64_t x = ox * k->stride_x - k->left;
            if (ox < begin || ox >= end)
                gather_pixel(f, k, channels, y, x, rows, lanes, 0, size);
            else if (a->is_packed)
                gather_packed(f, k, y, x, rows, lanes, size);
            else
                gather_pixel(f, k, channels, y, x, rows, lanes, 1, size);
            put_number(rows, places, depth, 0, size);
            if (size == BYTES) {
#ifdef X86
                const int32_t sum =
                    has_avx2(form) ? sum_bytes_avx2(rows, depth) : sum_bytes(rows, depth);
#else
                const int32_t sum = sum_bytes(rows, depth);
#endif
                memcpy(rows + depth, &sum, sizeof sum);
            }
        }
        ox = 0, oy++;
    }
    (void)form;
}

INLINE void gather_any(const struct int8_dense *a, int64_t first, int64_t count, int8_t *rows,
                       const int form, const int size) {
#ifdef X86
    if (has_avx2(form) && size == BYTES && a->features.lanes == LANES) {
        gather_atoms_avx2(a, first, count, rows);
        return;
    }
#endif
    if (a->features.lanes == 16)
        gather(a, first, count, rows, 16, form, size);
    else if (a->features.lanes == 8)
        gather(a, first, count, rows, 8, form, size);
    else
        gather(a, first, count, rows, a->features.lanes, form, size);
}

/* A slice of the weights of COLUMNS kernels, as pairs with their offsets: (pairs, 2, COLUMNS). */
INLINE void unpack(const int8_t *weights, const int16_t *offsets, int64_t quads, int16_t *panel) {
    for (int64_t q = 0; q < quads; q++, weights += 4 * COLUMNS, panel += 4 * COLUMNS) {
        int8_t held[4 * COLUMNS];
        memcpy(held, weights, sizeof held);
        for (int i = 0; i < 4; i++)
            for (int c = 0; c < COLUMNS; c++)
                panel[i * COLUMNS + c] = (int16_t)(held[4 * c + i] + offsets[c]);
    }
}

#ifdef X86
/* The same for wide vectors: (pairs, COLUMNS, 2). */
WITH_AVX2 static void unpack_avx2(const int8_t *weights, const int16_t *offsets, int64_t quads,
                                  int16_t *panel) {
    const __m128i apart = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m256i twice[COLUMNS / 4];
    for (int f = 0; f < COLUMNS / 4; f++) {
        const __m128i four = _mm_loadl_epi64((const __m128i *)(offsets + 4 * f));
        twice[f] = _mm256_broadcastsi128_si256(_mm_unpacklo_epi16(four, four));
    }
    for (int64_t q = 0; q < quads; q++, weights += 4 * COLUMNS, panel += 4 * COLUMNS)
        for (int f = 0; f < COLUMNS / 4; f++) {
            const __m128i four = _mm_loadu_si128((const __m128i *)weights + f);
            const __m256i wide = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(four, apart));
            const __m256i both = _mm256_add_epi16(wide, twice[f]);
            _mm_storeu_si128((__m128i *)panel + f, _mm256_castsi256_si128(both));
            _mm_storeu_si128((__m128i *)(panel + 2 * COLUMNS) + f,
                             _mm256_extracti128_si256(both, 1));
        }
}
#endif

/* COLUMNS numbers at a time, in whatever vectors the processor has: compilers left to themselves choose
 * the other axis. */
typedef int16_t halves __attribute__((vector_size(2 * COLUMNS), aligned(2)));
typedef int32_t words __attribute__((vector_size(4 * COLUMNS), aligned(4)));

/* Add `pairs` pairs of products for `count` rows; `begins` sets the sums. */
INLINE void multiply(const int16_t *rows, int64_t stride, const int16_t *panel, int64_t pairs,
                     struct target t, const int count, int begins) {
    words total[ROWS] = {{0}};
    for (int64_t p = 0; p < pairs; p++, panel += 2 * COLUMNS) {
        const words first = __builtin_convertvector(*(const halves *)panel, words);
        const words second = __builtin_convertvector(*(const halves *)(panel + COLUMNS), words);
        for (int r = 0; r < count; r++) {
            total[r] += first * rows[r * stride + 2 * p];
            total[r] += second * rows[r * stride + 2 * p + 1];
        }
    }
    for (int r = 0; r < count; r++)
        for (int c = 0; c < COLUMNS; c++) {
            int32_t *sum = t.sums + r * t.pixel + (c / 8) * t.second + c % 8;
            *sum = (begins ? 0 : *sum) + total[r][c];
        }
}

#ifdef X86
/* The same with all sums in registers. */
WITH_AVX2 INLINE void multiply_avx2(const int16_t *rows, int64_t stride, const int16_t *panel,
                                    int64_t pairs, struct target t, const int count, int begins) {
    __m256i total[ROWS * 2];
    for (int r = 0; r < count; r++)
        for (int v = 0; v < 2; v++)
            total[2 * r + v] =
                begins ? _mm256_setzero_si256()
                       : _mm256_loadu_si256((__m256i *)(t.sums + r * t.pixel + v * t.second));
    for (int64_t p = 0; p < pairs; p++, panel += 2 * COLUMNS) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)panel);
        const __m256i high = _mm256_loadu_si256((const __m256i *)(panel + COLUMNS));
#pragma GCC unroll 6
        for (int r = 0; r < count; r++) {
            int32_t pair;
            memcpy(&pair, rows + r * stride + 2 * p, sizeof pair);
            const __m256i both = _mm256_set1_epi32(pair);
            total[2 * r] = _mm256_add_epi32(total[2 * r], _mm256_madd_epi16(both, low));
            total[2 * r + 1] = _mm256_add_epi32(total[2 * r + 1], _mm256_madd_epi16(both, high));
            /* One row after another: all products first would need more registers than there are. */
            __asm__ volatile("" : "+x"(total[2 * r]), "+x"(total[2 * r + 1]));
        }
    }
    for (int r = 0; r < count; r++)
        for (int v = 0; v < 2; v++)
            _mm256_storeu_si256((__m256i *)(t.sums + r * t.pixel + v * t.second), total[2 * r + v]);
}
#endif

/* Sums without their last bits. */
INLINE void truncate_sums(int32_t *sums, int64_t count, int64_t bits, int64_t up) {
    const int32_t half = 1 << (bits - 1), mask = 2 * half - 1;
    for (int64_t i = 0; i < count; i++) {
        const int32_t below = sums[i] >> bits, rest = sums[i] & mask;
        sums[i] = below + (rest > half || (rest == half && (up || below & 1)));
    }
}

/* `most` rows have their sums in registers. */
#define MULTIPLY(name, keyword, most)                                                              \
    keyword static void name##_rows(const int16_t *rows, int64_t stride, const int16_t *panel,     \
                                    int64_t pairs, struct target t, int64_t count, int begins) {   \
        for (; count >= most; count -= most, rows += most * stride, t.sums += most * t.pixel)      \
            name(rows, stride, panel, pairs, t, most, begins);                                     \
        for (; count >= 2; count -= 2, rows += 2 * stride, t.sums += 2 * t.pixel)                  \
            name(rows, stride, panel, pairs, t, 2, begins);                                        \
        if (count)                                                                                 \
            name(rows, stride, panel, pairs, t, 1, begins);                                        \
    }

MULTIPLY(multiply, , 2)
#ifdef X86
MULTIPLY(multiply_avx2, WITH_AVX2, ROWS)
#endif

/* Sums of one group of COLUMNS kernels over gathered rows. A slice of the weights stays cached while it
 * meets all rows. */
INLINE void multiply_group(const struct int8_dense *a, int64_t group, const int8_t *rows,
                           int64_t count, int16_t *panel, struct target t, const int form,
                           const int size) {
    const int8_t *weights = a->weights + group * a->depth * COLUMNS;
    const int16_t *offsets = a->offsets + group * COLUMNS;
    for (int64_t first = 0; first < a->depth; first += SLICE) {
        const int64_t places = least(SLICE, a->depth - first);
#ifdef DOTS
        if (size == BYTES) {
            const struct byte_rows bytes = {rows,      a->stride,  a->depth,
                                            first / 4, places / 4, !first};
            multiply_bytes(bytes, weights, offsets, t, count);
            continue;
        }
#endif
        const int16_t *wide = (const int16_t *)rows + first;
#ifdef X86
        if (has_avx2(form)) {
            unpack_avx2(weights + first * COLUMNS, offsets, places / 4, panel);
            multiply_avx2_rows(wide, a->stride, panel, places / 2, t, count, !first);
            continue;
        }
#endif
        unpack(weights + first * COLUMNS, offsets, places / 4, panel);
        multiply_rows(wide, a->stride, panel, places / 2, t, count, !first);
    }
    (void)form, (void)size;
}

#include "npu_fused.h"

/* Those sums, and what follows. */
INLINE void convolve_group(const struct int8_dense *a, int64_t group, const int8_t *rows,
                           int64_t first, int64_t count, int16_t *panel, int32_t *sums,
                           const int lanes, const int form, const int size) {
    const struct target t = {sums, lanes, lanes == COLUMNS ? COLUMNS / 2 : count * lanes};
    multiply_group(a, group, rows, count, panel, t, form, size);
    if (a->truncate)
        truncate_sums(sums, count * COLUMNS, a->truncate, a->truncate_up);
    const int64_t surfaces = (a->writer.channels + lanes - 1) / lanes;
    for (int64_t half = 0; half < COLUMNS / lanes; half++) {
        const int64_t s = group * (COLUMNS / lanes) + half;
        for (int64_t done = 0; done < count && s < surfaces; done += BLOCK)
            finish(&a->dpu, &a->writer, s, first + done,
                   count - done < BLOCK ? count - done : BLOCK,
                   sums + (half * count + done) * lanes, lanes, form);
    }
}

/* The same for the groups `begin` to `end`. */
INLINE void convolve(const struct int8_dense *a, int64_t begin, int64_t end, const int8_t *rows,
                     int64_t first, int64_t count, int16_t *panel, int32_t *sums, const int lanes,
                     const int form, const int size) {
#if defined(X86) && defined(DOTS)
    if (size == BYTES && is_fused(a)) {
        convolve_fused(a, begin, end, rows, first, count);
        return;
    }
#endif
    for (int64_t group = begin; group < end; group++)
        convolve_group(a, group, rows, first, count, panel, sums, lanes, form, size);
}

/* Where the parts of a thread's space lie: weights, sums, rows. */
INLINE int32_t *sums_in(void *scratch) {
    return (int32_t *)((int16_t *)scratch + SLICE * COLUMNS);
}

/* Pixels `first` to `end`, a tile at a time. */
INLINE void convolve_pixels_of(const struct int8_dense *a, int64_t first, int64_t end,
                               void *scratch, const int lanes, const int form, const int size) {
    int32_t *sums = sums_in(scratch);
    int8_t *rows = (int8_t *)(sums + a->tile * COLUMNS);
    const int64_t groups = (a->writer.channels + COLUMNS - 1) / COLUMNS;
    for (; first < end; first += a->tile) {
        const int64_t count = least(end - first, a->tile);
        gather_any(a, first, count, rows, form, size);
        convolve(a, 0, groups, rows, first, count, scratch, sums, lanes, form, size);
    }
}

INLINE void convolve_pixels(const struct int8_dense *a, int64_t first, int64_t end, void *scratch,
                            const int lanes, const int form) {
    if (size_in_rows(a) == BYTES)
        convolve_pixels_of(a, first, end, scratch, lanes, form, BYTES);
    else
        convolve_pixels_of(a, first, end, scratch, lanes, form, WIDE);
}

/* All pixels, gathered before, for groups `first` to `end` of COLUMNS kernels. */
INLINE void convolve_kernels_of(const struct int8_dense *a, int64_t first, int64_t end,
                                void *scratch, const int lanes, const int form, const int size) {
    convolve(a, first, end, a->rows, 0, a->pixels, scratch, sums_in(scratch), lanes, form, size);
}

INLINE void convolve_kernels(const struct int8_dense *a, int64_t first, int64_t end, void *scratch,
                             const int lanes, const int form) {
    if (size_in_rows(a) == BYTES)
        convolve_kernels_of(a, first, end, scratch, lanes, form, BYTES);
    else
        convolve_kernels_of(a, first, end, scratch, lanes, form, WIDE);
}

/* Rows of the pixels `first` to `end`. */
INLINE void gather_rows(const struct int8_dense *a, int64_t first, int64_t end, const int form) {
    if (size_in_rows(a) == BYTES)
        gather_any(a, first, end - first, a->rows + first * a->stride, form, BYTES);
    else
        gather_any(a, first, end - first, a->rows + first * a->stride * WIDE, form, WIDE);
}

#include "npu_depthwise.h"

/* ---------------------------------------------------------------------------------- without weights */

INLINE void process(const struct process *a, int64_t first, int64_t end, const int lanes,
                    const int form) {
    const struct features *f = &a->features;
    const int64_t pixels = f->height * f->width;
    int32_t v[BLOCK * LANES];
    for (int64_t s = first; s < end; s++) {
        const uint8_t *surface = surface_of(f, s);
        int64_t y = 0, x = 0;
        for (int64_t done = 0; done < pixels; done += BLOCK) {
            const int64_t n = pixels - done < BLOCK ? pixels - done : BLOCK;
            for (int64_t i = 0; i < n; i++) {
                int8_t atom[LANES];
                memcpy(atom, surface + y * f->line + x * f->pixel, lanes);
                for (int l = 0; l < lanes; l++)
                    v[i * lanes + l] = atom[l];
                if (++x == f->width)
                    x = 0, y++;
            }
            finish(&a->dpu, &a->writer, s, done, n, v, lanes, form);
        }
    }
}

INLINE void remap(const struct remap *a, int64_t first, int64_t end, const int lanes) {
    const struct features *f = &a->features;
    int8_t q[BLOCK * LANES];
    for (int64_t s = first; s < end; s++)
        for (int64_t y = 0; y < f->height; y++)
            for (int64_t x = 0; x < f->width; x += BLOCK) {
                const int64_t n = f->width - x < BLOCK ? f->width - x : BLOCK;
                const int8_t *atom = (const int8_t *)surface_of(f, s) + y * f->line + x * f->pixel;
                for (int64_t i = 0; i < n; i++, atom += f->pixel)
                    for (int l = 0; l < lanes; l++)
                        q[i * lanes + l] = a->values[atom[l] + 128];
                store(&a->writer, s, y * f->width + x, n, q, lanes);
            }
}

/* Take the greater of both, or with `sign` -1 the lesser. */
INLINE void choose(int8_t *best, const uint8_t *atoms, int64_t sign, const int lanes) {
    int8_t atom[LANES];
    memcpy(atom, atoms, lanes);
    if (sign > 0)
        for (int l = 0; l < lanes; l++)
            best[l] = best[l] < atom[l] ? atom[l] : best[l];
    else
        for (int l = 0; l < lanes; l++)
            best[l] = best[l] > atom[l] ? atom[l] : best[l];
}

INLINE void choose_in_window(const struct pool *a, int64_t s, int64_t oy, int64_t ox, int8_t *best,
                             const int lanes) {
    const struct features *f = &a->features;
    const struct window *k = &a->window;
    const int64_t top = oy * k->stride_y - k->top, left = ox * k->stride_x - k->left;
    const int64_t below = top + k->height < f->height ? top + k->height : f->height;
    const int64_t right = left + k->width < f->width ? left + k->width : f->width;
    int8_t found[LANES];
    memset(found, a->sign > 0 ? -128 : 127, sizeof found);
    for (int64_t y = top < 0 ? 0 : top; y < below; y++)
        for (int64_t x = left < 0 ? 0 : left; x < right; x++)
            choose(found, f->base + s * f->surface + y * f->line + x * f->pixel, a->sign, lanes);
    memcpy(best, found, lanes);
}

INLINE void pool(const struct pool *a, int64_t first, int64_t end, const int lanes) {
    const struct window *k = &a->window;
    int8_t q[BLOCK * LANES];
    for (int64_t s = first; s < end; s++)
        for (int64_t oy = 0; oy < k->out_height; oy++)
            for (int64_t ox = 0; ox < k->out_width; ox += BLOCK) {
                const int64_t n = k->out_width - ox < BLOCK ? k->out_width - ox : BLOCK;
                for (int64_t i = 0; i < n; i++)
                    choose_in_window(a, s, oy, ox + i, q + i * lanes, lanes);
                store(&a->writer, s, oy * k->out_width + ox, n, q, lanes);
            }
}

INLINE void move(const struct move *a, int64_t first, int64_t end, const int atom) {
    for (int64_t s = first; s < end; s++)
        for (int64_t y = 0; y < a->rows; y++) {
            const uint8_t *source = a->source + s * a->source_strides[0] + y * a->source_strides[1];
            uint8_t *target = a->target + s * a->target_strides[0] + y * a->target_strides[1];
            for (int64_t x = 0; x < a->pixels; x++)
                memcpy(target + x * a->target_strides[2], source + x * a->source_strides[2], atom);
        }
}

/* ------------------------------------------------------------------------------------------ kernels */

#define BY_LANES(lanes, call, ...)                                                                 \
    if ((lanes) == 16)                                                                             \
        call(__VA_ARGS__, 16, FORM);                                                               \
    else                                                                                           \
        call(__VA_ARGS__, 8, FORM)

#define KERNEL_IN(keyword, name, form, lanes, call, ...)                                           \
    keyword static void name(const void *arguments, int64_t first, int64_t end, void *scratch) {   \
        enum { FORM = form };                                                                      \
        BY_LANES(lanes, call, __VA_ARGS__);                                                        \
        (void)scratch;                                                                             \
    }

/* A kernel in each of its forms. */
#ifdef X86
#define KERNEL(name, ...)                                                                          \
    KERNEL_IN(WITH_AVX2, name##_avx2, AVX2, __VA_ARGS__)                                           \
    KERNEL_IN(, name##_plain, PLAIN, __VA_ARGS__)                                                  \
    EXPORTED_KERNEL(name)
#else
#define KERNEL(name, ...)                                                                          \
    KERNEL_IN(, name##_plain, PLAIN, __VA_ARGS__)                                                  \
    EXPORTED_KERNEL(name)
#endif
#define EXPORTED_KERNEL(name)                                                                      \
    EXPORT void anynpu_npu_##name(const void *arguments, int64_t first, int64_t end,               \
                                  void *scratch) {                                                 \
        IN_THE_FORM(name, (arguments, first, end, scratch));                                       \
    }

#define DENSE ((const struct int8_dense *)arguments)
#define DEPTHWISE ((const struct int8_depthwise *)arguments)
#define PROCESS ((const struct process *)arguments)
#define REMAP ((const struct remap *)arguments)
#define POOL ((const struct pool *)arguments)
#define MOVE ((const struct move *)arguments)

#define GATHER(a, first, end, lanes, form) gather_rows(a, first, end, form)
#define ANY_REMAP(a, first, end, lanes, form) remap(a, first, end, lanes)
#define ANY_POOL(a, first, end, lanes, form) pool(a, first, end, lanes)
#define ANY_MOVE(a, first, end, lanes, form) move(a, first, end, lanes)

/* Units are output pixels, */
KERNEL(convolve_pixels, DENSE->writer.lanes, convolve_pixels, DENSE, first, end, scratch)
KERNEL(gather, 16, GATHER, DENSE, first, end)
/* groups of COLUMNS kernels, */
KERNEL(convolve_kernels, DENSE->writer.lanes, convolve_kernels, DENSE, first, end, scratch)
/* bands of surfaces, */
KERNEL(convolve_depthwise, DEPTHWISE->writer.lanes, convolve_depthwise, DEPTHWISE, first, end,
       scratch)
/* and surfaces. */
KERNEL(process, PROCESS->writer.lanes, process, PROCESS, first, end)
KERNEL(remap, REMAP->writer.lanes, ANY_REMAP, REMAP, first, end)
KERNEL(pool, POOL->writer.lanes, ANY_POOL, POOL, first, end)
KERNEL(move, MOVE->atom, ANY_MOVE, MOVE, first, end)
