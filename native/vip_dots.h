/* The sums of native/vip.c where a processor multiplies bytes, four products to a sum.
 *
 * The image is bytes without a sign, weights are bytes with one: sums begin with what makes up for the 128
 * that the image's bytes have too much, and, where a kernel counts from another zero point than 128, for
 * that with the sum of the image's bytes under the window. All of it wraps round, so that only what sums
 * come to has to fit int32, which the caller has proved.
 */
#ifndef ANYNPU_VIP_DOTS_H
#define ANYNPU_VIP_DOTS_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "vip.h"

/* Kernels that are computed together where there are 32 registers. */
enum { MANY = 2 * KERNELS };

#if defined(DOTS) && defined(X86)
#define BYTE_DOTS 1

/* ----------------------------------------------------------------------------------- weights */

/* What the sums of some kernels are made of. Weights are a quad of each kernel, tap by tap; the sum of the
 * bytes under the window is counted `factors` times, where there are such sums. */
struct quads {
    const int32_t *packed;
    const int32_t *taps;
    int64_t tap_count;
    int32_t *weights;
    int32_t bias[MANY];
    int32_t factors[MANY];
    const int32_t *windows;
    int64_t stride;
};

/* Weights of `blocks` blocks of KERNELS kernels, less 128, and what their sums begin with. */
WITH_AVX2 static void spread_quads(const struct convolution *c, int64_t group, int64_t blocks,
                                   struct quads *q) {
    const int64_t pairs = (c->channels + 1) / 2, window = c->kernel_height * c->kernel_width;
    const __m128i flip = _mm_set1_epi8(-128), ones = _mm_set1_epi8(1), one = _mm_set1_epi16(1);
    for (int64_t b = 0; b < blocks; b++) {
        const uint8_t *bytes = c->weights + (group + b) * c->tap_count * 2 * KERNELS;
        int32_t *to = q->weights + b * KERNELS;
        __m128i sum = _mm_setzero_si128();
        for (int64_t pair = 0; pair < pairs; pair += 2)
            for (int64_t t = 0; t < window; t++, to += blocks * KERNELS) {
                const uint8_t *at = bytes + (pair * window + t) * 2 * KERNELS;
                const __m128i first = _mm_loadl_epi64((const __m128i *)at);
                const __m128i second =
                    pair + 1 < pairs ? _mm_loadl_epi64((const __m128i *)(at + window * 2 * KERNELS))
                                     : flip;
                const __m128i weights = _mm_xor_si128(_mm_unpacklo_epi16(first, second), flip);
                sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_maddubs_epi16(ones, weights), one));
                _mm_storeu_si128((__m128i *)to, weights);
            }
        int32_t sums[KERNELS];
        _mm_storeu_si128((__m128i *)sums, sum);
        for (int k = 0; k < KERNELS; k++) {
            const int64_t kernel = (group + b) * KERNELS + k;
            const int32_t factor = 128 - c->weight_zero_points[kernel];
            q->factors[b * KERNELS + k] = factor;
            q->bias[b * KERNELS + k] =
                (int32_t)(c->bias[kernel] - 128 * (sums[k] + 2 * pairs * window * factor));
        }
    }
}

/* -------------------------------------------------------------------------------------- sums */

