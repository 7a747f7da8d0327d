/* Elements of any kind to floats, and floats to float16 and bfloat16: what npu_general.c reads and writes. */
#ifndef ANYNPU_NPU_GENERAL_ELEMENTS_H
#define ANYNPU_NPU_GENERAL_ELEMENTS_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "half.h"
#include "npu.h"

/* Vectors of a line of the cache don't cross two. */
#define ALIGNED __attribute__((aligned(64)))

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

/* Four surfaces' atoms of four float16. */
WITH_AVX512_VNNI static void widen_four_halves(const uint8_t *const *surfaces, int64_t step,
                                               int64_t count, float *target, int64_t target_step) {
    const uint8_t *a = surfaces[0], *b = surfaces[1], *c = surfaces[2], *d = surfaces[3];
    for (int64_t p = 0, i = 0; p < count; p++, i += step, target += target_step) {
        uint64_t atoms[4];
        memcpy(atoms, a + i, 8);
        memcpy(atoms + 1, b + i, 8);
        memcpy(atoms + 2, c + i, 8);
        memcpy(atoms + 3, d + i, 8);
        const __m256i halves = _mm256_setr_epi64x((int64_t)atoms[0], (int64_t)atoms[1],
                                                  (int64_t)atoms[2], (int64_t)atoms[3]);
        _mm512_storeu_ps(target, _mm512_cvtph_ps(halves));
    }
}

/* Four surfaces' atoms of four floats. */
WITH_AVX512_VNNI static void widen_four(const uint8_t *const *surfaces, int64_t step, int64_t count,
                                        float *target) {
    const uint8_t *a = surfaces[0], *b = surfaces[1], *c = surfaces[2], *d = surfaces[3];
    for (int64_t p = 0, i = 0; p < count; p++, i += step, target += GROUP) {
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

#endif
