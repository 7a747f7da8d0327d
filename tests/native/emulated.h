/* AVX-VNNI and AVX-512 VNNI by SIMDe's functions, so that any processor with AVX2 runs their forms:
 * native/cpu.h includes it where ANYNPU_EMULATED names it. For -mavx2 -mfma -mf16c. */
#include <simde/x86/avx512.h>

#define DOTS 1
#define WITH_AVX_VNNI WITH_AVX2
#define WITH_AVX512_VNNI WITH_AVX2

/* What SIMDe 0.7.4 lacks, or rounds with ties away from zero. */
INLINE simde__m512d emulated_cvtepi32_pd(__m256i v) {
    simde__m512d_private wide;
    wide.m256d[0] = _mm256_cvtepi32_pd(_mm256_castsi256_si128(v));
    wide.m256d[1] = _mm256_cvtepi32_pd(_mm256_extracti128_si256(v, 1));
    return simde__m512d_from_private(wide);
}

INLINE __m256i emulated_cvtpd_epi32(simde__m512d v) {
    const simde__m512d_private wide = simde__m512d_to_private(v);
    return _mm256_setr_m128i(_mm256_cvtpd_epi32(wide.m256d[0]), _mm256_cvtpd_epi32(wide.m256d[1]));
}

INLINE __m128i emulated_cvtepi32_epi8(simde__m512i v) {
    const simde__m512i_private wide = simde__m512i_to_private(v);
    uint8_t bytes[16];
    for (int i = 0; i < 16; i++)
        bytes[i] = (uint8_t)wide.i32[i];
    return _mm_loadu_si128((const __m128i *)bytes);
}

INLINE simde__m512i emulated_cvtepi8_epi32(__m128i v) {
    simde__m512i_private wide;
    wide.m256i[0] = _mm256_cvtepi8_epi32(v);
    wide.m256i[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8));
    return simde__m512i_from_private(wide);
}

INLINE simde__m512i emulated_cvtepi8_epi16(__m256i v) {
    simde__m512i_private wide;
    wide.m256i[0] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v));
    wide.m256i[1] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1));
    return simde__m512i_from_private(wide);
}

INLINE simde__m512i emulated_maskz_loadu_epi8(__mmask64 mask, const void *from) {
    simde__m512i_private bytes;
    for (int i = 0; i < 64; i++)
        bytes.i8[i] = mask >> i & 1 ? ((const int8_t *)from)[i] : 0;
    return simde__m512i_from_private(bytes);
}

#define _mm512_roundscale_pd(v, how)                                                               \
    __extension__({                                                                                \
        simde__m512d_private rounded = simde__m512d_to_private(v);                                 \
        rounded.m256d[0] = _mm256_round_pd(rounded.m256d[0], how);                                 \
        rounded.m256d[1] = _mm256_round_pd(rounded.m256d[1], how);                                 \
        simde__m512d_from_private(rounded);                                                        \
    })
INLINE simde__m512 emulated_cvtepi32_ps(simde__m512i v) {
    const simde__m512i_private numbers = simde__m512i_to_private(v);
    simde__m512_private wide;
    for (int i = 0; i < 2; i++)
        wide.m256[i] = _mm256_cvtepi32_ps(numbers.m256i[i]);
    return simde__m512_from_private(wide);
}

INLINE simde__m512 emulated_fmadd_ps(simde__m512 a, simde__m512 b, simde__m512 c) {
    const simde__m512_private factor = simde__m512_to_private(a), other = simde__m512_to_private(b),
                              added = simde__m512_to_private(c);
    simde__m512_private wide;
    for (int i = 0; i < 2; i++)
        wide.m256[i] = _mm256_fmadd_ps(factor.m256[i], other.m256[i], added.m256[i]);
    return simde__m512_from_private(wide);
}

