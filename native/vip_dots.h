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

/* What the sums of up to two blocks of kernels are made of: a quad of each kernel, tap by tap, of each block;
 * the sum of the bytes under the window is counted `factors` times, where there are such sums. */
struct quads {
    const int32_t *packed;
    const int32_t *taps;
    int64_t tap_count;
    const uint8_t *weights[MANY / KERNELS];
    int32_t bias[MANY];
    int32_t factors[MANY];
    const int32_t *windows;
    int64_t stride;
};

/* The weights of `blocks` blocks, and what their sums begin with. */
INLINE void take_weights(const struct convolution *c, int64_t group, int64_t blocks,
                         struct quads *q) {
    for (int64_t b = 0; b < blocks; b++) {
        q->weights[b] = c->weights + (group + b) * q->tap_count * QUAD * KERNELS;
        for (int k = 0; k < KERNELS; k++) {
            const int64_t kernel = (group + b) * KERNELS + k;
            q->factors[b * KERNELS + k] = 128 - c->weight_zero_points[kernel];
            q->bias[b * KERNELS + k] = c->quads_bias[kernel];
        }
    }
}

INLINE int32_t quad_at(const uint8_t *bytes) {
    int32_t quad;
    memcpy(&quad, bytes, sizeof quad);
    return quad;
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
        UNROLLED for (int k = 0; k < kernels; k++) UNROLLED for (int v = 0; v < vectors; v++) {    \
            total[k][v] = same(q->bias[k]);                                                        \
            if (q->windows) {                                                                      \
                const int32_t *at = q->windows + first + v * PLACES * PIXELS;                      \
                total[k][v] = add(total[k][v], multiply(load_row(at), same(q->factors[k])));       \
            }                                                                                      \
        }                                                                                          \
        for (int64_t t = 0; t < q->tap_count; t++) {                                               \
            const int32_t *from = q->packed + q->taps[t];                                          \
            vector x[3];                                                                           \
            UNROLLED for (int v = 0; v < vectors; v++) x[v] =                                      \
                pixels_##form(from, places + v * PLACES);                                          \
            UNROLLED for (int k = 0; k < kernels; k++) {                                           \
                const vector w =                                                                   \
                    same(quad_at(q->weights[k / KERNELS] + (t * KERNELS + k % KERNELS) * QUAD));   \
                UNROLLED for (int v = 0; v < vectors; v++) total[k][v] =                           \
                    dot(total[k][v], x[v], w);                                                     \
            }                                                                                      \
        }                                                                                          \
        UNROLLED for (int k = 0; k < kernels; k++) UNROLLED for (int v = 0; v < vectors; v++)      \
            store(sums + k * q->stride + first + v * PLACES * PIXELS, total[k][v]);                \
    }                                                                                              \
    /* From vector `v` of `count` on; with which to go on. */                                      \
    keyword static int64_t sum_all_##form(const struct quads *q, const int64_t *places, int64_t v, \
                                          int64_t count, int32_t *sums, int64_t blocks) {          \
        for (; v + 3 * (PLACES) <= count; v += 3 * (PLACES))                                       \
            if (blocks == 2)                                                                       \
                sum_some_##form(q, places + v, sums, v * PIXELS, KS, 3);                           \
            else                                                                                   \
                sum_some_##form(q, places + v, sums, v * PIXELS, KERNELS, 3);                      \
        for (; v + (PLACES) <= count; v += PLACES)                                                 \
            if (blocks == 2)                                                                       \
                sum_some_##form(q, places + v, sums, v * PIXELS, KS, 1);                           \
            else                                                                                   \
                sum_some_##form(q, places + v, sums, v * PIXELS, KERNELS, 1);                      \
        return v;                                                                                  \
    }                                                                                              \
    /* The sums of the bytes under each window, likewise. */                                       \
    keyword static int64_t sum_windows_##form(const struct quads *q, const int64_t *places,        \
                                              int64_t v, int64_t count, int32_t *sums) {           \
        const vector ones = same(0x01010101);                                                      \
        for (; v + (PLACES) <= count; v += PLACES) {                                               \
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
        return v;                                                                                  \
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

/* Half a vector, where a row ends. */
VIP_DOTS(half_avx512_vnni, WITH_AVX512_VNNI, __m256i, 1, LOAD_256, LOAD_ROW_256, STORE_256,
         _mm256_set1_epi32, _mm256_add_epi32, _mm256_mullo_epi32, _mm256_dpbusd_epi32, MANY)

/* The quads of the only pixel, each as often as there are kernels in a block. */
static void repeat_pixel(const struct quads *q, int32_t *pixel) {
    for (int64_t t = 0; t < q->tap_count; t++)
        for (int k = 0; k < KERNELS; k++)
            pixel[t * KERNELS + k] = q->packed[q->taps[t]];
}

INLINE int32_t quad_product(int32_t bytes, int32_t weights) {
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (uint8_t)(bytes >> i) * (int8_t)(weights >> i);
    return sum;
}

/* The sums of the only pixel, for which weights are read as they lie: 4 taps of KERNELS kernels at a time. */
WITH_AVX512_VNNI static void sum_pixel(const struct quads *q, const int32_t *pixel, int32_t *sums,
                                       int64_t blocks) {
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t count = q->tap_count * KERNELS;
        int32_t columns[4 * KERNELS];
        __m512i even = _mm512_set1_epi32(0), odd = even;
        int64_t i = 0;
        for (; i + 32 <= count; i += 32) {
            const uint8_t *weights = q->weights[b] + i * QUAD;
            even = _mm512_dpbusd_epi32(even, _mm512_loadu_si512(pixel + i),
                                       _mm512_loadu_si512(weights));
            odd = _mm512_dpbusd_epi32(odd, _mm512_loadu_si512(pixel + i + 16),
                                      _mm512_loadu_si512(weights + 64));
        }
        _mm512_storeu_si512(columns, _mm512_add_epi32(even, odd));
        for (; i < count; i++)
            columns[i % KERNELS] += quad_product(pixel[i], quad_at(q->weights[b] + i * QUAD));
        for (int k = 0; k < KERNELS; k++)
            sums[(b * KERNELS + k) * q->stride] =
                q->bias[b * KERNELS + k] + columns[k] + columns[k + KERNELS] +
                columns[k + 2 * KERNELS] + columns[k + 3 * KERNELS] +
                (q->windows ? q->windows[0] * q->factors[b * KERNELS + k] : 0);
    }
}

/* In the form that runs. */
static void sum_quads(const struct quads *q, const int64_t *places, int64_t count, int32_t *sums,
                      int64_t blocks) {
    if (running_form == AVX512_VNNI)
        sum_all_half_avx512_vnni(q, places, sum_all_avx512_vnni(q, places, 0, count, sums, blocks),
                                 count, sums, blocks);
    else
        sum_all_avx_vnni(q, places, 0, count, sums, blocks);
}

static void sum_windows(const struct quads *q, const int64_t *places, int64_t count,
                        int32_t *sums) {
    if (running_form == AVX512_VNNI)
        sum_windows_half_avx512_vnni(q, places, sum_windows_avx512_vnni(q, places, 0, count, sums),
                                     count, sums);
    else
        sum_windows_avx_vnni(q, places, 0, count, sums);
}
#endif

#endif
