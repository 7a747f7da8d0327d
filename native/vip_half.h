/* What shaders do with float16, for vip.c: windows of an image as rows, and rows times kernels.
 *
 * AT_ONCE products are summed in double and cut to float32, which is exact but where they are more than 2^30 times
 * as large as each other; such sums are added in float32, or some of them in double first.
 */
#ifndef ANYNPU_VIP_HALF_H
#define ANYNPU_VIP_HALF_H

#include "half.h"

enum {
    NO_NUMBER = 0x7E00,
    HALF_EXPONENT = 0x7C00,
};

/* ----------------------------------------------------------------------------------- windows */

/* A row of a window's values, of which those beyond the image are zero. */
INLINE void take_window_row(const struct half_windows *w, const uint8_t *from, int64_t x,
                            uint16_t *to) {
    for (int64_t i = 0; i < w->kernel_width; i++, x++) {
        to[i] = 0;
        if (x >= 0 && x < w->width)
            memcpy(to + i, from + x * (int64_t)sizeof *to, sizeof *to);
    }
}

INLINE void take_window(const struct half_windows *w, int64_t number, uint16_t *to) {
    const int64_t y = number / w->columns * w->step_y - w->top,
                  x = number % w->columns * w->step_x - w->left;
    for (int64_t channel = 0; channel < w->channels; channel++)
        for (int64_t i = 0; i < w->kernel_height; i++, to += w->kernel_width) {
            if (y + i < 0 || y + i >= w->height)
                memset(to, 0, (size_t)w->kernel_width * sizeof *to);
            else
                take_window_row(w, w->source + channel * w->plane + (y + i) * w->row, x, to);
        }
}

EXPORT void anynpu_vip_half_windows(const void *arguments, int64_t first, int64_t end,
                                    void *scratch) {
    const struct half_windows *w = arguments;
    const int64_t length = w->channels * w->kernel_height * w->kernel_width;
    for (int64_t i = first * w->unit; i < end * w->unit && i < w->count; i++) {
        take_window(w, i, scratch);
        memcpy(w->target + i * w->target_row, scratch, (size_t)length * sizeof(uint16_t));
    }
}

/* ---------------------------------------------------------------------------------- products */

/* What isn't normal is multiplied as zero. */
INLINE double normal_of_half(uint16_t half) {
    return half & HALF_EXPONENT ? (double)float_of_half(half) : 0;
}

/* A sum as it is stored: less than the least normal number is zero, and there is one that is none. */
INLINE uint16_t stored_half(float sum, int64_t cuts) {
    const float value = cuts && sum <= 0 ? 0 : sum;
    const uint16_t half = half_of_float(value);
    if (value != value)
        return NO_NUMBER;
    return half & HALF_EXPONENT ? half : half & 0x8000;
}

/* Toward zero: bits that float32 lacks are left out, and no sum is too large or small for it. */
INLINE float cut_to_float(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= ~UINT64_C(0) << 29;
    memcpy(&value, &bits, sizeof bits);
    return (float)value;
}

INLINE void take_halves_plain(const uint8_t *from, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + i * (int64_t)sizeof half, sizeof half);
        to[i] = normal_of_half(half);
    }
}

/* Sums of AT_ONCE products of a row and HALF_KERNELS kernels. */
INLINE void add_products(const double *row, const double *weights, double *all) {
    double sums[HALF_KERNELS] = {0};
    for (int i = 0; i < AT_ONCE; i++)
        for (int k = 0; k < HALF_KERNELS; k++)
            sums[k] += row[i] * weights[i * HALF_KERNELS + k];
    for (int k = 0; k < HALF_KERNELS; k++)
        all[k] += (double)cut_to_float(sums[k]);
}

/* Sums of up to HALF_ROWS rows with HALF_KERNELS kernels: (rows, kernels). */
INLINE void sum_halves_plain(const struct half_products *p, const uint16_t *weights,
                             const float *bias, const double *rows, int64_t pitch, int64_t count,
                             float *totals) {
    const int64_t step = AT_ONCE * p->together;
    for (int64_t r = 0; r < count; r++)
        memcpy(totals + r * HALF_KERNELS, bias, HALF_KERNELS * sizeof *bias);
    for (int64_t first = 0; first < pitch; first += step) {
        double all[HALF_ROWS][HALF_KERNELS] = {{0}};
        for (int64_t at = first; at < least(first + step, pitch); at += AT_ONCE) {
            double wide[AT_ONCE * HALF_KERNELS];
            for (int i = 0; i < AT_ONCE * HALF_KERNELS; i++)
                wide[i] = (double)float_of_half(weights[at * HALF_KERNELS + i]);
            for (int64_t r = 0; r < count; r++)
                add_products(rows + r * pitch + at, wide, all[r]);
        }
        for (int64_t r = 0; r < count; r++)
            for (int k = 0; k < HALF_KERNELS; k++)
                totals[r * HALF_KERNELS + k] += (float)all[r][k];
    }
}

