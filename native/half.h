/* IEEE float16 by its bits, and as whole vectors where the processor converts them. */
#ifndef ANYNPU_HALF_H
#define ANYNPU_HALF_H

#include <string.h>

#include "cpu.h"

INLINE float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* What is no number keeps its payload, made quiet, as processors do it. */
INLINE float float_of_half(uint16_t half) {
#ifdef __ARM_FP16_FORMAT_IEEE
    __fp16 value;
    memcpy(&value, &half, sizeof value);
    return (float)value;
#else
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7FFF;
    if (rest >= 0x7C00)
        return float_of_bits(sign | 0x7F800000 | rest << 13 | (rest > 0x7C00 ? 0x400000 : 0));
    if (rest >= 0x400)
        return float_of_bits(sign | ((rest << 13) + 0x38000000));
    /* A denormal: a whole number times 2^-24. */
    return float_of_bits(sign | bits_of_float((float)rest * 0x1p-24f));
#endif
}

/* To the nearest, ties to even; what is no number keeps its payload's first bits, made quiet. */
INLINE uint16_t half_of_float(float value) {
#ifdef __ARM_FP16_FORMAT_IEEE
    const __fp16 half = (__fp16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
#else
    const uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000,
                   rest = bits & 0x7FFFFFFF;
    if (rest > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (rest >> 13 & 0x3FF));
    if (rest >= 0x477FF000) /* rounds to more than the largest */
        return (uint16_t)(sign | 0x7C00);
    if (rest >= 0x38800000)
        return (uint16_t)(sign | (rest - 0x38000000 + 0xFFF + (rest >> 13 & 1)) >> 13);
    /* A denormal: the sum's last bit is worth 2^-24. */
    return (uint16_t)(sign | (bits_of_float(float_of_bits(rest) + 0.5f) - 0x3F000000));
#endif
}

#ifdef X86
WITH_AVX2 INLINE __m256 eight_floats(const void *halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)halves));
}

WITH_AVX2 INLINE __m128 four_floats(const void *halves) {
    return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)halves));
}

WITH_AVX2 INLINE void store_eight_halves(void *halves, __m256 values) {
    _mm_storeu_si128((__m128i *)halves, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}
#endif

#endif