#define _mm512_cvtepi32_pd emulated_cvtepi32_pd
#define _mm512_cvtpd_epi32 emulated_cvtpd_epi32
#define __m512i simde__m512i
#define __m512d simde__m512d
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#undef _mm256_dpbusd_epi32
#define _mm256_dpbusd_epi32 simde_mm256_dpbusd_epi32
#define _mm512_castsi256_si512 simde_mm512_castsi256_si512
#define _mm512_castsi512_si256 simde_mm512_castsi512_si256
#define _mm512_dpbusd_epi32 simde_mm512_dpbusd_epi32
#define _mm512_extracti64x4_epi64 simde_mm512_extracti64x4_epi64
#define _mm512_inserti64x4 simde_mm512_inserti64x4
#define _mm512_loadu_si512 simde_mm512_loadu_si512
#define _mm512_maskz_loadu_epi8 emulated_maskz_loadu_epi8
#define _mm512_mullo_epi32 simde_mm512_mullo_epi32
#define _mm512_set1_epi32 simde_mm512_set1_epi32
#define _mm512_set1_epi8 simde_mm512_set1_epi8
#define _mm512_sub_epi32 simde_mm512_sub_epi32
#define _mm512_xor_si512 simde_mm512_xor_si512
#define _mm512_and_si512 simde_mm512_and_si512
#define _mm512_add_epi32 simde_mm512_add_epi32
#define _mm512_cvtepi32_epi8 emulated_cvtepi32_epi8
#define _mm512_max_epi32 simde_mm512_max_epi32
#define _mm512_min_epi32 simde_mm512_min_epi32
#define _mm512_permutex2var_epi32 simde_mm512_permutex2var_epi32
#define _mm512_storeu_si512 simde_mm512_storeu_si512
#define _mm512_add_pd simde_mm512_add_pd
#define _mm512_and_pd simde_mm512_and_pd
#define _mm512_castpd_si512 simde_mm512_castpd_si512
#define _mm512_fmadd_pd simde_mm512_fmadd_pd
#define _mm512_loadu_pd simde_mm512_loadu_pd
#define _mm512_mask_blend_pd simde_mm512_mask_blend_pd
#define _mm512_max_pd simde_mm512_max_pd
#define _mm512_min_pd simde_mm512_min_pd
#define _mm512_movepi64_mask simde_mm512_movepi64_mask
#define _mm512_mul_pd simde_mm512_mul_pd
#define _mm512_or_pd simde_mm512_or_pd
#define _mm512_set1_pd simde_mm512_set1_pd
#define _mm512_setzero_pd simde_mm512_setzero_pd
#define _mm512_sub_pd simde_mm512_sub_pd
#define _mm512_castpd_ps simde_mm512_castpd_ps
#define _mm512_castps_si512 simde_mm512_castps_si512
#define _mm512_castsi512_pd simde_mm512_castsi512_pd
#define _mm512_cvtepi8_epi16 emulated_cvtepi8_epi16
#define _mm512_permutexvar_epi16 simde_mm512_permutexvar_epi16
#define _mm512_cvtepi8_epi32 emulated_cvtepi8_epi32
#define _mm512_fnmadd_pd simde_mm512_fnmadd_pd
#define _mm512_max_epi8 simde_mm512_max_epi8
#define _mm512_min_epi8 simde_mm512_min_epi8
#define _mm512_packs_epi16 simde_mm512_packs_epi16
#define _mm512_packs_epi32 simde_mm512_packs_epi32
#define _mm512_permutex2var_pd simde_mm512_permutex2var_pd
#define _mm512_permutexvar_epi32 simde_mm512_permutexvar_epi32
#define _mm512_setr_epi64 simde_mm512_setr_epi64
#define _mm512_shuffle_ps simde_mm512_shuffle_ps
#define _mm512_unpackhi_epi16 simde_mm512_unpackhi_epi16
#define _mm512_unpackhi_epi32 simde_mm512_unpackhi_epi32
#define _mm512_unpackhi_epi8 simde_mm512_unpackhi_epi8
#define _mm512_unpacklo_epi16 simde_mm512_unpacklo_epi16
#define _mm512_unpacklo_epi8 simde_mm512_unpacklo_epi8
#define _mm512_unpacklo_epi32 simde_mm512_unpacklo_epi32
#define _mm256_dpwssd_avx_epi32 simde_mm256_dpwssd_epi32
#define _mm256_dpwssd_epi32 simde_mm256_dpwssd_epi32
#define _mm512_dpwssd_epi32 simde_mm512_dpwssd_epi32
#define _mm512_setzero_si512 simde_mm512_setzero_si512
#undef _mm512_setr_epi32
#define _mm512_setr_epi32 simde_mm512_setr_epi32
#define __m512 simde__m512
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#define _mm512_fmadd_ps emulated_fmadd_ps
#define _mm512_mask_blend_ps simde_mm512_mask_blend_ps
#define _mm512_movepi32_mask simde_mm512_movepi32_mask
#define _mm512_packus_epi16 simde_mm512_packus_epi16
#define _mm512_adds_epi16 simde_mm512_adds_epi16
#define _mm512_max_epu8 simde_mm512_max_epu8
#define _mm512_min_epu8 simde_mm512_min_epu8
#define _mm512_set1_ps simde_mm512_set1_ps
#define _mm512_set1_epi16 simde_mm512_set1_epi16
#define _mm512_loadu_ps simde_mm512_loadu_ps
#define _mm512_castsi128_si512 simde_mm512_castsi128_si512
#define _mm512_castsi512_si128 simde_mm512_castsi512_si128
#define _mm512_broadcast_i32x4 simde_mm512_broadcast_i32x4
#define _mm512_mask_broadcast_i32x4 simde_mm512_mask_broadcast_i32x4
#define _mm512_shuffle_epi8 simde_mm512_shuffle_epi8
#define _mm512_unpacklo_epi64 simde_mm512_unpacklo_epi64
#define _mm512_unpackhi_epi64 simde_mm512_unpackhi_epi64
#define _mm512_extracti32x4_epi32 simde_mm512_extracti32x4_epi32