#ifdef X86
WITH_AVX2 INLINE __m128i normal_halves(__m128i halves) {
    const __m128i exponents = _mm_and_si128(halves, _mm_set1_epi16(HALF_EXPONENT));
    return _mm_andnot_si128(_mm_cmpeq_epi16(exponents, _mm_setzero_si128()), halves);
}

/* The same as `take_halves_plain`, of a multiple of eight: a row's end is in the thread's space. */
WITH_AVX2 static void take_halves_avx2(const uint16_t *from, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i += 8) {
        const __m256 floats =
            _mm256_cvtph_ps(normal_halves(_mm_loadu_si128((const __m128i *)(from + i))));
        _mm256_storeu_pd(to + i, _mm256_cvtps_pd(_mm256_castps256_ps128(floats)));
        _mm256_storeu_pd(to + i + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(floats, 1)));
    }
}

/* The same as `sum_halves_plain` in the words of a form: `eight` doubles. */
#define SUM_HALVES(form, keyword, eight)                                                           \
    keyword INLINE void sum_some_halves_##form(                                                    \
        const struct half_products *p, const uint16_t *weights, const float *bias,                 \
        const double *rows, int64_t pitch, float *totals, const int count, const int is_simple) {  \
        __m256 total[HALF_ROWS];                                                                   \
        UNROLLED for (int r = 0; r < count; r++) total[r] = _mm256_loadu_ps(bias);                 \
        for (int64_t first = 0; first < pitch;) {                                                  \
            const int64_t last = least(first + AT_ONCE * (is_simple ? 1 : p->together), pitch);    \
            eight all[HALF_ROWS];                                                                  \
            UNROLLED for (int r = 0; r < count; r++) all[r] = zeros_##form();                      \
            for (; first < last; first += AT_ONCE) {                                               \
                eight sum[HALF_ROWS];                                                              \
                UNROLLED for (int r = 0; r < count; r++) sum[r] = zeros_##form();                  \
                for (int i = 0; i < AT_ONCE; i++, weights += HALF_KERNELS) {                       \
                    const eight w = weights_##form(weights);                                       \
                    UNROLLED for (int r = 0; r < count; r++) sum[r] =                              \
                        products_##form(rows[r * pitch + first + i], w, sum[r]);                   \
                }                                                                                  \
                UNROLLED for (int r = 0; r < count; r++) {                                         \
                    const __m256 part = cut_##form(sum[r]);                                        \
                    if (is_simple)                                                                 \
                        total[r] = _mm256_add_ps(total[r], part);                                  \
                    else                                                                           \
                        all[r] = joined_##form(all[r], part);                                      \
                }                                                                                  \
            }                                                                                      \
            if (!is_simple)                                                                        \
                UNROLLED for (int r = 0; r < count; r++) total[r] =                                \
                    _mm256_add_ps(total[r], rounded_##form(all[r]));                               \
        }                                                                                          \
        UNROLLED for (int r = 0; r < count; r++)                                                   \
            _mm256_storeu_ps(totals + r * HALF_KERNELS, total[r]);                                 \
    }                                                                                              \
    keyword static void sum_halves_##form(const struct half_products *p, const uint16_t *weights,  \
                                          const float *bias, const double *rows, int64_t pitch,    \
                                          int64_t count, float *totals) {                          \
        if (count == HALF_ROWS && p->together == 1)                                                \
            sum_some_halves_##form(p, weights, bias, rows, pitch, totals, HALF_ROWS, 1);           \
        else                                                                                       \
            for (int64_t r = 0; r < count; r++)                                                    \
                sum_some_halves_##form(p, weights, bias, rows + r * pitch, pitch,                  \
                                       totals + r * HALF_KERNELS, 1, 0);                           \
    }

struct eight_avx2 {
    __m256d half[2];
};

WITH_AVX2 INLINE struct eight_avx2 zeros_avx2(void) {
    return (struct eight_avx2){{_mm256_setzero_pd(), _mm256_setzero_pd()}};
}

WITH_AVX2 INLINE struct eight_avx2 wide_avx2(__m256 floats) {
    return (struct eight_avx2){{_mm256_cvtps_pd(_mm256_castps256_ps128(floats)),
                                _mm256_cvtps_pd(_mm256_extractf128_ps(floats, 1))}};
}

WITH_AVX2 INLINE struct eight_avx2 weights_avx2(const uint16_t *weights) {
    return wide_avx2(eight_floats(weights));
}

WITH_AVX2 INLINE struct eight_avx2 products_avx2(double x, struct eight_avx2 w,
                                                 struct eight_avx2 sum) {
    const __m256d all = _mm256_set1_pd(x);
    return (struct eight_avx2){{_mm256_fmadd_pd(all, w.half[0], sum.half[0]),
                                _mm256_fmadd_pd(all, w.half[1], sum.half[1])}};
}

