/* Stages of int8 in vectors, for npu.c: the words of AVX2 and of AVX-512 for npu_stages.h, and what fills the
 * bytes of results. */
#ifndef ANYNPU_NPU_STAGES_VECTORS_H
#define ANYNPU_NPU_STAGES_VECTORS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "dots.h"
#include "npu_stages_plain.h"

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

#endif
