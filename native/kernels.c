/* Array kernels: what NumPy does slowly, element by element, in one pass each.
 *
 * Plain C11. NumPy gives the same values, where the kernels aren't built; only what is no number may
 * differ, in bits that mean nothing.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define HAS_F16C __builtin_cpu_supports("f16c")
#define WITH_F16C __attribute__((target("avx,f16c")))
#endif

#define EXPORT __attribute__((visibility("default")))

/* ------------------------------------------------------------- IEEE float16 <-> float32, by bits */

static uint16_t half_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000) /* infinite, or no number: its payload's top bits, made quiet */
        return sign | 0x7c00 | (magnitude > 0x7f800000 ? 0x200 | (magnitude >> 13 & 0x3ff) : 0);
    if (magnitude >= 0x477ff000) /* rounds to more than the largest */
        return sign | 0x7c00;
    if (magnitude >= 0x38800000) { /* normal: to nearest, ties to even */
        uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
        return sign | (rounded - 0x38000000) >> 13;
    }
    /* subnormal: adding 2^-1 aligns the mantissa so that the addition itself rounds */
    float aligned, half = 0.5f;
    memcpy(&aligned, &magnitude, sizeof aligned);
    aligned += half;
    memcpy(&magnitude, &aligned, sizeof magnitude);
    return sign | (magnitude - 0x3f000000);
}

static float float_value(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff, result;
    if (magnitude >= 0x7c00) { /* infinite, or no number, made quiet */
        result = sign | 0x7f800000 | magnitude << 13;
        if (magnitude > 0x7c00)
            result |= 0x400000;
    } else if (magnitude >= 0x400) {
        result = sign | (magnitude << 13) + 0x38000000;
    } else { /* subnormal: an integer times 2^-24 */
        float value = (float)magnitude * 0x1p-24f;
        memcpy(&result, &value, sizeof result);
        result |= sign;
    }
    float value;
    memcpy(&value, &result, sizeof value);
    return value;
}

#ifdef HAS_F16C
WITH_F16C static size_t to_half_by_eights(const float *source, uint16_t *target, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(target + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

WITH_F16C static size_t to_float_by_eights(const uint16_t *source, float *target, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(target + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(source + i))));
    return i;
}
#endif

EXPORT void anynpu_float_to_half(const float *source, uint16_t *target, size_t count) {
    size_t i = 0;
#if defined(HAS_F16C)
    if (HAS_F16C)
        i = to_half_by_eights(source, target, count);
#elif defined(__ARM_FP16_FORMAT_IEEE)
    for (; i < count; i++) {
        __fp16 half = (__fp16)source[i];
        memcpy(target + i, &half, sizeof half);
    }
#endif
    for (; i < count; i++)
        target[i] = half_bits(source[i]);
}

EXPORT void anynpu_half_to_float(const uint16_t *source, float *target, size_t count) {
    size_t i = 0;
#if defined(HAS_F16C)
    if (HAS_F16C)
        i = to_float_by_eights(source, target, count);
#elif defined(__ARM_FP16_FORMAT_IEEE)
    for (; i < count; i++) {
        __fp16 half;
        memcpy(&half, source + i, sizeof half);
        target[i] = (float)half;
    }
#endif
    for (; i < count; i++)
        target[i] = float_value(source[i]);
}