/* In the words of a form: `vector` of int32 holds PLACES times PIXELS pixels, each with a place of its own. */
#define VIP_DOTS(form, keyword, vector, PLACES, load, load_row, store, same, add, multiply, dot,   \
                 KS)                                                                               \
    keyword INLINE vector pixels_##form(const int32_t *packed, const int64_t *places) {            \
        return load(packed + places[0], packed + places[PLACES - 1]);                              \
    }                                                                                              \
    keyword INLINE void sum_some_##form(const struct quads *q, const int64_t *places,              \
                                        int32_t *sums, int64_t first, const int kernels,           \
                                        const int vectors) {                                       \
        vector total[MANY][3];                                                                     \
        _Pragma("GCC unroll 8") for (int k = 0; k < kernels; k++)                                  \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) {                            \
            total[k][v] = same(q->bias[k]);                                                        \
            if (q->windows) {                                                                      \
                const int32_t *at = q->windows + first + v * PLACES * PIXELS;                      \
                total[k][v] = add(total[k][v], multiply(load_row(at), same(q->factors[k])));       \
            }                                                                                      \
        }                                                                                          \
        for (int64_t t = 0; t < q->tap_count; t++) {                                               \
            const int32_t *from = q->packed + q->taps[t], *weights = q->weights + t * kernels;     \
            vector x[3];                                                                           \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) x[v] =                       \
                pixels_##form(from, places + v * PLACES);                                          \
            _Pragma("GCC unroll 8") for (int k = 0; k < kernels; k++) {                            \
                const vector w = same(weights[k]);                                                 \
                _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) total[k][v] =            \
                    dot(total[k][v], x[v], w);                                                     \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int k = 0; k < kernels; k++)                                  \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++)                              \
                store(sums + k * q->stride + first + v * PLACES * PIXELS, total[k][v]);            \
    }                                                                                              \
    keyword static void sum_all_##form(const struct quads *q, const int64_t *places,               \
                                       int64_t count, int32_t *sums, int64_t blocks) {             \
        int64_t v = 0;                                                                             \
        for (; v + 2 * (PLACES) < count; v += 3 * (PLACES))                                        \
            if (blocks == 2)                                                                       \
                sum_some_##form(q, places + v, sums, v * PIXELS, KS, 3);                           \
            else                                                                                   \
                sum_some_##form(q, places + v, sums, v * PIXELS, KERNELS, 3);                      \
        for (; v < count; v += PLACES)                                                             \
            if (blocks == 2)                                                                       \
                sum_some_##form(q, places + v, sums, v * PIXELS, KS, 1);                           \
            else                                                                                   \
                sum_some_##form(q, places + v, sums, v * PIXELS, KERNELS, 1);                      \
    }                                                                                              \
    /* The sums of the bytes under each window. */                                                 \
    keyword static void sum_windows_##form(const struct quads *q, const int64_t *places,           \
                                           int64_t count, int32_t *sums) {                         \
        const vector ones = same(0x01010101);                                                      \
        for (int64_t v = 0; v < count; v += PLACES) {                                              \
            vector even = same(0), odd = even;                                                     \
            int64_t t = 0;                                                                         \
            for (; t + 2 <= q->tap_count; t += 2) {                                                \
                even = dot(even, pixels_##form(q->packed + q->taps[t], places + v), ones);         \
                odd = dot(odd, pixels_##form(q->packed + q->taps[t + 1], places + v), ones);       \
            }                                                                                      \
            if (t < q->tap_count)                                                                  \
                even = dot(even, pixels_##form(q->packed + q->taps[t], places + v), ones);         \
            store(sums + v * PIXELS, add(even, odd));                                              \
        }                                                                                          \
    }

#define LOAD_256(first, second) _mm256_loadu_si256((const __m256i *)(first))
#define LOAD_ROW_256(from) _mm256_loadu_si256((const __m256i *)(from))
#define STORE_256(to, v) _mm256_storeu_si256((__m256i *)(to), v)
VIP_DOTS(avx_vnni, WITH_AVX_VNNI, __m256i, 1, LOAD_256, LOAD_ROW_256, STORE_256, _mm256_set1_epi32,
         _mm256_add_epi32, _mm256_mullo_epi32, _mm256_dpbusd_avx_epi32, KERNELS)

#define LOAD_512(first, second)                                                                    \
    _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(first))),       \
                       _mm256_loadu_si256((const __m256i *)(second)), 1)
VIP_DOTS(avx512_vnni, WITH_AVX512_VNNI, __m512i, 2, LOAD_512, _mm512_loadu_si512,
         _mm512_storeu_si512, _mm512_set1_epi32, _mm512_add_epi32, _mm512_mullo_epi32,
         _mm512_dpbusd_epi32, MANY)

/* In the form that runs. */
static void sum_quads(const struct quads *q, const int64_t *places, int64_t count, int32_t *sums,
                      int64_t blocks) {
    if (running_form == AVX512_VNNI)
        sum_all_avx512_vnni(q, places, count, sums, blocks);
    else
        sum_all_avx_vnni(q, places, count, sums, blocks);
}

static void sum_windows(const struct quads *q, const int64_t *places, int64_t count,
                        int32_t *sums) {
    if (running_form == AVX512_VNNI)
        sum_windows_avx512_vnni(q, places, count, sums);
    else
        sum_windows_avx_vnni(q, places, count, sums);
}
#endif

#endif