WITH_AVX2 INLINE __m256 rounded_avx2(struct eight_avx2 v) {
    return _mm256_set_m128(_mm256_cvtpd_ps(v.half[1]), _mm256_cvtpd_ps(v.half[0]));
}

WITH_AVX2 INLINE __m256 cut_avx2(struct eight_avx2 v) {
    const __m256d bits = _mm256_castsi256_pd(_mm256_set1_epi64x(-(INT64_C(1) << 29)));
    return rounded_avx2(
        (struct eight_avx2){{_mm256_and_pd(v.half[0], bits), _mm256_and_pd(v.half[1], bits)}});
}

WITH_AVX2 INLINE struct eight_avx2 joined_avx2(struct eight_avx2 sum, __m256 part) {
    const struct eight_avx2 wide = wide_avx2(part);
    return (struct eight_avx2){
        {_mm256_add_pd(sum.half[0], wide.half[0]), _mm256_add_pd(sum.half[1], wide.half[1])}};
}

SUM_HALVES(avx2, WITH_AVX2, struct eight_avx2)
#endif

#ifdef AVX512
#define zeros_avx512 _mm512_setzero_pd
#define weights_avx512(weights) _mm512_cvtps_pd(eight_floats(weights))
#define products_avx512(x, w, sum) _mm512_fmadd_pd(_mm512_set1_pd(x), w, sum)
#define rounded_avx512 _mm512_cvtpd_ps
#define cut_avx512(v) _mm512_cvt_roundpd_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define joined_avx512(sum, part) _mm512_add_pd(sum, _mm512_cvtps_pd(part))
SUM_HALVES(avx512, WITH_AVX512_VNNI, __m512d)
#endif

/* In the form that runs. */
static void sum_halves(const struct half_products *p, const uint16_t *weights, const float *bias,
                       const double *rows, int64_t pitch, int64_t count, float *totals) {
#ifdef AVX512
    if (running_form == AVX512_VNNI) {
        sum_halves_avx512(p, weights, bias, rows, pitch, count, totals);
        return;
    }
#endif
#ifdef X86
    if (has_avx2(running_form)) {
        sum_halves_avx2(p, weights, bias, rows, pitch, count, totals);
        return;
    }
#endif
    sum_halves_plain(p, weights, bias, rows, pitch, count, totals);
}

/* A row as doubles, with zeros up to `pitch`; `halves` is space for as many. */
static void take_halves(const uint8_t *from, int64_t length, int64_t pitch, uint16_t *halves,
                        double *to) {
#ifdef X86
    if (has_avx2(running_form)) {
        memcpy(halves, from, (size_t)length * sizeof *halves);
        memset(halves + length, 0, (size_t)(pitch - length) * sizeof *halves);
        take_halves_avx2(halves, pitch, to);
        return;
    }
#endif
    (void)halves;
    take_halves_plain(from, length, to);
    for (int64_t i = length; i < pitch; i++)
        to[i] = 0;
}

/* A unit of work is HALF_ROWS rows with `blocks` times HALF_KERNELS kernels. */
EXPORT void anynpu_vip_half_products(const void *arguments, int64_t first, int64_t end,
                                     void *scratch) {
    const struct half_products *p = arguments;
    const int64_t pitch = up_to(p->length, AT_ONCE), all = up_to(p->kernels, HALF_KERNELS),
                  parts = (all / HALF_KERNELS + p->blocks - 1) / p->blocks;
    double *const rows = scratch;
    uint16_t *const halves = (uint16_t *)(rows + HALF_ROWS * pitch);
    float totals[HALF_ROWS * HALF_KERNELS];
    int64_t taken = -1;
    for (int64_t unit = first; unit < end; unit++) {
        const int64_t row = unit / parts * HALF_ROWS, count = least(HALF_ROWS, p->count - row);
        if (row != taken)
            for (int64_t r = 0; r < count; r++)
                take_halves(p->source + (row + r) * p->source_row, p->length, pitch, halves,
                            rows + r * pitch);
        taken = row;
        const int64_t begin = unit % parts * p->blocks * HALF_KERNELS,
                      last = least(begin + p->blocks * HALF_KERNELS, p->kernels);
        for (int64_t k = begin; k < last; k += HALF_KERNELS) {
            sum_halves(p, p->weights + k * pitch, p->bias + k, rows, pitch, count, totals);
            for (int64_t i = 0; i < least(HALF_KERNELS, last - k); i++)
                for (int64_t r = 0; r < count; r++) {
                    const uint16_t half = stored_half(totals[r * HALF_KERNELS + i], p->cuts);
                    memcpy(p->target + (k + i) * p->by_kernel + (row + r) * p->by_row, &half,
                           sizeof half);
                }
        }
    }
}

#endif
