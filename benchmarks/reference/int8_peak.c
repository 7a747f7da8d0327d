/* As many int8 products as the processor's own instructions give: those that the kernels' form
 * multiplies with, and the additions that these need, on registers alone.
 *
 * Sums are enough to hide the time that an instruction takes. What they hold is hidden from the
 * compiler, which would leave all of it out.
 */
#include "cpu.h"

enum { SUMS = 12 };

/* `step` for each of the sums, unrolled, so that they are no array in memory. */
#define EACH(sums, x, step)                                                                        \
    _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) {                                      \
        __asm__ volatile("" : HIDDEN(x), HIDDEN(sums[i]));                                         \
        sums[i] = step;                                                                            \
    }
#define LOOP(sums, x, step)                                                                        \
    for (int64_t r = 0; r < rounds; r++)                                                           \
        EACH(sums, x, step)                                                                        \
    EACH(sums, x, sums[i])

#ifdef X86
#define HIDDEN(v) "+v"(v)
WITH_AVX2 static int64_t multiply_avx2(int64_t rounds) {
    __m256i sums[SUMS] = {0}, x = _mm256_set1_epi16(3);
    LOOP(sums, x, _mm256_add_epi32(sums[i], _mm256_madd_epi16(x, x)));
    return rounds * SUMS * 16;
}

#ifdef DOTS
WITH_AVX_VNNI static int64_t multiply_avx_vnni(int64_t rounds) {
    __m256i sums[SUMS] = {0}, x = _mm256_set1_epi8(3);
    LOOP(sums, x, _mm256_dpbusd_avx_epi32(sums[i], x, x));
    return rounds * SUMS * 32;
}

WITH_AVX512_VNNI static int64_t multiply_avx512_vnni(int64_t rounds) {
    __m512i sums[SUMS] = {0}, x = _mm512_set1_epi8(3);
    LOOP(sums, x, _mm512_dpbusd_epi32(sums[i], x, x));
    return rounds * SUMS * 64;
}
#endif
#elif defined(DOTS)
#define HIDDEN(v) "+w"(v)
WITH_DOTPROD static int64_t multiply_dotprod(int64_t rounds) {
    int32x4_t sums[SUMS] = {0};
    int8x16_t x = vdupq_n_s8(3);
    LOOP(sums, x, vdotq_s32(sums[i], x, x));
    return rounds * SUMS * 16;
}

WITH_I8MM static int64_t multiply_i8mm(int64_t rounds) {
    int32x4_t sums[SUMS] = {0};
    int8x16_t x = vdupq_n_s8(3);
    LOOP(sums, x, vmmlaq_s32(sums[i], x, x));
    return rounds * SUMS * 32;
}
#endif

/* So many rounds in the form that runs; how many products that was, 0 for the plain form. */
EXPORT int64_t multiply(int64_t rounds) {
    switch (running_form) {
#ifdef X86
    case AVX2: return multiply_avx2(rounds);
#ifdef DOTS
    case AVX_VNNI: return multiply_avx_vnni(rounds);
    case AVX512_VNNI: return multiply_avx512_vnni(rounds);
#endif
#elif defined(DOTS)
    case DOTPROD: return multiply_dotprod(rounds);
    case I8MM: return multiply_i8mm(rounds);
#endif
    default: return 0;
    }
}
